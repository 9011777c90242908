"""Split an ONNX model into subgraphs, give each to the backend that runs it best, run the whole.

The road is ``load``, ``bind``, ``partition``, ``compile_subgraphs``, ``plan`` and ``Session.run``;
``InferenceSession`` is that road in one call. Names are loaded when first used, so that importing
the package costs milliseconds and pulls in neither NumPy nor onnx.
"""

from importlib.util import find_spec
from typing import Any, Final

import lazy_loader

__version__: Final = "0.1.0"

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_ELSEWHERE: Final = {
    "bisect": "comparing.bisect",
    "calibrate": "precision.calibrate",
    "convert": "precision.rewrite",
    "rewrite": "precision.rewrite",
}


def __getattr__(name: str) -> Any:
    from subgraphkit.lazy import collector_paused  # noqa: PLC0415 (asked once for each name)

    try:
        with collector_paused(importing=True):
            found = _attribute(name)
    except AttributeError:
        near = f"; it is subgraphkit.{_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        # Python asks here for every module of ours as well before it is imported
        if not near and find_spec(f"{__name__}.{name}") is None:
            from subgraphkit.backend.messages import did_you_mean  # noqa: PLC0415 (seldom)

            near = did_you_mean(name, __all__)
        raise AttributeError(f"subgraphkit has no attribute {name!r}{near}") from None
    globals()[name] = found
    return found
