"""Models written anew in fp16, bf16, int8 or fp8, so that every backend can run them.

Nothing is run here. Ranges come from ``subgraphkit.precision``, a file, or another tool.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
