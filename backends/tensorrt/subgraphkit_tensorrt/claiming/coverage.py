"""Coverage of a model by TensorRT, counted in nodes and in multiplications, against what was asked.

Source: ONNX operator definitions, for the number of multiplications.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.errors import BackendError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.types import TensorType
from subgraphkit_tensorrt.backend_options import Options

_SHOWN: Final = 5


def check_coverage(
    graph: BoundGraph,
    taken: Collection[int],
    refusals: Mapping[int, Refusal],
    options: Options,
) -> None:
    """Compare what TensorRT has with what the user demands.

    Raises:
        BackendError: It is less (SGK165).
    """
    nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
    demands = (
        ("require_nodes", options.require_nodes, "nodes", _one),
        ("require_flops", options.require_flops, "work", multiplications),
    )
    for option, wanted, what, weigh in demands:
        if not wanted:
            continue
        total = sum(map(weigh, nodes))
        have = sum(weigh(node) for node in nodes if node.id in taken)
        share = have / total if total else 1.0
        if share < wanted:
            left = [node for node in nodes if node.id not in taken]
            left = sorted(left, key=weigh, reverse=True)
            lines = [*_refused(left, refusals), *_too_small(left, refusals, options)]
            raise BackendError(
                "SGK165",
                f"{share:.1%} of the {what} of the model are on TensorRT, option {option!r} asks "
                f"for {wanted:.1%}",
                backend="tensorrt",
                hint="\n".join(lines),
                share=share,
                nodes=tuple(node.id for node in left),
            )


def multiplications(node: Node) -> int:
    """Estimate the multiplications of a node; 0 where a shape is not known, or there are few."""
    count = _COUNTS.get(node.op_type) if not node.domain else None
    return count(node) if count is not None else 0


def _one(node: Node) -> int:
    del node
    return 1


def _refused(left: Sequence[Node], refusals: Mapping[int, Refusal]) -> Iterator[str]:
    """Name the nodes that are refused for what they are, the weightiest first."""
    named = [node for node in left if not _is_small(node, refusals)]
    for node in named[:_SHOWN]:
        yield f"{node.label}: {refusals.get(node.id, 'in a subgraph that was given back')}"
    if len(named) > _SHOWN:
        yield f"and {len(named) - _SHOWN} more; see session.partitioning.report()"


def _too_small(
    left: Sequence[Node], refusals: Mapping[int, Refusal], options: Options
) -> Iterator[str]:
    """Name the nodes that could be taken, and are left because there are few of them together."""
    named = [node.label for node in left if _is_small(node, refusals)]
    if named:
        shown = named[:_SHOWN] + ([f"{len(named) - _SHOWN} more"] if len(named) > _SHOWN else [])
        yield (
            f"{', '.join(shown)}: in regions of fewer than {options.min_subgraph_nodes} nodes, "
            "which are left to other backends; option min_subgraph_nodes sets the limit"
        )


def _is_small(node: Node, refusals: Mapping[int, Refusal]) -> bool:
    refusal = refusals.get(node.id)
    return refusal is not None and refusal.code == "too_small"


def _size(node: Node, place: int, *, made: bool = False) -> tuple[int, ...]:
    """Return the known shape of an input or output; unknown lengths count as 1."""
    type_ = node.output_type(place) if made else node.input_type(place)
    if not isinstance(type_, TensorType) or type_.shape is None:
        return ()
    return tuple(dim if isinstance(dim, int) else 1 for dim in type_.shape)


def _convolution(node: Node) -> int:
    # Each output (for the transposed, input) element takes part in one product per weight of its
    # channel.
    weights = _size(node, 1)
    over = _size(node, 0) if node.op_type == "ConvTranspose" else _size(node, 0, made=True)
    return prod(over) * prod(weights[1:]) if weights and over else 0


def _product(node: Node) -> int:
    first, made = _size(node, 0), _size(node, 0, made=True)
    if not first:
        return 0
    inner = first[0] if node.attribute("transA", 0) else first[-1]
    return prod(made) * inner


def _recurrent(node: Node) -> int:
    sequence, weights, states = _size(node, 0), _size(node, 1), _size(node, 2)
    return prod(sequence[:2]) * (prod(weights) + prod(states)) if sequence and weights else 0


def _attention(node: Node) -> int:
    queries, keys = _size(node, 0), _size(node, 1)
    return 2 * prod(queries) * keys[-2] if queries and len(keys) > 1 else 0


_COUNTS: Final = {
    "Attention": _attention,
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "GRU": _recurrent,
    "Gemm": _product,
    "LSTM": _recurrent,
    "MatMul": _product,
    "QLinearConv": lambda node: prod(_size(node, 0, made=True)) * prod(_size(node, 3)[1:]),
    "QLinearMatMul": _product,
    "RNN": _recurrent,
}
