"""Placement by measurement: the front door, and who runs what, before a session runs and while."""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "InferenceSession": "subgraphkit.placing.inference_session",
    "SessionSpec": "subgraphkit.placing.inference_session",
    "Tuning": "subgraphkit.placing.tuning",
    "background": "subgraphkit.placing.background",
    "tune": "subgraphkit.placing.tuning",
    "tuning_child": "subgraphkit.placing.tuning_child",
}
"""By public name, the module that defines it, or is it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
