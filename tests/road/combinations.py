"""Random chains of operators as libraries fuse them: a producer, elementwise ones behind it."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["Chain", "model_of"]

_Shape = tuple[int, ...]
_Value = tuple[str, _Shape]

_REDUCING: Final = ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_ALONE: Final = ("Abs", "Elu", "Erf", "Exp", "Gelu", "HardSwish", "LeakyRelu", "Mish")
_ALONE_TOO: Final = ("Neg", "Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh", "Log")
_OF_TWO: Final = ("Add", "Div", "Equal", "Less", "Max", "Min", "Mul", "Pow", "Sub", "Where")
_NORMALIZING: Final = (
    *("Softmax", "LayerNormalization"),
    *("GroupNormalization", "InstanceNormalization"),
)
_LENGTHS: Final = (1, 2, 3, 3, 4, 5, 8, 17)
_OPSET: Final = 21


class Chain:
    """One chain, with an input of its own, so that nothing of it is shared with another."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = np.random.default_rng([seed, number])
        self._name = f"c{number}"
        self._count = 0
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.feeds: dict[str, npt.NDArray[Any]] = {}
        makers = (self._reduced, self._reduced, self._reduced, self._multiplied, self._windowed)
        makers += (self._normalized, self._moved, self._single)
        value = makers[self._rng.integers(len(makers))]()
        for _ in range(self._rng.integers(1, 4)):
            value = self._alone(value) if self._rng.random() < 0.25 else self._combined(value)
        self.output = value[0]

    @property
    def text(self) -> str:
        """The nodes with the shapes of what they read as constants."""
        shapes = {one.name: list(one.dims) for one in self.constants}
        shapes |= {name: list(array.shape) for name, array in self.feeds.items()}
        return "; ".join(
            f"{node.op_type}({', '.join(str(shapes.get(name, '_')) for name in node.input)})"
            for node in self.nodes
        )

    def _pick(self, choices: Sequence[Any]) -> Any:
        return choices[self._rng.integers(len(choices))]

    def _shape(self, low: int, high: int) -> _Shape:
        return tuple(self._pick(_LENGTHS) for _ in range(self._rng.integers(low, high + 1)))

    def _new(self) -> str:
        self._count += 1
        return f"{self._name}_{self._count}"

    def _draw(self, shape: _Shape) -> npt.NDArray[Any]:
        return np.asarray(self._rng.uniform(0.3, 1.7, shape), np.float32)

    def _fed(self, shape: _Shape) -> str:
        name = self._new()
        self.feeds[name] = self._draw(shape)
        return name

    def _stored(self, array: Any) -> str:
        name = self._new()
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = self._new()
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def _single(self) -> _Value:
        shape = self._shape(0, 5)
        return self._alone((self._fed(shape), shape))

    def _reduced(self) -> _Value:
        shape = self._shape(1, 5)
        value = self._fed(shape)
        if self._rng.random() < 0.3:
            order = self._rng.permutation(len(shape)).tolist()
            value = self._node("Transpose", value, perm=order)
            shape = tuple(shape[axis] for axis in order)
        if len(shape) < 4 and self._rng.random() < 0.3:
            at = int(self._rng.integers(len(shape) + 1))
            value = self._node("Unsqueeze", value, self._stored(np.array([at])))
            shape = (*shape[:at], 1, *shape[at:])
        some = min(int(self._pick((1, 1, 1, 2, 5))), len(shape))
        axes = self._rng.choice(len(shape), some, replace=False)
        keep = int(self._pick((0, 1)))
        made = self._node(
            f"Reduce{self._pick(_REDUCING)}", value, self._stored(axes), keepdims=keep
        )
        kept = [(axis, length) for axis, length in enumerate(shape) if keep or axis not in axes]
        return made, tuple(1 if axis in axes else length for axis, length in kept)

    def _multiplied(self) -> _Value:
        shape, width = self._shape(1, 4), int(self._pick((1, 3, 5)))
        if self._rng.random() < 0.3:
            value = self._node("MatMul", self._fed(shape), self._stored(self._draw(shape[-1:])))
            return value, shape[:-1]
        weight = self._stored(self._draw((shape[-1], width)))
        return self._node("MatMul", self._fed(shape), weight), (*shape[:-1], width)

    def _windowed(self) -> _Value:
        rank, size = int(self._pick((1, 2, 3))), int(self._pick((3, 4, 5)))
        shape = (int(self._pick((1, 2))), int(self._pick((1, 3))), *(size,) * rank)
        kernel = {"kernel_shape": [2] * rank}
        op = self._pick(("AveragePool", "MaxPool", "Conv", "GlobalAveragePool"))
        if op == "GlobalAveragePool":
            return self._node(op, self._fed(shape)), (*shape[:2], *(1,) * rank)
        inputs = [self._fed(shape)]
        channels = shape[1]
        if op == "Conv":
            channels = int(self._pick((1, 4, 8)))
            inputs.append(self._stored(self._draw((channels, shape[1], *(2,) * rank)) / 4))
        return self._node(op, *inputs, **kernel), (shape[0], channels, *(size - 1,) * rank)

    def _normalized(self) -> _Value:
        op = self._pick(
            ("Softmax", "LayerNormalization", "GroupNormalization", "InstanceNormalization")
        )
        shape = (2, 4, int(self._pick((3, 4))), *self._shape(0, 2))
        if op == "Softmax":
            axis = int(self._rng.integers(-len(shape), len(shape)))
            return self._node(op, self._fed(shape), axis=axis), shape
        length = shape[-1] if op == "LayerNormalization" else 4
        weights = [self._stored(self._draw((length,))) for _ in range(2)]
        groups = {"num_groups": 2} if op == "GroupNormalization" else {}
        return self._node(op, self._fed(shape), *weights, **groups), shape

    def _moved(self) -> _Value:
        shape = self._shape(1, 4)
        length = int(np.prod(shape))
        if self._rng.random() < 0.5:
            axis, index = int(self._rng.integers(len(shape))), self._pick((0, [0], [[0, -1]]))
            places = np.array(index, np.int64)
            made = (*shape[:axis], *places.shape, *shape[axis + 1 :])
            return self._node("Gather", self._fed(shape), self._stored(places), axis=axis), made
        target = self._pick(((length,), (1, length), (length, 1), (*shape, 1), (1, *shape)))
        sizes = self._stored(np.array(target, np.int64))
        return self._node("Reshape", self._fed(shape), sizes), target

    def _alone(self, value: _Value) -> _Value:
        op, name = self._pick(_ALONE + _ALONE_TOO), value[0]
        if op in {"Log", "Sqrt"}:
            name = self._node("Abs", name)
        return self._node(op, name), value[1]

    def _combined(self, value: _Value) -> _Value:
        name, shape = value
        other_shape = self._operand(shape)
        is_stored = self._rng.random() < 0.8
        other = self._stored(self._draw(other_shape)) if is_stored else self._fed(other_shape)
        made = tuple(np.broadcast_shapes(shape, other_shape))
        both = (other, name) if self._rng.random() < 0.4 else (name, other)
        op = self._pick(_OF_TWO)
        if op == "Where":
            chosen = self._node("Greater", name, self._stored(np.float32(1)))
            return self._node(op, chosen, *both), made
        if op == "Pow":
            return self._node(op, self._node("Abs", both[0]), self._node("Tanh", both[1])), made
        if op in {"Equal", "Less"}:
            return self._node("Cast", self._node(op, *both), to=onnx.TensorProto.FLOAT), made
        return self._node(op, *both), made

    def _operand(self, shape: _Shape) -> _Shape:
        """Draw a shape that is broadcast: of one number, by channel, in full, or the larger one."""
        forms: list[_Shape] = [(), (1,), shape, (1, *shape), (2, *shape), shape[1:]]
        forms.append(tuple(3 if length == 1 else length for length in shape))
        for axis, length in enumerate(shape):
            behind = (1,) * (len(shape) - axis - 1)
            forms += [(length, *behind), ((1,) * axis) + (length, *behind)]
        chosen: _Shape = self._pick(forms)
        return chosen


def model_of(chains: Sequence[Chain], *, is_open: bool = False) -> onnx.ModelProto:
    """Return a model of all chains, the first dimension of inputs unknown if ``is_open``."""
    inputs = []
    for chain in chains:
        for name, array in chain.feeds.items():
            dims: list[Any] = list(array.shape)
            dims[:1] = [f"{name}_rows"] if is_open and dims else dims[:1]
            inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims))
    outputs = [helper.make_tensor_value_info(one.output, 1, None) for one in chains]
    graph = helper.make_graph(
        [node for one in chains for node in one.nodes],
        "combinations",
        inputs,
        outputs,
        [constant for one in chains for constant in one.constants],
    )
    imports = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
