"""A node that is being drawn: what it reads, new or there already, and what it states."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import NodeProto, helper

from tests.campaign.growing import MOST_ELEMENTS, Growth, Skip, Value, numpy_type, through_integers

_SIZES: Final = (1, 2, 2, 3, 3, 4, 5, 6)
_WEIGHTS: Final = {
    "float32": 24,
    "float64": 4,
    "float16": 6,
    "bfloat16": 3,
    "int64": 7,
    "int32": 6,
    "int8": 3,
    "uint8": 4,
    "bool": 4,
    **dict.fromkeys(("int16", "uint16", "uint32", "uint64"), 1.0),
    "object": 0.5,
}
_RARE: Final = 0.1
_WORDS: Final = ("", "a", "ab", "b a", "A.B", "été", "x1", "10", "the end")


class Draw:
    """A node that is being drawn: its inputs, attributes and outputs so far."""

    def __init__(self, growth: Growth, schema: onnx.defs.OpSchema) -> None:
        self.growth, self.schema, self.rng = growth, schema, growth.rng
        self.opset = growth.manner.opset
        self.types: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.attributes: dict[str, Any] = {}
        self.outputs = [True]
        self._allowed = {it.type_param_str: it.allowed_type_strs for it in schema.type_constraints}

    def pick(self, *choices: Any) -> Any:
        """Return one of these."""
        return self.rng.choice(choices)

    def chance(self, share: float = 0.5) -> bool:
        """Say yes so often."""
        return self.rng.random() < share

    def size(self) -> int:
        """Return how large an axis is."""
        return 0 if self.chance(self.growth.manner.empty) else self.rng.choice(_SIZES)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Return a shape of so many axes."""
        while True:
            shape = tuple(self.size() for _ in range(self.rng.randint(least, most)))
            if np.prod(shape) <= MOST_ELEMENTS:
                return shape

    def set(self, name: str, value: Any, share: float = 0.6) -> None:
        """State an attribute, so often, if this version of the operator has it."""
        known = self.schema.attributes.get(name)
        if known is not None and (known.required or self.rng.random() < share):
            self.attributes[name] = value

    def knows(self, attribute: str) -> bool:
        """Say whether this version of the operator has an attribute."""
        return attribute in self.schema.attributes

    def allowed(self, place: int) -> tuple[str, list[Any]]:
        """Return the parameter of the type of an input, and the dtypes that it may have."""
        formal = self.schema.inputs[min(place, len(self.schema.inputs) - 1)]
        strings = self._allowed.get(formal.type_str, [formal.type_str])
        found = [dtype for text in strings if (dtype := numpy_type(text)) is not None]
        return formal.type_str, [self.types[formal.type_str]] if (
            formal.type_str in self.types
        ) else found

    def read(  # noqa: PLR0913 (what an operator may ask of its input)
        self,
        shape: Any = None,
        *,
        new: tuple[int, ...] | None = None,
        rank: tuple[int, int] = (0, 4),
        fit: Callable[[Any], bool] = lambda _: True,
        kind: str = "any",
        dtypes: Sequence[str] = (),
        reuse: float = 0.65,
    ) -> Any:
        """Read a value as the next input, one that exists or a new one; return its elements.

        ``shape`` may be a function that says whether one will do; ``new`` is one that does.
        """
        parameter, allowed = self.allowed(len(self.inputs))
        narrow = [one for one in allowed if str(one) in dtypes]
        allowed = narrow or allowed
        wanted = shape if callable(shape) else lambda s: shape is None or s == tuple(shape)
        if self.rng.random() < reuse:
            found = [
                one
                for one in self.growth.visible()
                if one.is_tensor
                and one.now.dtype in allowed
                and rank[0] <= one.now.ndim <= rank[1]
                and wanted(one.now.shape)
                and _within(one.now, kind)
                and fit(one.now)
            ]
            if found:
                return self._take(found[-min(self.rng.randint(1, 5), len(found))], parameter)
        if new is not None or shape is None:
            shape = self.shape(*rank) if new is None else new
        if not allowed:
            raise Skip
        dtype = self._drawn_type(allowed)
        array = elements(self.rng, dtype, tuple(shape), kind, self.growth.manner)
        if not fit(array):
            raise Skip
        name = self.growth.fresh(array)
        return self._take(self.growth.seen(name), parameter)

    def _take(self, value: Value, parameter: str) -> Any:
        self.types.setdefault(parameter, value.now.dtype)
        if value.now.dtype == np.float32 and self.chance(self.growth.manner.quantised):
            value = through_integers(self.growth, value)
        self.inputs.append(value.name)
        return value.now

    def _drawn_type(self, allowed: Sequence[Any]) -> Any:
        weights = [_WEIGHTS.get(str(one), _RARE) for one in allowed]
        return self.rng.choices(allowed, weights)[0]

    def give(self, array: Any, fed: float = 0.2) -> None:
        """Give elements that are known as the next input, or a value that happens to have them."""
        same = [
            one.name
            for one in self.growth.visible()
            if one.is_tensor
            and (one.now.dtype, one.now.shape) == (array.dtype, array.shape)
            and one.noisy is one.now
            and (one.now == array).all()
        ]
        self.inputs.append(self.rng.choice(same) if same and self.chance(0.3) else "")
        if not self.inputs[-1]:
            self.inputs[-1] = self.growth.fresh(array, fed * (self.growth.manner.fed > 0))

    def integers(self, values: Any, dtype: Any = np.int64) -> None:
        """Give whole numbers, such as axes, as the next input."""
        self.give(np.array(values, dtype))

    def skip(self) -> None:
        """Leave the next input out."""
        self.inputs.append("")

    def axis(self, rank: int, *, negative: bool = True) -> int:
        """Return an axis, counted from the end as often as not."""
        if not rank:
            raise Skip
        axis = self.rng.randrange(rank)
        return axis - rank if negative and self.chance(0.4) else axis

    def node(self) -> NodeProto:
        """Return the node."""
        names = [self.growth.name() if wanted else "" for wanted in self.outputs]
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        return helper.make_node(self.schema.name, self.inputs, names, **self.attributes)


