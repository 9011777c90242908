"""Random graphs give the same bits whether what is known at bind was computed then or not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk

_BLOCKS = 20


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_random_graphs_agree_bit_for_bit_folded_and_unfolded(
    block: int, pytestconfig: pytest.Config
) -> None:
    for seed in range(block, pytestconfig.getoption("--folded-graphs"), _BLOCKS):
        agrees(seed)


def agrees(seed: int) -> int:
    """Run a random graph both ways, and return how many nodes were left out."""
    model, feeds = random_model(seed)
    unfolded, none = _results(model, feeds, fold=False)
    folded, some = _results(model, feeds, fold=True)
    assert not none
    for name, expected in unfolded.items():
        got = folded[name]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (seed, name)
        assert got.tobytes() == expected.tobytes(), (seed, name)
    return some


def test_the_random_graphs_have_something_to_compute() -> None:
    assert sum(agrees(seed) for seed in range(10)) > 10


def _results(
    model: onnx.ModelProto, feeds: dict[str, Any], *, fold: bool
) -> tuple[dict[str, np.ndarray], int]:
    with sk.InferenceSession(model, "numpy", fold=fold) as session:
        names = [output.name for output in session.get_outputs()]
        results = dict(zip(names, session.run(None, feeds), strict=True))
        return results, len(session.graph.left_out)


def random_model(seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Make a model of floats and of arithmetic on sizes, some of both known at bind."""
    growth = _Growth(np.random.default_rng(seed))
    for _ in range(int(growth.rng.integers(6, 30))):
        growth.grow()
    return growth.model(), {"x": growth.floats_fed, "n": np.array([5, 7], np.int64)}


