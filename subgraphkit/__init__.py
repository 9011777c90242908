"""Split an ONNX model into subgraphs, give each to the backend that runs it best, run the whole.

The road is ``load``, ``bind``, ``partition``, ``compile_subgraphs``, ``plan`` and ``Session.run``;
``InferenceSession`` is that road in one call. Names are loaded when first used, so that importing
the package costs milliseconds and pulls in neither NumPy nor onnx.
"""

from typing import Final

import lazy_loader

__version__: Final = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
