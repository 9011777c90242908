# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.testing.cases import (
    Case,
    Finding,
    Outcome,
)
from subgraphkit.testing.checking import (
    check_backend,
)
from subgraphkit.testing.onnx_adapter import (
    onnx_backend,
)
from subgraphkit.testing.report import (
    Report,
)
from subgraphkit.testing.subject import (
    Subject,
)

__all__ = [
    "Case",
    "Finding",
    "Outcome",
    "Report",
    "Subject",
    "check_backend",
    "onnx_backend",
]
