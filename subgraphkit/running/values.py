"""Inputs and outputs of a session: their descriptions, and the places of those asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subgraphkit.ir import BoundGraph
from subgraphkit.running.messages import no_output, not_a_list
from subgraphkit.texts import listed, printable
from subgraphkit.types import Dim, TensorType, ValueType

__all__ = ["NodeArg", "described", "node_args", "places_of"]

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a session, as ONNX Runtime's class of that name describes it.

    Attributes:
        name: Name of the value.
        shape: One entry per axis: an int, the name of a symbol, or None; empty for scalars and
            for values that are not tensors or whose rank is not known.
        type: Type as text, such as ``tensor(float)``.
    """

    name: str
    shape: list[Dim]
    type: str


def node_args(graph: BoundGraph, names: tuple[str, ...]) -> list[NodeArg]:
    """Describe values by name."""
    return [_node_arg(name, graph.types.get(name)) for name in names]


def places_of(names: Sequence[str], outputs: Mapping[str, int]) -> list[int]:
    """Return the places of outputs that are asked for.

    Args:
        names: Their names.
        outputs: The places of all, by name.

    Raises:
        InputError: There is none of a name, or the names are one text (SGK143).
    """
    if isinstance(names, str):
        raise not_a_list(names)
    try:
        return [outputs[name] for name in names]
    except KeyError as error:
        raise no_output(error.args[0], outputs) from None


def described(kind: str, graph: BoundGraph, summary: str, state: str) -> str:
    """Return a session in three lines: the model and who runs it, its inputs, its outputs.

    Args:
        kind: The name of its class.
        graph: The bound model.
        summary: Who runs it.
        state: A word to add, such as "closed", or nothing.
    """
    head = ", ".join(filter(None, (repr(graph.name), summary, state)))
    lines = [f"{kind}({head})"]
    for what, names in (("in", graph.inputs), ("out", graph.outputs)):
        shown = [f"{name} {graph.types.get(name, '?')}" for name in names]
        lines.append(f"  {what}: {printable(listed(shown, _SHOWN))}")
    return "\n".join(lines)


def _node_arg(name: str, type_: ValueType | None) -> NodeArg:
    shape = list(type_.shape or ()) if isinstance(type_, TensorType) else []
    return NodeArg(name, shape, type_.onnx_name if type_ is not None else "")
