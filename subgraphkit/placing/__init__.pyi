# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.placing import (
    background,
    tuning_child,
)
from subgraphkit.placing.inference_session import (
    InferenceSession,
    SessionSpec,
)
from subgraphkit.placing.tuning import (
    Tuning,
    tune,
)

__all__ = [
    "InferenceSession",
    "SessionSpec",
    "Tuning",
    "background",
    "tune",
    "tuning_child",
]
