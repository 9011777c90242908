"""Small models in onnx's text form, with feeds and expected results.

Those of random graphs are of operators that every backend should know, foreign nodes in between.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import compose, parser

from subgraphkit.testing.foreign import DOMAIN
from subgraphkit.testing.variants import without_foreign

ROWS: Final = 4
"""Size of an open axis in the feeds."""

_HEADER: Final = '<ir_version: 10, opset_import: ["" : 17]>'
POSITIVE: Final = "var"
"""How the name of a weight or an input begins that must not be negative."""

_FILE: Final = Path(__file__).with_name("graphs.txt")
_GRAPH: Final = re.compile(r"^(\w+) (.*(?:\n .*)*)", re.MULTILINE)
_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class SmallModel:
    """A model, with feeds."""

    proto: onnx.ModelProto

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.proto.graph.name)

    def feeds(self, seed: int = 0) -> Mapping[str, _Array]:
        """Return an array for every input that has no default; another seed gives others."""
        stored = {tensor.name for tensor in self.proto.graph.initializer}
        rng = np.random.default_rng(seed)
        fed = [value for value in self.proto.graph.input if value.name not in stored]
        return {value.name: _draw_values(value, rng, 1.0) for value in fed}

    def expected_outputs(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the results of onnx's own implementation, with ``Identity`` for foreign nodes."""
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (few compare)

        return list(ReferenceEvaluator(without_foreign(self.proto)).run(None, dict(feeds)))


def graphs_of(section: str) -> dict[str, str]:
    """Return the graphs of a section of ``graphs.txt``: the text behind each, by name."""
    _, _, rest = _FILE.read_text(encoding="utf-8").partition(f"[{section}]\n")
    graphs = _GRAPH.findall(rest.partition("\n[")[0])
    return {name: " ".join(text.split()) for name, text in graphs}


def model_of(text: str, header: str = _HEADER) -> onnx.ModelProto:
    """Read a model in onnx's text form; the header has versions of format and operator sets.

    Values that are declared and made by no node become initializers with numbers drawn, unless
    they have some.
    """
    model = parser.parse_model(f"{header} {text}")
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    rng = np.random.default_rng(5)
    for value in [value for value in graph.value_info if value.name not in made]:
        weights = onnx.numpy_helper.from_array(_draw_values(value, rng, 0.25), value.name)
        graph.initializer.append(weights)
        graph.value_info.remove(value)
    return model


def side_by_side(models: Iterable[onnx.ModelProto], name: str) -> onnx.ModelProto:
    """Return a model in which models have nothing to do with one another.

    They have operator sets in common; names of the first begin with ``0:``.
    """
    whole, *others = [compose.add_prefix(one, f"{place}:") for place, one in enumerate(models)]
    for other in others:
        whole.graph.MergeFrom(other.graph)
    whole.graph.name = name
    return whole


