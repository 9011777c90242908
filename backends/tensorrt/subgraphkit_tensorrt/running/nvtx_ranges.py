"""Regions as NVTX ranges, which NVIDIA's profilers show, with the names of their ONNX nodes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Final

from subgraphkit.errors import OptionError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.running.operator import TensorRTOperator

__all__ = ["MarkedOperator", "range_of"]

_DOMAIN: Final = "subgraphkit"
_SHOWN: Final = 8


def range_of(subgraph: Subgraph) -> Callable[[], AbstractContextManager[Any]]:
    """Return what opens a range named after a region and its first nodes.

    Raises:
        OptionError: The package nvtx is not installed (SGK168).
    """
    try:
        annotate = import_module("nvtx").annotate
    except ImportError as error:
        raise OptionError(
            "SGK168",
            "option 'nvtx' of backend 'tensorrt' needs the package nvtx, which cannot be imported: "
            f"{error}",
            hint="Install it: pip install 'subgraphkit-tensorrt[nvtx]'",
            backend="tensorrt",
            option="nvtx",
        ) from error
    labels = [node.label for node in subgraph.members]
    more = f" and {len(labels) - _SHOWN} more" if labels[_SHOWN:] else ""
    text = f"{subgraph.id}: {', '.join(labels[:_SHOWN])}{more}"
    return lambda: annotate(text, domain=_DOMAIN)


class MarkedOperator(TensorRTOperator):
    """A region whose runs are NVTX ranges; TensorRT's own, by layer, are inside."""

    def __init__(self, marked: Callable[[], AbstractContextManager[Any]], *made: Any) -> None:
        super().__init__(*made)
        self._marked = marked

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        with self._marked():
            return super().run(inputs, outputs)
