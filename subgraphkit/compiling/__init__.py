"""Compiling: each subgraph to its operator; the fourth step of the road."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
