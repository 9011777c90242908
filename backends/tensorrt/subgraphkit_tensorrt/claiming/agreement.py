"""Agreement between a parsed network and the types of the ONNX model, value by value.

The parser takes some operators and makes something else of them: recurrent networks with another
layout, poolings that round up to another size, narrower element types. All of that shows in the
types of values, inside the network as well as at its edge.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from subgraphkit.ir import Graph
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_tensorrt.building.network import element_type
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.rules.static_rules import Rules

__all__ = ["Expectation", "disagreements"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """The types that a network is held to.

    Attributes:
        graph: The graph; has the types of values.
        names: By the name of a value in the model that was parsed, that in the graph.
        rules: Know under which types TensorRT has values.
        library: The library.
    """

    graph: Graph
    names: Mapping[str, str]
    rules: Rules
    library: Library


def disagreements(
    network: Any, parser: Any, proto: Any, expected: Expectation
) -> Iterator[tuple[str, str]]:
    """Compare every value of a network that can be looked at with the type ONNX gives it.

    Args:
        network: The network.
        parser: The parser that made it.
        proto: The model it was made from.
        expected: What to hold it to.

    Yields:
        The name of a value in the model, and one sentence on it.
    """
    tensors = dict(_tensors(network, parser, proto))
    for name, tensor in tensors.items():
        value = expected.names.get(name, name)
        problem = _disagreement(tensor, expected.graph.types.get(value), expected)
        if problem:
            yield name, f"TensorRT makes {problem} of {value!r}"


def _tensors(network: Any, parser: Any, proto: Any) -> Iterator[tuple[str, Any]]:
    for place in range(network.num_inputs):
        tensor = network.get_input(place)
        yield tensor.name, tensor
    for node in proto.graph.node:
        for place, name in enumerate(node.output):
            tensor = parser.get_layer_output_tensor(node.name, place) if name else None
            if tensor is not None:
                yield name, tensor
    for place in range(network.num_outputs):
        tensor = network.get_output(place)
        yield tensor.name, tensor


def _disagreement(tensor: Any, type_: ValueType | None, expected: Expectation) -> str:
    if not isinstance(type_, TensorType):
        return ""
    dtype = element_type(expected.library.trt, tensor.dtype)
    wanted = expected.rules.element_type(type_.dtype)
    shape = tuple(tensor.shape)
    # A length of -1 means that nothing is known of it.
    fits = type_.shape is None or (
        len(shape) == len(type_.shape)
        and all(
            have in {want, -1} or not isinstance(want, int)
            for have, want in zip(shape, type_.shape, strict=True)
        )
    )
    if fits and (dtype is wanted or DataType.UNDEFINED in {dtype, wanted}):
        return ""
    return f"{TensorType(dtype, tuple(None if dim < 0 else dim for dim in shape))}, not {type_},"
