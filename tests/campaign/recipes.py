"""How operators are given what is legal: elementwise, reductions, moves."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tests.campaign.drawing import Draw
from tests.campaign.growing import Skip, numpy_type, onnx_type
from tests.campaign.judges import named

Recipe = Callable[[Draw], object]
RECIPES: Final[dict[str, Recipe]] = {}
"""What draws a node of each operator."""

HALVES: Final = (0.5, 1.0, 0.25, 2.0, 0.0, -0.5)
_CURVES: Final[Mapping[str, Mapping[str, str]]] = {
    "any": {
        **dict.fromkeys(named("Abs Atan Ceil Erf Floor HardSwish IsNaN Neg Not Relu Round"), ""),
        **dict.fromkeys(named("Sigmoid Sign Softsign Tanh BitwiseNot Mish Size NonZero"), ""),
        "Elu": "alpha",
        "HardSigmoid": "alpha beta",
        "LeakyRelu": "alpha",
        "Swish": "alpha",
        "Selu": "alpha gamma",
        "Shrink": "lambd bias",
        "ThresholdedRelu": "alpha",
    },
    "small": dict.fromkeys(named("Asinh Cos Cosh Exp Sin Sinh Softplus"), ""),
    "unit": dict.fromkeys(named("Acos Asin Atanh Tan"), ""),
    "above": {"Acosh": ""},
    "positive": {"Log": "", "Sqrt": ""},
    "nonzero": {"Reciprocal": ""},
}
_PAIRS: Final[Mapping[str, str]] = {
    **dict.fromkeys(named("Add Sub Mul And Or Xor Equal Less Greater LessOrEqual"), "any"),
    **dict.fromkeys(named("GreaterOrEqual BitwiseAnd BitwiseOr BitwiseXor StringConcat"), "any"),
    "Div": "nonzero",
    "Mod": "nonzero",
    "BitShift": "shift",
    "Pow": "power",
}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """Note that a function draws nodes of these operators."""

    def note(function: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(operators, function))
        return function

    return note


@recipe(*(name for table in _CURVES.values() for name in table))
def _curve(d: Draw) -> None:
    kind, attributes = next(
        (kind, table[d.schema.name]) for kind, table in _CURVES.items() if d.schema.name in table
    )
    d.read(kind=kind)
    for name in attributes.split():
        d.set(name, d.pick(*HALVES))


@recipe("Celu", "Gelu", "IsInf", "Identity", "Shape", "Det")
def _stated(d: Draw) -> None:
    x = (
        d.read((*d.shape(0, 2), n := d.pick(1, 2, 3), n), fit=lambda a: a.shape[-1:] == (n,))
        if d.schema.name == "Det"
        else d.read()
    )
    d.set("alpha", d.pick(0.5, 1.0, 2.0))
    d.set("approximate", d.pick("none", "tanh"))
    d.set("detect_negative", d.pick(0, 1))
    d.set("detect_positive", d.pick(0, 1))
    d.set("start", d.pick(*range(-x.ndim - 1, x.ndim + 2)))
    d.set("end", d.pick(*range(-x.ndim - 1, x.ndim + 2)))


def varied(d: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts with another."""
    found = [1 if d.chance(0.25) else size for size in shape]
    if d.chance(0.3):
        found = found[d.rng.randint(0, len(found)) :]
    elif d.chance(0.15) and len(found) < 4:
        found = [d.size(), *found]
    return tuple(found)


def broadcasts(shape: tuple[int, ...]) -> Callable[[tuple[int, ...]], bool]:
    """Return what says whether a shape broadcasts with another."""

    def does(other: tuple[int, ...]) -> bool:
        try:
            return bool(np.prod(np.broadcast_shapes(shape, other)) <= 600)
        except ValueError:
            return False

    return does


@recipe(*_PAIRS)
def _pair(d: Draw) -> None:
    kind = _PAIRS[d.schema.name]
    whole = kind == "power" and d.chance()
    x = d.read(kind="positive" if kind == "power" and not whole else "any")
    if whole:
        dtype = d.pick(*d.allowed(1)[1])
        d.types.setdefault(d.schema.inputs[1].type_str, dtype)
        size = varied(d, x.shape)
        d.give(np.array(np.random.default_rng(d.rng.getrandbits(32)).integers(0, 4, size), dtype))
    elif kind == "shift":
        d.give(np.full(varied(d, x.shape), d.pick(0, 1, 3, 7), x.dtype))
    else:
        kind = kind if kind in {"any", "nonzero"} else "small"
        d.read(broadcasts(x.shape), new=varied(d, x.shape), kind=kind)
    if (
        d.schema.name in {"Sub", "Div", "Less", "Greater", "Pow"}
        and d.chance(0.1)
        and kind == "any"
    ):
        d.inputs.reverse()
    d.set("direction", d.pick("LEFT", "RIGHT"))
    if d.schema.name == "Mod":
        d.set("fmod", int(x.dtype.kind != "i" or d.chance()), 1.0)


