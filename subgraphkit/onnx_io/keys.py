"""Keys of nodes: those that are alike have one, so a library has to be asked about one of them."""

from collections.abc import Callable
from typing import Any

from subgraphkit.ir import Initializer, Node
from subgraphkit.onnx_io.writing import may_leave

__all__ = ["node_key"]


def node_key(
    node: Node,
    types: Callable[[str], object],
    is_inside: Callable[[Initializer], bool] = lambda constant: not may_leave(constant.type),
    *,
    with_output_types: bool = True,
) -> str:
    """Write what an answer about a node by itself can depend on; names are no part of it.

    Those are the operator, its version and attributes, which inputs and outputs there are, their
    types, and the data of small constants; of a node with bodies, all operator sets and what the
    bodies read from outside, by name.

    Args:
        node: The node.
        types: Returns the type of a value by name, as far as it counts.
        is_inside: Says of a constant whether its data counts beside its type; unless given, that
            of those counts which ``Subgraph.to_model(weights="outside")`` leaves inside.
        with_output_types: Whether types of outputs count, or only which there are.

    Raises:
        InvalidModelError: The data of a constant cannot be read (SGK208, SGK211).
    """
    graph = node.graph

    def trait(name: str) -> tuple[str, ...] | tuple[str, Any]:
        constant = graph.constants.get(name)
        if constant is None or not is_inside(constant):
            return (str(types(name)),) if name else ()
        array = constant.array()
        return str(constant.type), array.tolist() if array.dtype.hasobject else array.tobytes()

    attributes = graph.writer.node_proto(node).attribute if graph.writer is not None else ()
    key: list[Any] = [
        (node.domain, node.op_type, node.opset),
        [one.SerializeToString(deterministic=True) for one in attributes],
        [trait(name) for name in node.inputs],
        [trait(name) if with_output_types else bool(name) for name in node.outputs],
    ]
    if node.bodies:
        key += [sorted(graph.opset_imports.items()), [(n, trait(n)) for n in node.captures]]
    return repr(key)
