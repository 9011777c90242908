"""The conformance kit: says whether a backend is right, case by case.

``subgraphkit test NAME`` and ``pytest --pyargs subgraphkit.testing --subgraph-backend=NAME`` run
it; ``check_backend`` is for people without either. Names are imported when they are first used, so
that pytest may load the plugin at no cost to those who test something else.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Case": "subgraphkit.testing.cases",
    "Finding": "subgraphkit.testing.cases",
    "Outcome": "subgraphkit.testing.cases",
    "Report": "subgraphkit.testing.report",
    "Subject": "subgraphkit.testing.subject",
    "check_backend": "subgraphkit.testing.checking",
    "onnx_backend": "subgraphkit.testing.onnx_adapter",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
