"""Sizes of what operators return, from the values of their inputs and their attributes."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from math import ceil, isfinite, prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.site import Site

Values = Sequence[Any]
Sizer = Callable[[Site, Values], Sequence[int]]
"""Returns the shape of the output, from the values of the inputs."""


def _value(values: Values, place: int) -> Any:
    return values[place] if place < len(values) else None


def _ints(value: Array) -> list[int]:
    return list(map(int, value.reshape(-1)))


def _stated_shape(site: Site, values: Values) -> Sequence[int]:
    return _ints(values[0]) if values else site.ints("shape") or ()


def range_shape(_site: Site, values: Values) -> Sequence[int]:
    """Return how many numbers there are from a start, before a limit, in steps."""
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


def _expand(_site: Site, values: Values) -> Sequence[int]:
    x, target = values[0], _ints(values[1])
    rank = max(x.ndim, len(target))
    own = (1,) * (rank - x.ndim) + x.shape
    asked = [1] * (rank - len(target)) + target
    return [b if a == 1 else a for a, b in zip(own, asked, strict=True)]


def _tile(site: Site, values: Values) -> Sequence[int]:
    x, repeats = values[0], _ints(values[1])
    if site.opset < 6:  # noqa: PLR2004 (an opset)
        axis = int(values[2].item())
        return _with_sizes(x, [axis], [x.shape[axis] * int(repeats[0])])
    return [dim * times for dim, times in zip(x.shape, repeats, strict=False)]


def _with_sizes(x: Array, axes: Iterable[int] | None, sizes: Iterable[int]) -> Sequence[int]:
    """Return the shape of an array with other sizes along axes; None for all."""
    dims = list(x.shape)
    for axis, size in zip(range(x.ndim) if axes is None else axes, sizes, strict=False):
        dims[axis] = size
    return dims


def _pad(site: Site, values: Values) -> Sequence[int]:
    x, pads, axes = values[0], _value(values, 1), _value(values, 3)
    amounts = (site.ints("pads") or site.ints("paddings") or ()) if pads is None else _ints(pads)
    along = list(range(x.ndim)) if axes is None else _ints(axes)
    ends = zip(along, amounts, amounts[len(along) :], strict=False)
    return _with_sizes(x, along, [max(0, x.shape[axis] + a + b) for axis, a, b in ends])


def _resize(site: Site, values: Values) -> Sequence[int]:
    x = values[0]
    place = 1 if site.opset < 11 else 2  # noqa: PLR2004 (an opset)
    scales, sizes = _value(values, place), _value(values, 3)
    axes = site.ints("axes") or tuple(range(x.ndim))
    if sizes is not None and sizes.size:
        return _with_sizes(x, axes, _ints(sizes))
    factors = site.attribute("scales", ()) if scales is None else scales.reshape(-1).tolist()
    pairs = zip(axes, factors, strict=False)
    return _with_sizes(x, axes, [int(x.shape[axis] * factor) for axis, factor in pairs])


def _affine_grid(_site: Site, values: Values) -> Sequence[int]:
    batch, _, *space = _ints(values[1])
    return (batch, *space, len(space))


def _max_unpool(site: Site, values: Values) -> Sequence[int]:
    shape, x = _value(values, 2), values[0].shape
    taps, strides = site.ints("kernel_shape") or (), site.ints("strides") or (1,) * len(x)
    space = [(d - 1) * s + t for d, s, t in zip(x[2:], strides, taps, strict=False)]
    return max((*x[:2], *space), () if shape is None else _ints(shape), key=prod)


def _top_k(site: Site, values: Values) -> Sequence[int]:
    count = values[1].item() if len(values) > 1 else site.attribute("k")
    return _with_sizes(values[0], [site.attribute("axis", -1)], [count])


def _col2im(_site: Site, values: Values) -> Sequence[int]:
    x, block = values[0], prod(_ints(values[2]))
    return (x.shape[0], x.shape[1] // max(1, block), *_ints(values[1]))


def _image(site: Site, values: Values) -> Sequence[int]:
    with import_module("PIL.Image").open(io.BytesIO(values[0].tobytes())) as image:  # its header
        return (*image.size[::-1], 1 if site.attribute("pixel_format", "") == "Grayscale" else 3)


def _dft(site: Site, values: Values) -> Sequence[int]:
    length, axis = _value(values, 1), _value(values, 2)
    shape = [*values[0].shape[:-1], 2]
    if length is not None:
        shape[site.attribute("axis", -2) if axis is None else axis.item()] = length.item()
    return shape


def _stft(_site: Site, values: Values) -> Sequence[int]:
    (batch, samples, *_), step = values[0].shape, max(1, values[1].item())
    window, length = _value(values, 2), _value(values, 3)
    size = length.item() if length is not None else len(window) if window is not None else samples
    return (batch, max(0, samples - size) // step + 1, size // 2 + 1, 2)


def _broadcast(_site: Site, values: Values) -> Sequence[int]:
    shape: Sequence[int] = values[0].shape
    for value in values[1:]:
        if value.shape != shape:
            return np.broadcast_shapes(*[value.shape for value in values])
    return shape


def _factors(site: Site) -> tuple[int, int]:
    """Return the places of the two operands; of quantized ones each has scale and zero point."""
    return (0, 3) if site.node.op_type.startswith("QL") or site.node.op_type == "QGemm" else (0, 1)


def _product(site: Site, values: Values) -> Sequence[int]:
    left, right = (values[place].shape for place in _factors(site))
    if site.attribute("transBatchA") or site.attribute("transBatchB"):
        return ()
    if len(left) < 2 or len(right) < 2:  # noqa: PLR2004 (a vector reduces to no more than it has)
        return max(left[:-1], right[:-2] + right[-1:], key=prod)
    rows = left[-1 if site.attribute("transA", 0) else -2]
    columns = right[-2 if site.attribute("transB", 0) else -1]
    return (*np.broadcast_shapes(left[:-2], right[:-2]), rows, columns)


def _gather(site: Site, values: Values) -> Sequence[int]:
    data, places = values[0].shape, values[1].shape
    axis = site.attribute("axis", 0) % max(1, len(data))
    return (*data[:axis], *places, *data[axis + 1 :])


def _concat(_site: Site, values: Values) -> Sequence[int]:
    return (sum([value.size for value in values]),)


def _gather_nd(site: Site, values: Values) -> Sequence[int]:
    shape, (*places, depth) = values[0].shape, values[1].shape
    return (*places, *shape[site.attribute("batch_dims", 0) + depth :])


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


def _conv_shape(site: Site, values: Values) -> Sequence[int]:
    """Return the larger of what windows slide over, and what comes out."""
    over = _windows(site, values)
    w = values[_factors(site)[1]].shape
    ones = (1,) * len(w)
    rows = zip(over[2:], w[2:], site.ints("strides") or ones, site.ints("dilations") or ones,
               strict=False)  # fmt: skip
    space = [max(0, size - (taps - 1) * far - 1) // stride + 1 for size, taps, stride, far in rows]
    return max(over, (over[0], w[0], *space), key=prod)


def _depthwise(_site: Site, values: Values) -> Sequence[int]:
    x, w = values[0].shape, values[1].shape
    return (x[0], w[0], *x[2:], *w[2:])


def _transpose_shape(site: Site, values: Values) -> Sequence[int]:
    """Return the larger of what comes out, and what every tap makes of every element."""
    x, w = values[0].shape, values[1].shape
    ones = (1,) * (len(x) - 2)
    strides, dilations = site.ints("strides") or ones, site.ints("dilations") or ones
    rows = zip(x[2:], strides, w[2:], dilations, strict=False)
    space = [(size - 1) * stride + (taps - 1) * far + 1 for size, stride, taps, far in rows]
    first = (x[0], w[1] * site.attribute("group", 1))
    return max((*first, *space), (*first, *w[2:], *x[2:]), key=prod)


BROADCASTING: Final = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow",
    "Sub", "Sum", "Where", "Xor",
)  # fmt: skip

SPREADING: Final[Mapping[str, Sizer]] = {
    **dict.fromkeys((*BROADCASTING, "PRelu"), _broadcast),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool", "QLinearAveragePool"), _windows),
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv", "FusedConv", "QLinearConv"), _conv_shape),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), lambda site, v: _broadcast(site, v[:4:3])),
    "ArrayFeatureExtractor": lambda _, values: (*values[0].shape[:-1], values[1].size),
    "CausalConvWithState": _depthwise,
    **dict.fromkeys(("Concat", "QLinearConcat"), _concat),
    "ConcatFromSequence": lambda site, values: _concat(site, values[0]),
    "ConvTranspose": _transpose_shape,
    "Einsum": _einsum,
    "Gather": _gather,
    "GridSample": lambda _, values: (*values[0].shape[:2], *values[1].shape[1:-1]),
    "GatherND": _gather_nd,
    **dict.fromkeys(("FusedGemm", "FusedMatMul", "Gemm", "QGemm", "MatMul"), _product),
    **dict.fromkeys(("MatMulInteger", "MatMulIntegerToFloat"), _product),
    **dict.fromkeys(("DynamicQuantizeMatMul", "QLinearMatMul"), _product),
    "MatMulNBits": lambda site, values: (*values[0].shape[:-1], site.attribute("N")),
}
"""Operators whose outputs may be far larger than each input, by the shapes of these."""

GROWING: Final[Mapping[str, Sizer]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _stated_shape),
    **dict.fromkeys(("ConstantOfShape", "RandomNormal", "RandomUniform"), _stated_shape),
    "AffineGrid": _affine_grid,
    "CenterCropPad": lambda site, v: _with_sizes(v[0], site.ints("axes"), _ints(v[1])),
    "Col2Im": _col2im,
    "DFT": _dft,
    "Expand": _expand,
    "ImageDecoder": _image,
    "MaxUnpool": _max_unpool,
    "MelWeightMatrix": lambda _, values: (values[1].item() // 2 + 1, values[0].item()),
    "Multinomial": lambda site, values: (len(values[0]), site.attribute("sample_size", 1)),
    "OneHot": lambda _, values: (*values[0].shape, *_ints(values[1])[:1]),
    "Pad": _pad,
    "Range": range_shape,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "STFT": _stft,
    "Tile": _tile,
    "TopK": _top_k,
}
"""Operators of the default domain whose output size is set by values, and how large it is."""

SIZERS: Final[Mapping[str, Sizer]] = {**SPREADING, **GROWING}
"""All of them."""