def _within(array: Any, kind: str) -> bool:
    """Say whether all elements are of a kind."""
    if kind == "any" or array.dtype.kind in "Ob":
        return True
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        return bool(
            {
                "positive": (wide > 0.01).all(),
                "nonzero": (np.abs(wide) > 0.05).all(),
                "unit": (np.abs(wide) < 0.95).all(),
                "above": (wide > 1.05).all(),
                "small": (np.abs(wide) < 8).all(),
                "distinct": np.unique(wide).size == wide.size,
            }[kind]
        )


_AWAY_FROM_0: Final = {"positive": 0.5, "nonzero": 0.5, "above": 1.5}
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 100.0, -1e4, 1e-6)


def elements(rng: random.Random, dtype: Any, shape: tuple[int, ...], kind: str, manner: Any) -> Any:
    """Draw elements of a kind."""
    draw, size = np.random.default_rng(rng.getrandbits(32)), int(np.prod(shape))
    if dtype.kind == "O":
        return np.array([rng.choice(_WORDS) for _ in range(size)], object).reshape(shape)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if kind == "distinct":
        return ((draw.permutation(size) - size // 2) / 2).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        return _whole(draw, dtype, shape, (kind, manner.large))
    found = draw.integers(-8, 9, shape) / 4 if rng.random() < 0.6 else draw.standard_normal(shape)
    if kind in _AWAY_FROM_0:
        found = np.abs(found) + _AWAY_FROM_0[kind]
        found = np.where(draw.random(shape) < 0.3 * (kind == "nonzero"), -found, found)
    elif kind == "unit":
        found = np.clip(found / 4, -0.9, 0.9)
    elif kind == "any" and size and rng.random() < manner.specials:
        found = np.array(found)
        found.reshape(-1)[rng.randrange(size)] = rng.choice(_SPECIAL)
    return np.array(found).astype(dtype)


def _whole(draw: Any, dtype: Any, shape: tuple[int, ...], how: tuple[str, float]) -> Any:
    kind, large = how
    found = draw.integers(0 if dtype.kind == "u" else -4, 6, shape).astype(dtype)
    if kind == "any" and found.size and draw.random() < large:
        limits = np.iinfo(dtype)
        odd = (limits.min, limits.max, limits.max // 2 + 1, min(limits.max, 2**31))
        found.reshape(-1)[draw.integers(found.size)] = odd[draw.integers(len(odd))]
    if kind in _AWAY_FROM_0:
        found = np.abs(found) + dtype.type(1)
    if kind == "nonzero" and dtype.kind == "i":
        found = np.where(draw.random(shape) < 0.3, -found, found)
    return found
