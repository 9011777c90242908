"""Arithmetic on small values, from which shapes are computed before anything runs.

Exporters write the target of a Reshape as Shape, Gather, Mul, Concat. The functions here compute
such chains where they depend on nothing but constants and sizes. An open size takes part as its
name, or as None if it has none. So the last two entries of the shape ``(N, 3, 8)`` are known even
while N is not. Such values have elements of any Python type (``object``).

Only operators with exact results are here, so that every backend gives the same. Other operators,
large values and failing ones are left to the run.

Source: ONNX operator specification, opsets 7 to 26.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.ir.graph import Node
from subgraphkit.types import DataType, Dim, Shape

LARGEST_VALUE: Final = 512
"""The most elements that an operand or a result may have."""

_FIRST_OPSET: Final = 7

_Array = npt.NDArray[Any]
_Operands = Sequence[_Array | None]
_EXACT: Final = frozenset(
    map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))
)
_SIZES: Final = frozenset({DataType.INT32, DataType.INT64})


def is_open(value: _Array) -> bool:
    """Say whether some of the elements are not known."""
    return value.dtype == object


def evaluate(node: Node, operands: _Operands, dtype: DataType) -> tuple[_Array, ...] | None:
    """Compute the outputs of a node from small operands, None where an input is left out.

    It is None if the node is not covered, its result would be too large, or it fails.
    """
    given = [operand for operand in operands if operand is not None]
    if node.opset < _FIRST_OPSET or not all(map(_is_small, given)):
        return None
    some_open = any(map(is_open, given))
    table = _STRUCTURE if some_open else EVALUATED
    if (compute := table.get(node.op_type)) is None:
        return None
    try:
        with np.errstate(all="ignore"):
            made = compute(node, operands)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None
    results = tuple([_close_value(np.asarray(one), dtype) for one in made])
    return results if all(map(_is_small, results)) else None


def size_of(node: Node, shape: Shape | None) -> tuple[_Array] | None:
    """Compute a ``Shape`` or ``Size`` node; None if not even the rank is known."""
    if shape is None or len(shape) > LARGEST_VALUE or node.opset < _FIRST_OPSET:
        return None
    if node.op_type == "Size":
        if not all(isinstance(dim, int) for dim in shape):
            return None
        return (np.asarray(np.prod(np.asarray(shape, np.int64), dtype=np.int64)),)
    start, end = node.attribute("start", 0), node.attribute("end", len(shape))
    return (_close_value(_open(shape[start:end]), DataType.INT64),)


def _open(dims: Sequence[Dim]) -> _Array:
    array: _Array = np.empty(len(dims), object)
    array[:] = dims
    return array


def _close_value(value: _Array, dtype: DataType) -> _Array:
    """Return a value with open elements as numbers, if none is open any more."""
    if is_open(value) and all(isinstance(one, int) for one in value.flat):
        return value.astype(dtype.numpy)
    return value


def _is_small(value: _Array) -> bool:
    return value.size <= LARGEST_VALUE and (value.dtype in _EXACT or is_open(value))


def _axes(node: Node, operands: _Operands) -> Sequence[int] | None:
    """Return the axes of an operator that has them as an attribute or as its second input."""
    if len(operands) > 1 and operands[1] is not None:
        return [int(axis) for axis in _whole(operands[1]).reshape(-1)]
    stated: Sequence[int] | None = node.attribute("axes")
    return stated


def _whole(value: _Array | None) -> _Array:
    if value is None or is_open(value):
        raise TypeError("not known")
    return value


def _data(operands: _Operands) -> _Array:
    if (data := operands[0]) is None:
        raise TypeError("left out")
    return data


def _gather(node: Node, operands: _Operands) -> Sequence[_Array]:
    data = _data(operands)
    taken = np.take(data, _whole(operands[1]), axis=node.attribute("axis", 0))
    return (np.asarray(taken, data.dtype),)  # a single name is a text by itself


def _concat(node: Node, operands: _Operands) -> Sequence[_Array]:
    given = [operand for operand in operands if operand is not None]
    if any(map(is_open, given)):
        given = [operand.astype(object) for operand in given]
    _require_small((sum(operand.size for operand in given),))
    return (np.concatenate(given, axis=node.attributes["axis"]),)


def _slice(node: Node, operands: _Operands) -> Sequence[_Array]:
    data = _data(operands)
    if len(operands) > 1:
        starts, ends, axes, steps = (
            _whole(operand).tolist() if operand is not None else []
            for operand in (*operands[1:], None, None)[:4]
        )
    else:
        starts, ends = node.attributes["starts"], node.attributes["ends"]
        axes, steps = node.attribute("axes", ()), ()
    places = [slice(None)] * data.ndim
    for axis, start, end, step in zip(
        axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True
    ):
        places[axis] = slice(start, end, step)
    return (data[tuple(places)],)


def _squeeze(node: Node, operands: _Operands) -> Sequence[_Array]:
    axes = _axes(node, operands)
    return (np.squeeze(_data(operands), None if axes is None else tuple(axes)),)


def _reshape(node: Node, operands: _Operands) -> Sequence[_Array]:
    data, target = _data(operands), [int(size) for size in _whole(operands[1])]
    if not node.attribute("allowzero", 0):
        target = [data.shape[i] if size == 0 else size for i, size in enumerate(target)]
    return (data.reshape(target),)


def _split(node: Node, operands: _Operands) -> Sequence[_Array]:
    data, axis, count = _data(operands), node.attribute("axis", 0), len(node.outputs)
    lengths: Sequence[int] = node.attribute("split", ())
    if len(operands) > 1 and operands[1] is not None:
        lengths = _whole(operands[1]).tolist()
    if not lengths:
        longest = -(-data.shape[axis] // count)
        lengths = [longest] * (count - 1) + [data.shape[axis] - longest * (count - 1)]
    if sum(lengths) != data.shape[axis] or len(lengths) != count or min(lengths) < 0:
        raise ValueError("lengths do not add up")
    return np.split(data, np.cumsum(lengths)[:-1], axis=axis)


def _elementwise(function: Callable[..., Any]) -> Callable[[Node, _Operands], Sequence[_Array]]:
    def compute(_: Node, operands: _Operands) -> Sequence[_Array]:
        given = [_whole(operand) for operand in operands]
        if len({one.dtype for one in given}) > 1:
            raise TypeError("not covered")
        _require_small(np.broadcast_shapes(*(one.shape for one in given)))
        return (function(*given),)

    return compute


def _require_small(shape: Sequence[int]) -> None:
    if math.prod(shape) > LARGEST_VALUE:
        raise ValueError("too large")


def _on_open_sizes(
    function: Callable[[int, int], int | None], neutral: int, *, both_sides: bool
) -> Callable[[Node, _Operands], Sequence[_Array]]:
    """Return an operation on sizes: one that is no number stays only if nothing changes it."""

    def one(left: Dim, right: Dim) -> Dim:
        if isinstance(left, int) and isinstance(right, int):
            return function(left, right)
        if right == neutral:
            return left
        return right if both_sides and left == neutral else None

    whole = np.frompyfunc(one, 2, 1)

    def compute(_: Node, operands: _Operands) -> Sequence[_Array]:
        given = [operand.astype(object) for operand in operands if operand is not None]
        _require_small(np.broadcast_shapes(*(one.shape for one in given)))
        return (np.asarray(whole(*given), object),)

    return compute


def _fit_int64(function: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    """Leave values open that do not fit 64 bits, where integers wrap around."""

    def compute(left: int, right: int) -> int | None:
        result = function(left, right)
        return result if -(2**63) <= result < 2**63 else None

    return compute


def _quotient_of(left: Any, right: Any) -> Any:
    """Divide as ONNX does: integers towards zero."""
    if left.dtype.kind == "f":
        return np.divide(left, right)
    if not np.all(right):
        raise ZeroDivisionError
    quotient = left // right
    rest = left - quotient * right
    return quotient + ((rest != 0) & ((left < 0) != (right < 0))).astype(left.dtype)


def _divided_sizes(left: int, right: int) -> int | None:
    return int(_quotient_of(np.asarray(left), np.asarray(right))) if right else None


def _mod(node: Node, operands: _Operands) -> Sequence[_Array]:
    left, right = (_whole(operand) for operand in operands)
    if node.attribute("fmod", 0) or "f" in (left.dtype.kind, right.dtype.kind):
        raise ValueError("not covered")
    if not np.all(right):
        raise ZeroDivisionError
    return _elementwise(np.mod)(node, operands)


def _cast(node: Node, operands: _Operands) -> Sequence[_Array]:
    data, wanted = _data(operands), DataType(node.attributes["to"])
    if is_open(data):
        if wanted not in _SIZES:
            raise TypeError("sizes are integers")
        return (data,)
    if wanted.numpy not in _EXACT:
        raise TypeError("not covered")
    if data.dtype.kind == "f" and wanted.numpy.kind in "iu":
        limits = np.iinfo(wanted.numpy)
        # NaN fails the comparison as well
        if not np.all((data > limits.min) & (data < limits.max)):
            raise OverflowError
    return (data.astype(wanted.numpy),)


def _fill_shape(node: Node, operands: _Operands) -> Sequence[_Array]:
    shape = tuple(_whole(operands[0]).tolist())
    _require_small(shape)
    value = node.attribute("value")
    value = np.zeros(1, np.float32) if value is None else value
    return (np.full(shape, value.reshape(-1)[0], value.dtype),)


def _range(_: Node, operands: _Operands) -> Sequence[_Array]:
    start, limit, step = (_whole(operand) for operand in operands)
    if start.dtype.kind == "f":
        raise TypeError("not covered")
    _require_small(((int(limit) - int(start)) // int(step),))
    return (np.arange(int(start), int(limit), int(step), dtype=start.dtype),)


def _expand(_: Node, operands: _Operands) -> Sequence[_Array]:
    data, target = _data(operands), tuple(_whole(operands[1]).tolist())
    shape = np.broadcast_shapes(data.shape, target)
    _require_small(shape)
    return (np.broadcast_to(data, shape),)


def _reduce_with(function: Callable[..., Any]) -> Callable[[Node, _Operands], Sequence[_Array]]:
    def compute(node: Node, operands: _Operands) -> Sequence[_Array]:
        data, axes = _whole(operands[0]), _axes(node, operands)
        if data.dtype.kind not in "iu" or data.size == 0:
            raise TypeError("not covered")
        if not axes and node.attribute("noop_with_empty_axes", 0):
            return (data,)
        keepdims = bool(node.attribute("keepdims", 1))
        reduced = function(data, axis=tuple(axes) if axes else None, keepdims=keepdims)
        return (np.asarray(reduced).astype(data.dtype),)

    return compute


def _where(node: Node, operands: _Operands) -> Sequence[_Array]:
    condition, *choices = (_whole(operand) for operand in operands)
    chosen = partial(np.where, condition)
    _require_small(np.broadcast_shapes(condition.shape, *(one.shape for one in choices)))
    return _elementwise(chosen)(node, choices)


def _ordered(function: Callable[..., Any]) -> Callable[[Node, _Operands], Sequence[_Array]]:
    """Leave NaN and the zero below zero alone, which libraries order differently."""

    def compute(node: Node, operands: _Operands) -> Sequence[_Array]:
        given = [_whole(operand) for operand in operands]
        if any((np.isnan(one) | (np.signbit(one) & (one == 0))).any() for one in given):
            raise TypeError("not covered")
        return (reduce(lambda a, b: _elementwise(function)(node, (a, b))[0], given),)

    return compute


def _nonzero(_: Node, operands: _Operands) -> Sequence[_Array]:
    data = _whole(operands[0])
    return (np.asarray(np.nonzero(np.atleast_1d(data)), np.int64)[: data.ndim],)


_Compute = Callable[[Node, _Operands], Sequence[_Array]]

_STRUCTURE: Final[Mapping[str, _Compute]] = {
    "Add": _on_open_sizes(_fit_int64(int.__add__), 0, both_sides=True),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _on_open_sizes(_divided_sizes, 1, both_sides=False),
    "Gather": _gather,
    "Identity": lambda _, given: (_data(given),),
    "Mul": _on_open_sizes(_fit_int64(int.__mul__), 1, both_sides=True),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": _on_open_sizes(_fit_int64(int.__sub__), 0, both_sides=False),
    "Unsqueeze": lambda node, given: (
        np.expand_dims(_data(given), tuple(_axes(node, given) or ())),
    ),
}

EVALUATED: Final[Mapping[str, _Compute]] = {
    **_STRUCTURE,
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Ceil": _elementwise(np.ceil),
    "ConstantOfShape": _fill_shape,
    "Div": _elementwise(_quotient_of),
    "Equal": _elementwise(np.equal),
    "Expand": _expand,
    "Floor": _elementwise(np.floor),
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Max": _ordered(np.maximum),
    "Min": _ordered(np.minimum),
    "Mod": _mod,
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "NonZero": _nonzero,
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Range": _range,
    "ReduceMax": _reduce_with(np.max),
    "ReduceMin": _reduce_with(np.min),
    "ReduceProd": _reduce_with(np.prod),
    "ReduceSum": _reduce_with(np.sum),
    **dict.fromkeys(("Shape", "Size"), lambda _, given: (_data(given),)),
    "Sqrt": _elementwise(np.sqrt),
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda node, given: (np.transpose(_data(given), node.attribute("perm")),),
    "Where": _where,
}
"""The operators evaluated here; ``Shape`` and ``Size`` need only the type of their input."""
