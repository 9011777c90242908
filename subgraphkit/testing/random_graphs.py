"""Random graphs of operators that every backend should know, with foreign nodes in between."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from subgraphkit.testing.foreign import DOMAIN
from subgraphkit.testing.small_models import SmallModel, model_of

_HEADER: Final = f'<ir_version: 8, opset_import: ["" : 17, "{DOMAIN}" : 1]>'
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

    Values are read any number of times, also twice by one node; some outputs of the model are read
    inside as well, some results by nobody. Numbers stay small however deep the graph is.
    """
    growth = _Growth(np.random.default_rng(seed))
    for _ in range(int(growth.rng.integers(_SHORTEST, _LONGEST))):
        growth.grow(str(growth.rng.choice(list(_STEPS), p=list(_STEPS.values()))))
    growth.grow(_CARRY)
    return SmallModel(model_of(growth.text(f"random_{seed}"), _HEADER))


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
        read = {
            one for node in self.nodes for some in _READ.findall(node) for one in some.split(", ")
        }
        made = list(self.shapes)[2:]
        loose = [value for value in made if value not in read]
        outputs = list(dict.fromkeys([*loose[1:], loose[0], str(self.rng.choice(made))]))
        inner = [self._typed(value) for value in made if value not in outputs]
        inner += [f"float[{','.join(map(str, size))}] {w}" for w, size in self.weights.items()]
        heads = (", ".join(map(self._typed, some)) for some in (("x0", "x1"), outputs))
        declared, nodes = ", ".join(inner), " ".join(self.nodes)
        return f"{name} ({next(heads)}) => ({next(heads)}) <{declared}> {{ {nodes} }}"

    def _typed(self, value: str) -> str:
        return "float[{},{}] {}".format(*self.shapes[value], value)

    def _value(self, fits: Callable[[_Shape], bool]) -> str:
        """Return some value of a shape that fits, recent ones more often."""
        names = [name for name, own in self.shapes.items() if fits(own)]
        weights = np.arange(1.0, len(names) + 1)
        return str(self.rng.choice(names, p=weights / weights.sum()))
