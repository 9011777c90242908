"""Models of one node, and numbers that a narrower type on the way would round.

A runtime that computes int64 through double, int32 or double through float, is right on small
numbers and silently wrong on these.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from subgraphkit.comparing.small_models import SmallModel, model_of

__all__ = ["ExactModel", "exact_models"]

_HEADER: Final = '<ir_version: 10, opset_import: ["" : 18]>'
_SHAPE: Final = (3, 4)
_TYPES: Final = ("int64", "uint64", "int32", "uint32", "double")
_BODIES: Final = {
    "Add": ("y = Add(a, b)", "[3,4]"),
    "Sub": ("y = Sub(a, b)", "[3,4]"),
    "Mul": ("y = Mul(a, small)", "[3,4]"),
    "Max": ("y = Max(a, b)", "[3,4]"),
    "Min": ("y = Min(a, b)", "[3,4]"),
    "Equal": ("y = Equal(a, b)", "[3,4]"),
    "Less": ("y = Less(a, b)", "[3,4]"),
    "Where": ("y = Where(which, a, b)", "[3,4]"),
    "Concat": ("y = Concat<axis=0>(a, b)", "[6,4]"),
    "Transpose": ("y = Transpose(a)", "[4,3]"),
    "Gather": ("y = Gather<axis=0>(a, place)", "[2,4]"),
    "ReduceSum": ("y = ReduceSum<keepdims=0>(a, axes)", "[3]"),
    "ReduceMax": ("y = ReduceMax<keepdims=0>(a, axes)", "[3]"),
    "Einsum": ('y = Einsum<equation="ij->i">(a)', "[3]"),
    "Pow": ("y = Pow(a, one)", "[3,4]"),
    "CumSum": ("y = CumSum(a, axis)", "[3,4]"),
    "MatMul": ("y = MatMul(a, turned)", "[3,3]"),
}
_RESULTS: Final = {"Equal": "bool", "Less": "bool"}
_DEFINED: Final = {"Pow": ("int64", "int32", "double")}
"""The types of operators that are not defined for all."""
_DRAWN: Final = ("a", "b", "small", "turned", "one")
"""The inputs of the type in question."""
_INPUTS: Final = {
    "which": ("bool[3,4]", np.arange(12).reshape(_SHAPE) % 3 == 0),
    "place": ("int64[2]", np.array([2, 0])),
    "axes": ("int64[1]", np.array([1])),
    "axis": ("int64", np.array(1)),
}
"""The other inputs, with what is fed."""
_DIGITS: Final = {"int64": 53, "uint64": 53, "int32": 24, "uint32": 24}
"""The bits an integer must have more than to be rounded by the float of the same size."""


class ExactModel(SmallModel):
    """A model of one node on numbers of a type.

    Args:
        operator: The operator.
        element_type: The type, as onnx's text form has it.
    """

    def __init__(self, operator: str, element_type: str) -> None:
        body, shape = _BODIES[operator]
        words = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
        drawn = [name for name in _DRAWN if name in words]
        shapes = {"turned": "[4,3]"}
        inputs = [f"{element_type}{shapes.get(name, '[3,4]')} {name}" for name in drawn]
        inputs += [f"{type_} {name}" for name, (type_, _) in _INPUTS.items() if name in words]
        result = _RESULTS.get(operator, element_type) + shape
        text = f"{operator}_{element_type} ({', '.join(inputs)}) => ({result} y) {{ {body} }}"
        super().__init__(model_of(text, _HEADER))
        self._element_type, self._drawn = element_type, drawn

    def feeds(self, seed: int = 0) -> Mapping[str, Any]:
        """Return something to feed; another seed gives other values."""
        rng = np.random.default_rng(seed)
        feeds: dict[str, Any] = {name: self._numbers(name, rng) for name in self._drawn}
        if "b" in feeds:
            # neighbours, which a narrower type takes for the same
            step = 1e-12 if self._element_type == "double" else 1
            feeds["b"].flat[::2] = feeds["a"].flat[::2] + feeds["b"].dtype.type(step)
            feeds["b"].flat[::4] = feeds["a"].flat[::4]
        wanted = {value.name for value in self.proto.graph.input}
        return feeds | {name: fed for name, (_, fed) in _INPUTS.items() if name in wanted}

    def _numbers(self, name: str, rng: np.random.Generator) -> Any:
        shape = _SHAPE[::-1] if name == "turned" else _SHAPE
        if name == "one":
            return np.ones(shape, self._element_type)
        if self._element_type == "double":
            return 1 + rng.random(shape) * 1e-6
        dtype = np.dtype(self._element_type)
        if name in {"small", "turned"}:
            return rng.integers(1, 5, shape).astype(dtype)
        digits = _DIGITS[self._element_type]
        # four times as much still fits the type
        return (rng.integers(1 << digits, 1 << (digits + 4), shape) | 1).astype(dtype)


def exact_models() -> Iterator[ExactModel]:
    """Yield a model for every operator and every type it is defined for."""
    for operator in _BODIES:
        for element_type in _DEFINED.get(operator, _TYPES):
            yield ExactModel(operator, element_type)
