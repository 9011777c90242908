"""A model of one input and one output, with something to feed and what it must compute."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import parser

ROWS: Final = 4
"""Size of an axis that has none in the model, in what is fed."""

_HEADER: Final = '<ir_version: 10, opset_import: ["" : 17]>'
POSITIVE: Final = "var"
"""How the name of a weight begins that must not be negative."""

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class SmallModel:
    """A model with one input ``x`` and one output ``y``."""

    proto: onnx.ModelProto

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.proto.graph.name)

    def feeds(self, seed: int = 0) -> Mapping[str, _Array]:
        """Return something to feed; another seed gives other values."""
        tensor = self.proto.graph.input[0].type.tensor_type
        shape = [ROWS if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        drawn = np.random.default_rng(seed).standard_normal(shape)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        return {"x": _of_type(drawn, dtype)}

    def expected(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what onnx's own implementation computes."""
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (few compare)

        return list(ReferenceEvaluator(self.proto).run(None, dict(feeds)))


def model_of(text: str, header: str = _HEADER) -> onnx.ModelProto:
    """Read a model in onnx's text form.

    Args:
        text: The graph. Values that are declared and made by no node become initializers with
            numbers drawn, unless they have some.
        header: Versions of the format and of the operator sets.
    """
    model = parser.parse_model(f"{header} {text}")
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    declared = [value for value in graph.value_info if value.name not in made]
    rng = np.random.default_rng(5)
    for value in declared:
        tensor = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        drawn = rng.standard_normal(shape)
        if value.name.startswith(POSITIVE):
            drawn = abs(drawn) + 1
        elif dtype.kind not in "iub":
            drawn = drawn / 4
        weights = onnx.numpy_helper.from_array(_of_type(drawn, dtype), value.name)
        graph.initializer.append(weights)
        graph.value_info.remove(value)
    return model


def _of_type(drawn: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> _Array:
    """Spread numbers around 0 over the values of a type."""
    if dtype.kind == "b":
        return np.asarray(drawn > 0)
    if dtype.kind == "u":
        drawn = abs(drawn)
    return np.asarray(drawn * 4 if dtype.kind in "iu" else drawn).astype(dtype)
