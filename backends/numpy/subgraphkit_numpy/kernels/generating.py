"""Arrays from nothing: filled, counted, random."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.sizes import range_shape


@kernel("ConstantOfShape")
def constant_of_shape(site: Site) -> Made:
    """Fill a shape with one value, float32 zero unless given."""
    value = site.attribute("value")
    fill = np.zeros((), np.float32) if value is None else value.reshape(-1)[0]
    dtype = np.dtype(np.float32) if value is None else value.dtype
    return lambda shape: np.full(tuple(shape.tolist()), fill, dtype=dtype)


@kernel("Trilu")
def keep_triangle(site: Site) -> Made:
    """Keep a diagonal and what is on one side of it; the rest becomes 0, or an empty text."""
    upper = bool(site.attribute("upper", 1))

    def compute(x: Array, shift: Array | None = None) -> Array:
        rows, columns = x.shape[-2:]
        above = 0 if shift is None else int(shift.reshape(-1)[0].clip(-rows, columns))
        blank = np.array("", object) if x.dtype.kind == "O" else np.zeros((), x.dtype)
        return np.where(np.tri(rows, columns, above - upper, bool) ^ upper, x, blank)

    return compute


@kernel("EyeLike")
def eye_like(site: Site) -> Made:
    """Write ones along a diagonal, so many places above the main one."""
    return lambda x: np.eye(len(x), x.shape[-1], site.attribute("k", 0), _dtype(site, x.dtype))


@kernel("AffineGrid")
def affine_grid(site: Site) -> Made:
    """Map the points of a regular grid between -1 and 1; ``onnx.reference`` rounds to float32."""
    ends, dtype = site.attribute("align_corners", 0), site.output_dtype()

    def compute(theta: Array, size: Array) -> Array:
        space = size.tolist()[2:]
        axes = [np.linspace(-1, 1, d) if ends else (2 * np.arange(d) + 1) / d - 1 for d in space]
        points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(space)], axis=-1)
        flat = points.reshape(-1, len(space) + 1) @ theta.astype(np.float64).transpose(0, 2, 1)
        return flat.reshape(len(theta), *space, len(space)).astype(dtype)

    return Kernel(compute, shares=True)


@kernel("Range")
def range_(site: Site) -> Made:
    """Count from ``start`` in steps of ``delta`` as long as it is before ``limit``."""

    def compute(start: Array, limit: Array, delta: Array) -> Array:
        (count,) = range_shape(site, (start, limit, delta))
        delta, start = delta.reshape(()), start.reshape(())
        return _map_range(count, start.dtype, lambda i: i.astype(start.dtype) * delta + start)

    return compute


_STEP: Final = 1 << 20
"""Numbers that are computed at a time, so that a run of billions ends when it is told to."""


def _map_range(count: int, dtype: np.dtype[Any], of: Callable[[Array], Array]) -> Array:
    """Return what a function makes of 0, 1, 2 and so on."""
    made = np.empty(count, dtype)
    for first in range(0, count, _STEP):
        last = min(first + _STEP, count)
        made[first:last] = of(np.arange(first, last))
    return made


_COSINES: Final[Mapping[str, Sequence[float]]] = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}
"""By operator, a constant and the factors of the cosines of once, twice the angle."""


@kernel(*_COSINES)
def window(site: Site) -> Made:
    """Add up cosines over one turn, without its end where the window is periodic."""
    factors = _COSINES[site.node.op_type]
    dtype = DataType(site.attribute("output_datatype", DataType.FLOAT.value)).numpy
    is_open = bool(site.attribute("periodic", 1))

    def compute(size: Array) -> Array:
        count = size.item()
        turn = np.float64(2 * np.pi) / np.float64(count if is_open else count - 1)

        def of(places: Array) -> Array:
            terms = [factor * np.cos(n * turn * places) for n, factor in enumerate(factors)]
            # the constant last: so the middle is one and not below, which matters to whole numbers
            return np.asarray(sum(reversed(terms)), np.float64).astype(dtype)

        return _map_range(count, dtype, of)

    return compute


@kernel("Dropout", until=11, aliases=True)
@kernel("Dropout", since=12, aliases=True, is_random=True)
def dropout(site: Site) -> Made:
    """Return the input; in training mode, which version 12 brought, drop elements at random."""
    mode = site.constant(2)
    if site.has(2) and (mode is None or bool(mode)):
        return reference_kernel(site)
    if site.output_count == 1:
        return Same()
    is_typed = site.opset < 10  # noqa: PLR2004 (an opset: before it, a mask has the data's type)
    return lambda x, *_: (x, np.ones(x.shape, x.dtype if is_typed else np.bool_))


def _generator(site: Site) -> "Callable[[], np.random.Generator]":
    """Return what makes a generator for a run: fresh, or of the node's seed every time."""
    if (seed := site.attribute("seed")) is None:
        return np.random.default_rng
    bits = int(np.float32(seed).view(np.uint32))
    return lambda: np.random.default_rng(bits)


def _dtype(site: Site, default: np.dtype[Any]) -> np.dtype[Any]:
    number = site.attribute("dtype")
    return default if number is None else DataType(number).numpy


# as text, since to name it imports numpy.random, which few models need
Draw = Callable[["np.random.Generator", Sequence[int]], Array]


def _draw(site: Site) -> Draw:
    if "Uniform" in site.node.op_type:
        low, high = site.attribute("low", 0.0), site.attribute("high", 1.0)
        return lambda generator, shape: generator.uniform(low, high, shape)
    mean, scale = site.attribute("mean", 0.0), site.attribute("scale", 1.0)
    return lambda generator, shape: generator.normal(mean, scale, shape)


@kernel("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", is_random=True)
def random(site: Site) -> Made:
    """Draw numbers of a shape given by an attribute, or of that of the input."""
    draw, generator = _draw(site), _generator(site)
    stated = np.broadcast_to(np.float32(0), site.ints("shape") or ())

    def compute(like: Array = stated) -> Array:
        return np.asarray(draw(generator(), like.shape)).astype(_dtype(site, like.dtype))

    return compute


@kernel("Bernoulli", is_random=True)
def bernoulli(site: Site) -> Made:
    """Draw ones with the probabilities of the input."""
    generator = _generator(site)

    def compute(x: Array) -> Array:
        drawn = generator().random(x.shape) < x.astype(np.float64)
        return np.asarray(drawn).astype(_dtype(site, x.dtype))

    return compute


@kernel("Multinomial", is_random=True)
def multinomial(site: Site) -> Made:
    """Draw classes, given the logarithms of their weights by row."""
    generator = _generator(site)
    count = site.attribute("sample_size", 1)
    dtype = _dtype(site, np.dtype(np.int32))

    def compute(x: Array) -> Any:
        logits = x.astype(np.float64)
        edges = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        drawn = generator().random((x.shape[0], count)) * edges[:, -1:]
        classes = (drawn[:, :, None] >= edges[:, None, :]).sum(axis=2)
        return np.minimum(classes, x.shape[1] - 1).astype(dtype)

    return compute