@dataclass
class _Growth:
    """A graph while it grows, with the shape of every float value and the data of every list."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lists: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.floats_fed = self.rng.standard_normal((2, 3, 4)).astype(np.float32)
        self.is_open = bool(self.rng.integers(2))
        self.shapes["x"] = (2, 3, 4)
        self.lists["n"] = np.array([5, 7], np.int64)
        self.weight()
        self.list_of([2, 3, 4])

    def grow(self) -> None:
        kinds: tuple[Callable[[], object], ...] = (
            self.unary,
            self.unary,
            self.binary,
            self.transposed,
            self.shape,
            self.gathered,
            self.computed,
            self.computed,
            self.joined,
            self.reshaped,
            self.filled,
            self.chosen,
            self.weight,
            self.reduced,
        )
        kinds[int(self.rng.integers(len(kinds)))]()

    def model(self) -> onnx.ModelProto:
        names = [*self.shapes, *self.lists]
        made = [name for node in self.nodes for name in node.output if name in names]
        count = min(len(made), int(self.rng.integers(1, 5)))
        outputs = [str(name) for name in self.rng.choice(made, count, replace=False)]
        first: list[Any] = ["N" if self.is_open else 2, 3, 4]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, first),
                helper.make_tensor_value_info("n", TensorProto.INT64, [2]),
            ],
            [
                helper.make_tensor_value_info(
                    name,
                    TensorProto.FLOAT if name in self.shapes else TensorProto.INT64,
                    [None] * len(self.shapes.get(name, [0])),
                )
                for name in outputs
            ],
            self.stored,
        )
        imports = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    # -- values --------------------------------------------------------------------------------

    def name(self) -> str:
        return f"v{len(self.shapes) + len(self.lists) + len(self.nodes)}"

    def float_value(self) -> str:
        return str(self.rng.choice(list(self.shapes)))

    def list_value(self, least: int = 0) -> str:
        return str(self.rng.choice([n for n, v in self.lists.items() if v.size >= least]))

    def add(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        made = self.name()
        self.nodes.append(helper.make_node(operator, inputs, [made], **attributes))
        return made

    def weight(self) -> None:
        name = f"w{len(self.stored)}"
        array = self.rng.standard_normal((2, 3, 4)).astype(np.float32)
        self.stored.append(numpy_helper.from_array(array, name))
        self.shapes[name] = array.shape

    def list_of(self, values: Any) -> str:
        array = np.array(values, np.int64)
        if self.rng.integers(2):
            name = f"k{len(self.stored)}"
            self.stored.append(numpy_helper.from_array(array, name))
        else:
            name = self.add("Constant", [], value=numpy_helper.from_array(array))
        self.lists[name] = array
        return name

    # -- floats --------------------------------------------------------------------------------

    def unary(self) -> None:
        source = self.float_value()
        operators = ["Neg", "Relu", "Sigmoid", "Identity", "Dropout", "Cast", "Exp", "Sqrt"]
        operator = str(self.rng.choice(operators))
        if operator == "Cast":
            wanted = int(self.rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE]))
            made = self.add("Cast", [self.add("Cast", [source], to=wanted)], to=TensorProto.FLOAT)
        elif operator == "Sqrt":
            made = self.add("Sqrt", [self.add("Abs", [source])])
        else:
            made = self.add(operator, [source])
        self.shapes[self.add("Tanh", [made]) if operator == "Exp" else made] = self.shapes[source]

    def binary(self) -> None:
        source = self.float_value()
        alike = [name for name, shape in self.shapes.items() if shape == self.shapes[source]]
        operator = str(self.rng.choice(["Add", "Mul", "Sub", "Max"]))
        made = self.add(operator, [source, str(self.rng.choice(alike))])
        self.shapes[self.add("Tanh", [made])] = self.shapes[source]

    def transposed(self) -> None:
        source = self.float_value()
        axes = [int(axis) for axis in self.rng.permutation(len(self.shapes[source]))]
        shape = tuple(self.shapes[source][axis] for axis in axes)
        self.shapes[self.add("Transpose", [source], perm=axes)] = shape

    def reduced(self) -> None:
        source = self.float_value()
        shape = self.shapes[source]
        axis = int(self.rng.integers(len(shape)))
        made = self.add("ReduceMean", [source, self.list_of([axis])], keepdims=1)
        self.shapes[made] = (*shape[:axis], 1, *shape[axis + 1 :])

    def reshaped(self) -> None:
        source = self.float_value()
        shape = self.shapes[source]
        order = [int(axis) for axis in self.rng.permutation(len(shape))]
        target = self.add("Gather", [self.add("Shape", [source]), self.list_of(order)])
        if self.rng.integers(2):
            rest = self.add("Slice", [target, self.list_of([1]), self.list_of([9])])
            target = self.add("Concat", [self.list_of([-1]), rest], axis=0)
        made = self.add("Reshape", [source, target])
        self.shapes[made] = tuple(shape[axis] for axis in order)

    def filled(self) -> None:
        lists = self.lists.items()
        small = 96
        fits = [n for n, v in lists if v.size and v.min() > 0 and np.prod(v) <= small]
        sizes = str(self.rng.choice(fits))
        value = numpy_helper.from_array(self.rng.standard_normal(1).astype(np.float32))
        made = self.add("ConstantOfShape", [sizes], value=value)
        self.shapes[made] = tuple(int(size) for size in self.lists[sizes])

    def chosen(self) -> None:
        """Add an If whose branches read values from outside."""
        source = self.float_value()
        bodies = []
        for operator in ("Neg", "Abs"):
            made = f"{self.name()}_{operator}"
            node = helper.make_node(operator, [source], [made])
            info = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
            bodies.append(helper.make_graph([node], operator, [], [info]))
        first = self.add("Slice", [self.list_value(1), self.list_of([0]), self.list_of([1])])
        flag = self.add("Cast", [first], to=TensorProto.BOOL)
        made = self.add("If", [flag], then_branch=bodies[0], else_branch=bodies[1])
        self.shapes[made] = self.shapes[source]

    # -- lists of sizes ------------------------------------------------------------------------

    def shape(self) -> None:
        source = self.float_value()
        self.lists[self.add("Shape", [source])] = np.array(self.shapes[source], np.int64)

    def gathered(self) -> None:
        source = self.list_value(1)
        places = self.rng.integers(-len(self.lists[source]), len(self.lists[source]), 2)
        made = self.add("Gather", [source, self.list_of(places)], axis=0)
        self.lists[made] = self.lists[source][places]

    def joined(self) -> None:
        first, second = self.list_value(), self.list_value()
        values = np.concatenate([self.lists[first], self.lists[second]])
        if values.size <= 8:
            self.lists[self.add("Concat", [first, second], axis=0)] = values

    def computed(self) -> None:
        source = self.list_value()
        data = self.lists[source]
        factor = int(self.rng.integers(1, 4))
        other = self.list_of([factor])
        operator = str(self.rng.choice(["Mul", "Add", "Sub", "Div", "Mod", "Max", "Cast", "Where"]))
        if operator == "Cast":
            made = self.add("Cast", [self.add("Cast", [source], to=6)], to=7)
        elif operator == "Where":
            made = self.add("Where", [self.add("Greater", [source, other]), source, other])
            data = np.where(data > factor, data, factor)
        else:
            made = self.add(operator, [source, other])
            function: Any = {
                "Mul": np.multiply,
                "Add": np.add,
                "Sub": np.subtract,
                "Div": lambda a, b: np.trunc(a / b).astype(np.int64),
                "Mod": np.mod,
                "Max": np.maximum,
            }[operator]
            data = function(data, np.array([factor]))
        if np.abs(data).max(initial=0) < 1 << 20:
            self.lists[made] = data
