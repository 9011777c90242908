"""Random graphs of operators that every backend should know, with foreign nodes in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from subgraphkit.testing.foreign import CARRY, DOMAIN
from subgraphkit.testing.variants import without_foreign

_OPSET: Final = 17
_IR_VERSION: Final = 8
_SHORTEST: Final = 12
_LONGEST: Final = 40
_ROWS: Final = 4
_COLUMNS: Final = 6
_UNARY: Final = ("Relu", "Neg", "Sigmoid", "Tanh", "Abs", "Identity")
_BINARY: Final = ("Add", "Sub", "Max", "Min")

_Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class RandomGraph:
    """A random model with what it computes.

    Attributes:
        model: The model, foreign nodes included; at least one of them.
    """

    model: onnx.ModelProto
    feeds: dict[str, npt.NDArray[Any]]

    def expected(self) -> list[Any]:
        """Return what ``onnx.reference`` computes, the foreign nodes being ``Identity``."""
        return list(ReferenceEvaluator(without_foreign(self.model)).run(None, dict(self.feeds)))


def random_graph(seed: int) -> RandomGraph:
    """Make a random graph; the same for the same seed.

    Values are read any number of times, also twice by one node; some outputs of the model are read
    inside as well, some results by nobody. Numbers stay small however deep the graph is.
    """
    growth = _Growth(np.random.default_rng(seed))
    for _ in range(int(growth.rng.integers(_SHORTEST, _LONGEST))):
        growth.grow()
    growth.carry()
    model = growth.model(f"random_{seed}")
    feeds = {value.name: growth.drawn((_ROWS, _COLUMNS)) for value in model.graph.input}
    return RandomGraph(model, feeds)


@dataclass
class _Growth:
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, _Shape] = field(
        default_factory=lambda: dict.fromkeys(("x0", "x1"), (_ROWS, _COLUMNS))
    )

    def grow(self) -> None:
        kinds: tuple[Callable[[], object], ...] = (
            self._unary,
            self._binary,
            self._scaled,
            self._product,
            self._transposed,
            self._normalised,
            self._halves,
            self.carry,
        )
        kinds[self.rng.choice(len(kinds), p=(0.2, 0.25, 0.1, 0.1, 0.1, 0.1, 0.05, 0.1))]()

    def carry(self) -> None:
        source = self._any()
        self._add(CARRY, [source], self.shapes[source], domain=DOMAIN)

    def drawn(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        return self.rng.standard_normal(shape).astype(np.float32)

    def model(self, name: str) -> onnx.ModelProto:
        """Return the graph with every loose end, and some other value, as outputs."""
        read = {value for node in self.nodes for value in node.input}
        made = [value for node in self.nodes for value in node.output]
        loose = [value for value in made if value not in read]
        outputs = list(dict.fromkeys([*loose[1:], loose[0], str(self.rng.choice(made))]))
        graph = helper.make_graph(
            self.nodes,
            name,
            [self._info(value) for value in ("x0", "x1")],
            [self._info(value) for value in outputs],
            self.weights,
            value_info=[self._info(value) for value in made if value not in outputs],
        )
        imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)

    def _info(self, value: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, self.shapes[value])

    def _any(self, shape: _Shape | None = None) -> str:
        """Return some value, recent ones more often."""
        names = [name for name, own in self.shapes.items() if shape in {None, own}]
        weights = np.arange(1.0, len(names) + 1)
        return str(self.rng.choice(names, p=weights / weights.sum()))

    def _add(self, operator: str, inputs: list[str], shape: _Shape, **more: Any) -> str:
        name = f"v{len(self.shapes)}"
        self.shapes[name] = shape
        self.nodes.append(helper.make_node(operator, inputs, [name], **more))
        return name

    def _stored(self, array: npt.NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def _unary(self) -> None:
        source = self._any()
        self._add(str(self.rng.choice(_UNARY)), [source], self.shapes[source])

    def _binary(self) -> None:
        first = self._any()
        shape = self.shapes[first]
        made = self._add(str(self.rng.choice(_BINARY)), [first, self._any(shape)], shape)
        self._add("Tanh", [made], shape)

    def _scaled(self) -> None:
        source = self._any()
        shape = self.shapes[source]
        made = self._add("Mul", [source, self._stored(self.drawn(shape[1:]))], shape)
        self._add("Tanh", [made], shape)

    def _product(self) -> None:
        source = self._any()
        rows, columns = self.shapes[source]
        weight = self._stored(self.drawn((columns, columns)) / np.float32(columns))
        self._add("MatMul", [source, weight], (rows, columns))

    def _transposed(self) -> None:
        source = self._any()
        rows, columns = self.shapes[source]
        self._add("Transpose", [source], (columns, rows), perm=[1, 0])

    def _normalised(self) -> None:
        source = self._any()
        rows, columns = self.shapes[source]
        mean = self._add("ReduceMean", [source], (rows, 1), axes=[1], keepdims=1)
        self._add("Sub", [source, mean], (rows, columns))

    def _halves(self) -> None:
        source = self._any((_ROWS, _COLUMNS))
        half = (_ROWS, _COLUMNS // 2)
        left, right = (f"{source}_{len(self.nodes)}_{side}" for side in ("left", "right"))
        self.nodes.append(helper.make_node("Split", [source], [left, right], axis=1))
        self._add("Concat", [right, left], (_ROWS, _COLUMNS), axis=1)
        self.shapes |= {left: half, right: half}