def _draw_values(value: onnx.ValueInfoProto, rng: np.random.Generator, scale: float) -> _Array:
    """Draw numbers around 0, spread over the values of a type."""
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [ROWS if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
    drawn = np.asarray(rng.standard_normal(shape))
    if dtype.hasobject:
        return np.array([f"text {number:.2f}" for number in drawn.flat], object).reshape(shape)
    if dtype.kind == "b":
        return np.asarray(drawn > 0)
    if value.name.startswith(POSITIVE):
        drawn = abs(drawn) + 1
    elif dtype.kind in "iu":
        drawn = (abs(drawn) if dtype.kind == "u" else drawn) * 4
    else:
        drawn = drawn * scale
    return np.asarray(drawn.astype(dtype))


_WITH_FOREIGN: Final = f'<ir_version: 8, opset_import: ["" : 17, "{DOMAIN}" : 1]>'
_SHORTEST, _LONGEST = 12, 40
_WHOLE: Final = (4, 6)
_UNARY: Final = ("Relu", "Neg", "Sigmoid", "Tanh", "Abs", "Identity")
_BINARY: Final = ("Add", "Sub", "Max", "Min")
_CARRY: Final = f"{{y}} = {DOMAIN}.Carry({{a}})"
_STEPS: Final = {
    "{y} = {unary}({a})": 0.2,
    "{t} = {binary}({a}, {b}) {y} = Tanh({t})": 0.25,
    "{t} = Mul({a}, {row}) {y} = Tanh({t})": 0.1,
    "{y} = MatMul({a}, {square})": 0.1,
    "{y} = Transpose<perm=[1,0]>({a})": 0.1,
    "{m} = ReduceMean<axes=[1], keepdims=1>({a}) {t} = Add({a}, {m}) {y} = Tanh({t})": 0.1,
    "{l}, {r} = Split<axis=1>({a}) {y} = Concat<axis=1>({r}, {l})": 0.05,
    _CARRY: 0.1,
}
"""Steps by how often they are drawn: ``a`` and ``b`` are values of one shape, ``row`` and
``square`` weights. None takes nearly equal numbers from one another, where rounding is all that is
left."""

_READ: Final = re.compile(r"\(([^)]*)\)")
_Shape = tuple[int, int]


def random_graph(seed: int) -> SmallModel:
    """Make a random graph; the same for the same seed.

    Values are read any number of times, also twice by one node. Some outputs of the model are also
    read inside, and some results are not read. Numbers stay small however deep the graph is.
    """
    growth = _Growth(np.random.default_rng(seed))
    for _ in range(int(growth.rng.integers(_SHORTEST, _LONGEST))):
        growth.grow(str(growth.rng.choice(list(_STEPS), p=list(_STEPS.values()))))
    growth.grow(_CARRY)
    return SmallModel(model_of(growth.text(f"random_{seed}"), _WITH_FOREIGN))


@dataclass
class _Growth:
    rng: np.random.Generator
    nodes: list[str] = field(default_factory=list)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: dict[str, _Shape] = field(default_factory=lambda: dict.fromkeys(("x0", "x1"), _WHOLE))

    def grow(self, step: str) -> None:
        """Add the nodes of a step, which read values that are there."""
        first = self._value(lambda shape: shape[1] % 2 == 0 or "Split" not in step)
        whole = rows, columns = self.shapes[first]
        half, at = (rows, columns // 2), len(self.nodes)
        made = {"t": whole, "m": (rows, 1), "l": half, "r": half, "y": whole}
        made |= {"y": (columns, rows)} if "Transpose" in step else {}
        stored = {"row": (columns,), "square": (columns, columns)}
        words = {name: f"{name}{at}" for name in (*made, *stored)}
        words |= {"a": first, "b": self._value(lambda shape: shape == whole)}
        words |= {"unary": self.rng.choice(_UNARY), "binary": self.rng.choice(_BINARY)}
        self.nodes.append(step.format_map(words))
        self.weights |= {words[n]: size for n, size in stored.items() if f"{{{n}}}" in step}
        self.shapes |= {words[n]: size for n, size in made.items() if f"{{{n}}}" in step}

    def text(self, name: str) -> str:
        """Return the graph with every loose end, and some other value, as outputs."""
        read = {one for node in self.nodes for it in _READ.findall(node) for one in it.split(", ")}
        made = list(self.shapes)[2:]
        loose = [value for value in made if value not in read]
        outputs = list(dict.fromkeys([*loose[1:], loose[0], str(self.rng.choice(made))]))
        inner = [self._type_of(value) for value in made if value not in outputs]
        inner += [f"float[{','.join(map(str, size))}] {w}" for w, size in self.weights.items()]
        heads = (", ".join(map(self._type_of, some)) for some in (("x0", "x1"), outputs))
        declared, nodes = ", ".join(inner), " ".join(self.nodes)
        return f"{name} ({next(heads)}) => ({next(heads)}) <{declared}> {{ {nodes} }}"

    def _type_of(self, value: str) -> str:
        return "float[{},{}] {}".format(*self.shapes[value], value)

    def _value(self, fits: Callable[[_Shape], bool]) -> str:
        """Return some value of a shape that fits, recent ones more often."""
        names = [name for name, own in self.shapes.items() if fits(own)]
        weights = np.arange(1.0, len(names) + 1)
        return str(self.rng.choice(names, p=weights / weights.sum()))
