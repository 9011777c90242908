"""A limit to what an operator allocates, checked before it does.

A few bytes of input may ask for petabytes of output: a shape, a number of repetitions, the end of
a range. The system would grant such a request, or kill the process when the memory is written to.
So for every operator whose output size follows from the values of its inputs, or from attributes
alone, the size is computed first and held against the limit ``max_value_bytes``, or the option
``max_output_bytes``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, isfinite, prod
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Refusal, Unsupported
from subgraphkit.ir import Node
from subgraphkit.types import TensorType
from subgraphkit_numpy.kernels.registry import (
    Array,
    Factory,
    Implementation,
    Known,
    Made,
    Same,
    as_kernel,
)
from subgraphkit_numpy.kernels.site import Scope, Site

__all__ = [
    "BROADCASTING",
    "GROWING",
    "MISJUDGED",
    "SPREADING",
    "OutputTooLargeError",
    "check_size",
    "is_covered",
    "limited",
    "output_limit",
    "refused_size",
]

MISJUDGED: Final = frozenset({"Range", "StringConcat"})
"""Operators whose size is not in the inferred type: a huge range comes out as 0, and a text of any
length is one element."""

Values = Sequence[Any]
Sizer = Callable[[Site, Values], Sequence[int]]
"""Returns the shape of the output, from the values of the inputs."""


class OutputTooLargeError(MemoryError):
    """An operator would allocate more than the limits allow."""


def output_limit(scope: Scope) -> int:
    """Return the most bytes that one output may have; 0 means no limit."""
    given = scope.options().max_output_bytes
    return scope.limits.value_bytes if given is None else given


def check_size(shape: Sequence[int], dtype: np.dtype[Any], limit: int) -> None:
    """Refuse to make an array that is too large.

    Args:
        shape: Its shape; one with a negative dimension is left to the operator to complain about.
        dtype: Its element type.
        limit: The most bytes it may have, or 0.

    Raises:
        OutputTooLargeError: It would have more.
    """
    asked = prod(shape) * dtype.itemsize
    if limit and asked > limit and min(shape) >= 0:
        raise OutputTooLargeError(_too_large(f"{dtype}{list(shape)}", asked, limit))


def _too_large(what: str, asked: int, limit: int) -> str:
    return (
        f"the output would be {what}, which takes {asked:,} bytes; the limit is {limit:,} bytes "
        f"(max_value_bytes of the setting limits or, for the NumPy backend alone, its option "
        f"max_output_bytes; 0 lifts it)"
    )


def refused_size(node: Node, limit: int) -> Refusal | None:
    """Return a refusal if an output is known beforehand to be too large, else None."""
    type_ = node.output_type()
    asked = type_.nbytes if isinstance(type_, TensorType) else None
    if not limit or asked is None or asked <= limit:
        return None
    return Refusal("shape", f"{node.qualified_op_type}: {_too_large(str(type_), asked, limit)}")


def limited(domain: str, op_type: str, entry: Implementation) -> Implementation:
    """Return an entry whose kernels check the size of the output before they make it."""
    sizer = {**SPREADING, **GROWING}.get(op_type) if domain == "" else None
    return entry if sizer is None else replace(entry, factory=_guarded(entry.factory, sizer))


def _guarded(factory: Factory, sizer: Sizer) -> Factory:
    def make(site: Site) -> Made:
        made = factory(site)
        limit = output_limit(site.scope)
        if not limit or isinstance(made, Same | Known):
            return made
        if site.output_shape() is not None and site.node.op_type not in MISJUDGED:
            refusal = refused_size(site.node, limit)
            if refusal is not None:
                raise Unsupported(refusal.text, code=refusal.code)
            return made
        if site.node.op_type in SPREADING and is_covered(site):
            return made
        inner = as_kernel(made)
        return replace(inner, call=_checked(site, sizer, inner.call, limit))

    return make


def is_covered(site: Site) -> bool:
    """Say whether one input of a node surely has the shape of the output, so that nothing grows."""
    if site.node.op_type in MISJUDGED:
        return False
    shape = getattr(site.node.output_type(), "shape", None)
    if not site.scope.trusts_shapes or shape is None or None in shape:
        return False
    return any(site.node.shape(place) == shape for place in range(site.input_count))


def _checked(site: Site, sizer: Sizer, call: Callable[..., Any], limit: int) -> Callable[..., Any]:
    dtype = site.output_dtype() or site.dtype() or np.dtype(np.float64)
    count, itemsize = site.input_count, dtype.itemsize
    fixed = [site.constant(i) if i in site.absorbed else None for i in range(count)]
    places = [i for i in range(count) if i not in site.absorbed]
    passes_all = len(places) == count

    def compute(*given: Any, **more: Any) -> Any:
        values: Values = given
        if not passes_all:
            merged = fixed.copy()
            for place, value in zip(places, given, strict=False):
                merged[place] = value
            values = merged
        shape = sizer(site, values)
        if prod(shape) * itemsize > limit:
            check_size(shape, dtype, limit)
        return call(*given, **more)

    return compute


# -- how large the outputs are -------------------------------------------------------------------


def _value(values: Values, place: int) -> Any:
    return values[place] if place < len(values) else None


def _ints(value: Array) -> list[int]:
    numbers: list[int] = value.reshape(-1).tolist()
    return numbers


def _filled(site: Site, values: Values) -> Sequence[int]:
    return _ints(values[0]) if values else site.ints("shape") or ()


def _range(site: Site, values: Values) -> Sequence[int]:
    del site
    first, last, step = (value.item() for value in values[:3])
    if step == 0:
        raise ValueError("Range with a delta of 0 never ends")
    if not all(isfinite(bound) for bound in (first, last, step)):
        raise ValueError(f"Range from {first} to {last} in steps of {step} has no length")
    if values[0].dtype.kind in "iu":
        count = -((first - last) // step)
    else:
        count = ceil((last - first) / step)
    return (max(0, count),)


def _expand(site: Site, values: Values) -> Sequence[int]:
    del site
    x, target = values[0], _ints(values[1])
    rank = max(x.ndim, len(target))
    own = (1,) * (rank - x.ndim) + x.shape
    asked = [1] * (rank - len(target)) + target
    return [b if a == 1 else a for a, b in zip(own, asked, strict=True)]


def _tile(site: Site, values: Values) -> Sequence[int]:
    x, repeats = values[0], _ints(values[1])
    if site.opset < 6:  # noqa: PLR2004 (an opset)
        repeats = _along(values[2].item(), x.ndim, int(repeats[0]))
    return [dim * times for dim, times in zip(x.shape, repeats, strict=False)]


def _along(axis: float, rank: int, times: int) -> list[int]:
    repeats = [1] * rank
    repeats[int(axis)] = times
    return repeats


def _pad(site: Site, values: Values) -> Sequence[int]:
    x = values[0]
    pads = _value(values, 1)
    amounts: Sequence[int] = site.ints("pads") or site.ints("paddings") or ()
    if pads is not None:
        amounts = _ints(pads)
    axes = _value(values, 3)
    along = list(range(x.ndim)) if axes is None else _ints(axes)
    dims = list(x.shape)
    for place, axis in enumerate(along):
        dims[axis] = max(0, dims[axis] + amounts[place] + amounts[place + len(along)])
    return dims


def _one_hot(site: Site, values: Values) -> Sequence[int]:
    del site
    return (*values[0].shape, *_ints(values[1])[:1])


def _resize(site: Site, values: Values) -> Sequence[int]:
    x = values[0]
    place = 1 if site.opset < 11 else 2  # noqa: PLR2004 (an opset)
    scales, sizes = _value(values, place), _value(values, 3)
    axes = site.ints("axes") or tuple(range(x.ndim))
    dims = list(x.shape)
    if sizes is not None and sizes.size:
        given = _ints(sizes)
    elif scales is not None:
        given = [
            int(x.shape[a] * s) for a, s in zip(axes, scales.reshape(-1).tolist(), strict=False)
        ]
    else:
        given = [int(d * s) for d, s in zip(x.shape, site.attribute("scales", ()), strict=False)]
    for axis, size in zip(axes, given, strict=False):
        dims[axis] = size
    return dims


def _center_crop_pad(site: Site, values: Values) -> Sequence[int]:
    x = values[0]
    dims = list(x.shape)
    axes = site.ints("axes") or tuple(range(x.ndim))
    for axis, size in zip(axes, _ints(values[1]), strict=False):
        dims[axis] = size
    return dims


def _affine_grid(site: Site, values: Values) -> Sequence[int]:
    del site
    batch, _, *space = _ints(values[1])
    return (batch, *space, len(space))


def _max_unpool(site: Site, values: Values) -> Sequence[int]:
    del site
    shape = _value(values, 2)
    return values[0].shape if shape is None else _ints(shape)


def _col2im(site: Site, values: Values) -> Sequence[int]:
    del site
    x, block = values[0], prod(_ints(values[2]))
    return (x.shape[0], x.shape[1] // max(1, block), *_ints(values[1]))


def _mel_weights(site: Site, values: Values) -> Sequence[int]:
    del site
    return (values[1].item() // 2 + 1, values[0].item())


def _dft(site: Site, values: Values) -> Sequence[int]:
    length, axis = _value(values, 1), _value(values, 2)
    shape = [*values[0].shape[:-1], 2]
    if length is not None:
        shape[site.attribute("axis", -2) if axis is None else axis.item()] = length.item()
    return shape


def _multinomial(site: Site, values: Values) -> Sequence[int]:
    return (values[0].shape[0], site.attribute("sample_size", 1))


def _broadcast(site: Site, values: Values) -> Sequence[int]:
    del site
    shape: Sequence[int] = values[0].shape
    for value in values[1:]:
        if value.shape != shape:
            return np.broadcast_shapes(*[value.shape for value in values])
    return shape


def _product(site: Site, values: Values) -> Sequence[int]:
    del site
    left, right = values[0].shape, values[1].shape
    if len(left) < 2 or len(right) < 2:  # noqa: PLR2004 (a vector reduces to no more than it has)
        return max(left[:-1], right[:-2] + right[-1:], key=prod)
    return (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])


def _gather(site: Site, values: Values) -> Sequence[int]:
    data, places = values[0].shape, values[1].shape
    axis = site.attribute("axis", 0) % max(1, len(data))
    return (*data[:axis], *places, *data[axis + 1 :])


def _concat(site: Site, values: Values) -> Sequence[int]:
    del site
    return (sum([value.size for value in values]),)


def _sequence(site: Site, values: Values) -> Sequence[int]:
    return _concat(site, values[0])


def _einsum(site: Site, values: Values) -> Sequence[int]:
    """Return what the axes that are handed out have; without their names, what each input has."""
    terms, _, wanted = site.attribute("equation").replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, value in zip(terms.split(","), values, strict=False):
        letters = term.replace(".", "")
        if len(letters) == len(term) == value.ndim:
            sizes |= {k: max(d, sizes.get(k, 1)) for k, d in zip(term, value.shape, strict=True)}
    letters = wanted or "".join(k for k in sizes if terms.count(k) == 1)
    return [sizes.get(letter, 1) for letter in letters]


def _windows(site: Site, values: Values) -> Sequence[int]:
    """Return the shape of what windows slide over; what they make is no larger, filters aside."""
    rank = values[0].ndim - 2
    pads = site.ints("pads") or (0,) * (2 * rank)
    space = [
        dim + max(0, before) + max(0, after)
        for dim, before, after in zip(values[0].shape[2:], pads[:rank], pads[rank:], strict=False)
    ]
    return (*values[0].shape[:2], *space)


def _transposed(site: Site, values: Values) -> Sequence[int]:
    x, w = values[0].shape, values[1].shape
    rank = len(x) - 2
    ones = (1,) * rank
    strides, dilations = site.ints("strides") or ones, site.ints("dilations") or ones
    rows = zip(x[2:], strides, w[2:], dilations, strict=False)
    space = [(size - 1) * stride + (taps - 1) * far + 1 for size, stride, taps, far in rows]
    return (x[0], w[1] * site.attribute("group", 1), *space)


BROADCASTING: Final = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow",
    "Sub", "Sum", "Where", "Xor",
)  # fmt: skip

SPREADING: Final[Mapping[str, Sizer]] = {
    **dict.fromkeys((*BROADCASTING, "PRelu"), _broadcast),
    **dict.fromkeys(("AveragePool", "Conv", "LpPool", "MaxPool"), _windows),
    "Concat": _concat,
    "ConcatFromSequence": _sequence,
    "ConvTranspose": _transposed,
    "Einsum": _einsum,
    "Gather": _gather,
    "MatMul": _product,
}
"""Operators whose outputs may be far larger than each input, by the shapes of these."""

GROWING: Final[Mapping[str, Sizer]] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _filled,
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "ConstantOfShape": _filled,
    "DFT": _dft,
    "Expand": _expand,
    "HammingWindow": _filled,
    "HannWindow": _filled,
    "MaxUnpool": _max_unpool,
    "MelWeightMatrix": _mel_weights,
    "Multinomial": _multinomial,
    "OneHot": _one_hot,
    "Pad": _pad,
    "RandomNormal": _filled,
    "RandomUniform": _filled,
    "Range": _range,
    "Resize": _resize,
    "Tile": _tile,
    "Upsample": _resize,
}
"""Operators of the default domain whose output size is set by values, and how large it is."""