@recipe("Max", "Min", "Sum", "Mean", "Where")
def _several(d: Draw) -> None:
    shape = d.read().shape
    for _ in range(2 if d.schema.name == "Where" else d.pick(0, 1, 1, 2, 3)):
        other = d.read(broadcasts(shape), new=varied(d, shape)).shape
        shape = np.broadcast_shapes(shape, other)


@recipe("PRelu")
def _prelu(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    shape = tuple(1 if d.chance(0.4) else size for size in x.shape)[d.rng.randrange(x.ndim) :]
    d.read(
        lambda s: np.broadcast_shapes(s, x.shape) == x.shape if _fits(s, x) else False, new=shape
    )


def _fits(shape: tuple[int, ...], x: Any) -> bool:
    tail = x.shape[len(x.shape) - len(shape) :]
    return len(shape) <= x.ndim and all(a in {1, b} for a, b in zip(shape, tail, strict=True))


@recipe("Clip")
def _clip(d: Draw) -> None:
    x = d.read()
    if d.knows("min"):
        d.set("min", d.pick(-1.0, 0.0, 0.5))
        d.set("max", d.pick(1.0, 6.0, 0.25))
        return
    for ends in ((-1, 0, 1), (1, 2, 5, -1)):
        if d.chance(0.7):
            d.give(np.array(d.pick(*ends) if x.dtype.kind != "u" else abs(d.pick(*ends)), x.dtype))
        else:
            d.skip()


@recipe("Cast", "CastLike")
def _cast(d: Draw) -> None:
    x = d.read(kind=d.pick("any", "small"))
    texts = d.schema.type_constraints[1].allowed_type_strs
    kinds = [one for text in texts if (one := numpy_type(text)) is not None]
    if x.dtype.kind != "O":
        kinds = [one for one in kinds if one.kind != "O"]
    weights = [8 if one.itemsize > 1 or one.kind != "V" else 1 for one in kinds]
    dtype = d.rng.choices(kinds, weights)[0]
    if dtype.kind == "u" and x.dtype.kind != "O" and not (x.astype(np.float64) >= 0).all():
        raise Skip
    if x.dtype.kind not in "biuO" and dtype.kind in "iu":
        wide = x.astype(np.float64)
        if not (np.abs(wide) < 100).all():
            raise Skip
    if d.schema.name == "CastLike":
        if dtype.kind == "O":
            raise Skip
        d.types[d.schema.inputs[1].type_str] = dtype
        d.read(reuse=0.3, rank=(0, 2))
    d.set("to", onnx_type(dtype))
    d.set("saturate", d.pick(0, 1), 0.3)


@recipe(*(f"Reduce{name}" for name in named("L1 L2 Max Mean Min Prod Sum SumSquare")))
@recipe("ReduceLogSum", "ReduceLogSumExp")
def _reduce(d: Draw) -> None:
    kind = {"ReduceLogSum": "positive", "ReduceLogSumExp": "small"}.get(d.schema.name, "any")
    x = d.read(kind=kind)
    d.set("keepdims", d.pick(0, 1))
    d.set("noop_with_empty_axes", d.pick(0, 1))
    axes = [a - x.ndim if d.chance(0.3) else a for a in range(x.ndim) if d.chance(0.4)]
    if d.knows("axes"):
        if axes:
            d.set("axes", axes)
    elif d.chance(0.75):
        d.integers(axes)


@recipe("ArgMax", "ArgMin")
def _arg(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    axis = d.axis(x.ndim, negative=d.opset >= 11)
    if not x.shape[axis]:
        raise Skip
    d.set("axis", axis, float(not x.shape[0]) or 0.8)
    d.set("keepdims", d.pick(0, 1))
    d.set("select_last_index", d.pick(0, 1))


@recipe("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Flatten", "TopK", "CumSum")
def _along(d: Draw) -> None:
    name = d.schema.name
    x = d.read(
        rank=(1 if name not in {"Softmax", "LogSoftmax", "Flatten"} else 0, 4),
        kind={"TopK": d.pick("distinct", "any"), "LpNormalization": "nonzero"}.get(name, "any"),
        reuse=0.4 if name == "TopK" else 0.65,
    )
    axis = d.axis(x.ndim or 1, negative=d.opset >= 11)
    if name == "CumSum":
        d.integers(axis, d.pick(np.int32, np.int64))
    elif x.ndim:
        d.set("axis", d.pick(axis, x.ndim) if name == "Flatten" else axis, 0.8)
    d.set("p", d.pick(1, 2))
    d.set("exclusive", d.pick(0, 1))
    d.set("reverse", d.pick(0, 1))
    if name == "TopK":
        _top(d, x.shape[d.attributes.get("axis", -1)])


def _top(d: Draw, most: int) -> None:
    count = d.rng.randint(0 if d.opset >= 11 else 1, most) if most else 0
    if not d.knows("k"):
        d.integers([count])
    d.set("k", count)
    d.set("largest", d.pick(0, 1))
    d.set("sorted", 1, 0.3)
    d.outputs = [True, True]
