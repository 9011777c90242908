"""Reductions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import GraphDraft
from subgraphkit_onednn.lowering.registry import LOWERINGS, single_output

__all__ = ["reduction"]

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ReduceL1": "reduce_l1",
        "ReduceL2": "reduce_l2",
        "ReduceMean": "reduce_mean",
        "ReduceProd": "reduce_prod",
        "ReduceSum": "reduce_sum",
        "ReduceSumSquare": "reduce_sum",
    }
)


_NORMS: Final = frozenset({"ReduceL1", "ReduceL2"})

# ReduceMax and ReduceMin are not here: oneDNN's lose NaN, by which masked rows are recognised.


def reduction(draft: GraphDraft, node: Node) -> None:
    """Lower a reduction along constant axes.

    Axes of length one are only dropped: oneDNN ends the process over a reduction of nothing.
    """
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    if node.op_type == "ReduceSumSquare":
        x = draft.add("square", [x], draft.like(x))
    axes = _axes(draft, node, len(x.dims))
    longer = tuple(axis for axis in axes if x.dims[axis] > 1)
    if longer:
        kept = tuple(1 if axis in longer else length for axis, length in enumerate(x.dims))
        output = y if kept == y.dims else draft.like(y, kept)
        x = draft.add(_KINDS[node.op_type], [x], output, axes=longer, keep_dims=True)
    elif axes and node.op_type in _NORMS:
        x = draft.add("abs", [x], draft.like(x))
    if x is not y:
        draft.stand_for(node.outputs[0], x)


LOWERINGS.update(dict.fromkeys(_KINDS, reduction))


def _axes(draft: GraphDraft, node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce, ascending; none if there is nothing to do."""
    given = node.attribute("axes", None)
    if given is None:
        stored = draft.read(node, 1)
        given = None if stored is None else stored.reshape(-1).tolist()
    if not given:
        return () if node.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({int(axis) % rank for axis in given}))
