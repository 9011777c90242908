"""Builder flags for TensorRT 8, whose networks do not keep the types of the model.

Nothing else in the backend knows of it, so that it can be taken out in one piece.
"""

from collections.abc import Iterator
from typing import Any, Final

from onnx import TensorProto

__all__ = ["allow_types_of"]

_FLAGS: Final[dict[int, str]] = {
    TensorProto.FLOAT16: "FP16",
    TensorProto.INT8: "INT8",
    TensorProto.BFLOAT16: "BF16",
}


def allow_types_of(proto: Any, config: Any, trt: Any) -> None:
    """Set the builder flags without which the types in a model would be computed in float32.

    Args:
        proto: The model.
        config: The builder configuration.
        trt: The library.
    """
    members = trt.BuilderFlag.__members__
    wanted = [_FLAGS[type_] for type_ in sorted(set(_types(proto.graph))) if type_ in _FLAGS]
    if any(node.op_type == "DequantizeLinear" for node in proto.graph.node):
        wanted.append("INT8")
    for name in dict.fromkeys(wanted):
        if name in members:
            config.set_flag(members[name])
    if wanted and "OBEY_PRECISION_CONSTRAINTS" in members:
        config.set_flag(members["OBEY_PRECISION_CONSTRAINTS"])


def _types(graph: Any) -> Iterator[int]:
    for tensor in graph.initializer:
        yield tensor.data_type
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            yield value.type.tensor_type.elem_type
