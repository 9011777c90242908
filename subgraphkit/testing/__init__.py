"""The conformance kit: says whether a backend is right, case by case.

``subgraphkit test NAME`` and ``pytest --pyargs subgraphkit.testing --subgraph-backend=NAME`` run
it; ``check_backend`` is for people without either. Names are imported when they are first used, so
that pytest may load the plugin at no cost to those who test something else.
"""

from importlib import import_module
from typing import Final

_HOMES: Final = {
    "Case": "cases",
    "Finding": "cases",
    "Outcome": "cases",
    "Report": "report",
    "Subject": "subject",
    "check_backend": "checking",
    "onnx_backend": "onnx_backend",
}
"""By public name, the module of this package that defines it."""

__all__ = ["Case", "Finding", "Outcome", "Report", "Subject", "check_backend", "onnx_backend"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
