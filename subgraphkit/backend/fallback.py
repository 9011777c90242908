"""A region on the fallback backend, for runs that a library cannot compute."""

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import zip_longest
from math import ceil
from threading import Lock
from typing import Any, Final

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.errors import ExecutionError, SubgraphkitWarning
from subgraphkit.ir import EMPTYING, Node, Subgraph, emptying_node
from subgraphkit.types import Dim, TensorType

_POOLS: Final = frozenset({"AveragePool", "LpPool", "MaxPool"})
_WINDOWS: Final = _POOLS | frozenset((
    "Conv", "ConvInteger", "ConvTranspose", "FusedConv", "If", "Loop", "Pad", "QLinearConv", "Scan",
))  # fmt: skip
_MOVING: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Behind them another axis may be shorter than a window."""
_MOST_AXES: Final = 3
_FEW: Final = 1 << 14
"""Up to so many elements of all inputs, a window may be wider than its input, or a value inside may
be empty."""


class RegionFallback:
    """Compiles a region for the fallback backend when a run first needs it, and warns then.

    Args:
        subgraph: The region.
        compile_region: Compiles it; ``BindContext.compile`` does.
        reason: Why such runs go elsewhere, for the warning: which feeds, to which library.

    Thread-safety: any number of threads may call.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        compile_region: Callable[[Subgraph], SubgraphOperator],
        reason: str,
    ) -> None:
        self._subgraph, self._compile, self._reason = subgraph, compile_region, reason
        self._lock = Lock()
        self._operator: SubgraphOperator | None = None
        members = subgraph.members if self.has_open(_POOLS) else ()
        needed = _least_sizes(members)
        self._short: list[tuple[int, int, int]] = []
        for place, name in enumerate(subgraph.inputs if members else ()):
            least = _longest(needed[node.id] for node in members if name in node.inputs)
            sizes = (subgraph.graph.shape(name) or ())[:0:-1]
            for behind, (need, size) in enumerate(zip(least, sizes, strict=False), 1):
                is_asked = need > 1 and not isinstance(size, int)
                self._short += [(place, -behind, need)] if is_asked else []

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None) -> Sequence[Any]:
        """Run on the fallback backend.

        Raises:
            ExecutionError: There is no other backend that runs it (SGK131).
        """
        with self._lock:
            if self._operator is None:
                self._operator = self._make_operator()
            operator = self._operator
            if not operator.traits.thread_safe:
                return operator.run(inputs, outputs)
        return operator.run(inputs, outputs)

    def falls_short(self, inputs: Sequence[Any]) -> bool:
        """Say whether open axes that are fed, but the first, may be less than windows need.

        Some libraries make an element of less than a window.
        """
        short = self._short
        return bool(short) and any(inputs[at].shape[axis] < least for at, axis, least in short)

    def may_help(self, inputs: Sequence[Any]) -> bool:
        """Say whether a failed run may be right elsewhere.

        ONNX defines the results for empty inputs, and for less than a window; many libraries do
        not.
        """
        sizes = [one.size for one in inputs if hasattr(one, "size")]
        is_few = 0 in sizes or sum(sizes) <= _FEW
        return is_few and self.has_open(None if 0 in sizes else _WINDOWS | EMPTYING)

    def has_open(self, op_types: Collection[str] | None = None) -> bool:
        """Say whether an input of an operator, of these or of any, has an open size."""
        members = self._subgraph.members
        return any(_is_open(one) for one in members if op_types is None or one.op_type in op_types)

    @staticmethod
    def emptied_by(node: Node, *, of_less: bool = False) -> Node | None:
        """Return a node that may make an empty value for this node, if an input has an open size.

        The feeds of a region do not show that, so claims ask.

        ``of_less``: Ask for a value of fewer elements than a window, too.
        """
        return emptying_node(node, of_less=of_less) if _is_open(node) else None

    def run_instead(
        self, error: Exception, inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> Sequence[Any]:
        """Run the failed region on the fallback backend.

        Raises:
            Exception: It fails here as well, so ``error`` says more.
        """
        try:
            return self.run(inputs, outputs)
        except Exception:  # noqa: BLE001 (whatever it is)
            raise error from None

    def close(self) -> None:
        """Close the operator of the fallback backend."""
        with self._lock:
            operator, self._operator = self._operator, None
        if operator is not None:
            operator.close()

    def _make_operator(self) -> SubgraphOperator:
        try:
            operator = self._compile(self._subgraph)
        except Exception as error:
            raise ExecutionError(
                "SGK131",
                f"{self._reason}, and no other backend runs it: {error}",
                backend=self._subgraph.backend,
                subgraph=self._subgraph.id,
                hint=f"Leave {self._subgraph.backend} out of the list for such inputs.",
            ) from error
        text = f"{self._reason}; such runs go to the fallback backend"
        warnings.warn(SubgraphkitWarning(text), stacklevel=6)
        return operator


def _least_sizes(nodes: Sequence[Node]) -> dict[int, list[int]]:
    """Return how long axes that nodes read have to be, the last first, for all windows behind."""
    found: dict[int, list[int]] = {}
    for node in reversed(nodes):
        least = _longest(found.get(one.id, []) for one in node.consumers())
        if node.op_type in _MOVING:
            least = [max(least, default=1)] * _MOST_AXES
        elif node.op_type == "SpaceToDepth":
            least = [size * node.attributes["blocksize"] for size in least]
        elif node.op_type == "Resize":
            scales = node.constant(len(node.inputs[:3]) - 1)
            least = [ceil(size / min([1, *(() if scales is None else scales)])) for size in least]
        elif node.op_type in _POOLS | {"Conv"} and "SAME" not in node.attribute("auto_pad", ""):
            least = _longest([least, _rooms(node, least)])
        found[node.id] = least
    return found


def _longest(several: Iterable[Sequence[int]]) -> list[int]:
    return [max(sizes) for sizes in zip_longest(*several, fillvalue=1)]


def _rooms(node: Node, counts: list[int]) -> list[int]:
    """Return how long axes are at least, the last first, of which a node makes so many windows."""
    taps = node.attribute("kernel_shape", None) or (node.shape(1) or ())[2:]
    ones, pads = (1,) * len(taps), node.attribute("pads", None) or (0,) * 2 * len(taps)
    steps, wide = (node.attribute(name, None) or ones for name in ("strides", "dilations"))
    given = map(reversed, (taps, steps, wide, pads[: len(taps)], pads[len(taps) :]))
    return [
        (count - 1) * s + (k - 1) * d + 1 - low - high if isinstance(k, int) else count
        for count, k, s, d, low, high in zip(counts + [1] * len(taps), *given, strict=False)
    ]


def _is_open(node: Node) -> bool:
    if node.op_type.startswith("Reduce") and (shape := node.shape(0)):
        axes = node.attribute("axes", node.constant(1))
        if axes is not None and len(axes):
            return not all(isinstance(shape[axis], int) for axis in axes)
    return bool(node.bodies) or any(_open_sizes(node, at) for at in range(len(node.inputs)))


def _open_sizes(node: Node, place: int) -> set[Dim]:
    """Return the sizes of an input that are not known; None of a rank that is not."""
    type_ = node.input_type(place)
    shape = type_.shape if isinstance(type_, TensorType) else ()
    return {size for size in ((None,) if shape is None else shape) if not isinstance(size, int)}
