"""The contract between the core and a backend: the classes its author writes and uses.

Names are imported when they are first used: the contract brings NumPy along, and hooks bring
pluggy, which ``import subgraphkit`` and ``list_backends`` must not pay for. ``__init__.pyi`` says
the same to type checkers; a test keeps the two alike.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
