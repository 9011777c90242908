"""Resizing of axes: one after the other, planned once for a shape.

Source: ONNX operators ``Resize``, versions 10 to 19, and ``Upsample``, versions 1 to 9, which only
grows. What is rare (antialiasing, cropping, keeping of proportions, interpolation of integers) is
left to ``onnx.reference``.

Interpolation along an axis is a product with a matrix in which every row has a few neighbouring
weights. It is cut into pieces of some outputs and the inputs that these need, and the pieces are
multiplied: BLAS does that several times as fast as NumPy gathers, weighs and adds neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, isclose, prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.blocking import FLOATS
from subgraphkit_numpy.kernels.elementwise import SHARED_NANOSECONDS, do_blocks
from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import HALVES, widen
from subgraphkit_numpy.parallel import cut

_COLUMNS: Final = 64
"""Outputs of one piece of a matrix along the last axis."""

_ROWS: Final = 32
"""Outputs of one piece along other axes."""

Pass = Callable[[Array, Array], object]
"""Resizes one axis of an array, into another array."""


@dataclass(frozen=True)
class Settings:
    """Attributes of a node that say how coordinates and weights are found.

    Attributes:
        transformation: From places in the output to places in the input.
        excludes: Whether places outside the input weigh nothing; else they repeat its edge.
    """

    mode: str
    transformation: str
    rounding: str
    slope: float
    excludes: bool


@kernel("Resize", since=11)
def resize(site: Site) -> Made:
    """Resize axes by factors or to sizes."""
    settings = Settings(
        site.attribute("mode", "nearest"),
        site.attribute("coordinate_transformation_mode", "half_pixel"),
        site.attribute("nearest_mode", "round_prefer_floor"),
        site.attribute("cubic_coeff_a", -0.75),
        bool(site.attribute("exclude_outside", 0)),
    )
    rare = site.attribute("antialias", 0) or settings.transformation == "tf_crop_and_resize"
    kept = site.attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
    exact = settings.mode == "nearest" or site.dtype() in FLOATS | HALVES
    unknown = settings.transformation == "tf_half_pixel_for_nn"  # to the reference
    if rare or kept or not (exact or unknown):
        return reference_kernel(site)
    axes = site.ints("axes")

    def compute(
        x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
    ) -> Array:
        del roi
        factors = None if scales is None or not scales.size else tuple(scales.tolist())
        wanted = None if sizes is None else tuple(sizes.reshape(-1).tolist())
        return _resize(x, axes, factors, wanted, settings)

    shape = site.output_shape()
    shares = shape is None or prod(shape) >= SHARED_NANOSECONDS
    if not site.settled(1, 2, 3):
        return Kernel(compute, shares=shares)
    known = site.absorb(1, 2, 3)
    return Kernel(lambda x: compute(x, *known), shares=shares)


def _resize(
    x: Array,
    axes: tuple[int, ...] | None,
    scales: tuple[float, ...] | None,
    sizes: tuple[int, ...] | None,
    settings: Settings,
) -> Array:
    wide = x if settings.mode == "nearest" or x.dtype.kind == "c" else widen(x)
    wide = wide.astype(np.float64) if settings.mode != "nearest" and x.dtype.kind in "biu" else wide
    shape, plan = _plan(x.shape, axes, scales, sizes, settings)
    if not plan:
        return wide.reshape(x.shape).astype(x.dtype, copy=True)
    out = np.empty(shape, wide.dtype)
    if out.size:
        _run(np.ascontiguousarray(wide), out, plan)
    return (out if x.dtype.kind not in "biu" else np.rint(out)).astype(x.dtype, copy=False)


def _run(x: Array, out: Array, plan: Sequence["_Axis"]) -> None:
    first = min(step.axis for step in plan)
    outer = prod(x.shape[:first])
    source = x.reshape(outer, *x.shape[first:])
    target = out.reshape(outer, *out.shape[first:])
    passes = [(step.size, step.axis - first + 1, _pass(step, x.dtype, x.ndim)) for step in plan]
    do_blocks(partial(_run_part, source, target, passes), outer, out.size, 1.0)


def _run_part(
    source: Array, target: Array, passes: Sequence[tuple[int, int, Pass]], part: slice
) -> None:
    y = source[part]
    for place, (size, axis, apply) in enumerate(passes, start=1):
        before, after = y.shape[:axis], y.shape[axis + 1 :]
        is_last = place == len(passes)
        made = target[part] if is_last else np.empty((*before, size, *after), y.dtype)
        # of three axes, a pass resizes the second
        views = [one.reshape(prod(before), one.shape[axis], prod(after)) for one in (y, made)]
        apply(*views)
        y = made


# -- plans -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Axis:
    """How one axis is resized: output j is the sum of ``weights[j] * x[places[j]]``."""

    axis: int
    length: int
    size: int
    places: Array
    weights: Array | None


@lru_cache(maxsize=256)
def _pass(step: _Axis, dtype: np.dtype[Any], rank: int) -> Pass:
    """Return what does a step for arrays of an element type and a number of axes."""
    clamped = step.places.clip(0, step.length - 1)
    if step.weights is not None:
        weights = step.weights.astype(dtype)
        pieces = _pieces(clamped, weights, _COLUMNS if step.axis == rank - 1 else _ROWS)
        safe = partial(_sum_up, places=clamped, weights=weights)
        return partial(_interpolate, pieces=pieces, safe=safe)
    places = clamped[:, 0]
    return lambda x, out: np.take(x, places, 1, out, "clip")


@lru_cache(maxsize=256)
def _plan(
    shape: tuple[int, ...],
    axes: tuple[int, ...] | None,
    scales: tuple[float, ...] | None,
    sizes: tuple[int, ...] | None,
    settings: Settings,
) -> tuple[tuple[int, ...], tuple[_Axis, ...]]:
    """Return the shape of the output, and the steps: those that grow least come first."""
    along = range(len(shape)) if axes is None else [axis % len(shape) for axis in axes]
    dims = list(shape)
    steps = []
    for place, axis in enumerate(along):
        length = shape[axis]
        if scales is not None:
            scale, size = scales[place], int(length * scales[place])
        elif sizes is not None:
            size = sizes[place]
            scale = size / max(length, 1)
        else:
            raise ValueError("Resize needs scales or sizes; neither is given")
        dims[axis] = size
        if length and (size != length or not isclose(scale, 1.0)):
            places, weights = _taps(length, size, scale, settings)
            steps.append(_Axis(axis, length, size, places, weights))
    steps.sort(key=lambda step: (step.size / step.length, -step.axis))
    return tuple(dims), tuple(steps)


def _coordinates(length: int, size: int, scale: float, transformation: str) -> Array:
    y = np.arange(size, dtype=np.float64)
    resized = size if isclose(scale * length, size) else scale * length
    is_one = size == 1 if transformation == "pytorch_half_pixel" else resized == 1
    if is_one and transformation in {"align_corners", "pytorch_half_pixel"}:
        return y
    if transformation == "align_corners":
        return y * (length - 1) / (resized - 1)
    up, down = (length, size) if scale == size / length else (1, scale)  # a quotient is rounded
    if transformation in {"asymmetric", "tf_half_pixel_for_nn"}:
        return (y + 0.5 * (transformation != "asymmetric")) * up / down
    offset = 0.0
    if transformation == "half_pixel_symmetric":
        offset = length / 2 * (1 - size / resized)
    elif transformation not in {"half_pixel", "pytorch_half_pixel"}:
        raise ValueError(f"Resize knows no coordinate transformation {transformation!r}")
    return offset + (y + 0.5) * up / down - 0.5


_ROUNDINGS: Final[dict[str, Callable[[Array], Array]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _taps(length: int, size: int, scale: float, settings: Settings) -> tuple[Array, Array | None]:
    """Return for every output the places of its inputs, maybe outside, and their weights."""
    x = _coordinates(length, size, scale, settings.transformation)
    if settings.mode == "nearest":
        rounding = settings.rounding or ("ceil" if scale < 1 else "floor")
        return _ROUNDINGS[rounding](x).astype(np.intp)[:, None], None
    below = np.floor(x)
    ratio = x - below
    if settings.mode == "linear":
        places = below[:, None] + np.arange(2)
        weights = np.stack([1 - ratio, ratio], axis=1)
    else:
        places = below[:, None] + np.arange(-1, 3)
        distances = np.abs(ratio[:, None] - np.arange(-1, 3))
        weights = _cubic(distances, settings.slope)
    places = places.astype(np.intp)
    if settings.excludes:
        weights = np.where((places < 0) | (places >= length), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return places, weights


def _cubic(distance: Array, a: float) -> Array:
    """Source: R. Keys, "Cubic convolution interpolation for digital image processing" (1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, far)


Piece = tuple[slice, slice, Array]


def _pieces(places: Array, weights: Array, piece: int) -> list[Piece]:
    """Cut the matrix: outputs, the inputs they need, and the weights, (outputs, inputs)."""
    pieces = []
    for outputs in cut(len(places), ceil(len(places) / piece)):
        low, high = places[outputs].min(), places[outputs].max() + 1
        rows = np.arange(outputs.stop - outputs.start)[:, None]
        matrix = np.zeros((len(rows), high - low), weights.dtype)
        np.add.at(matrix, (rows, places[outputs] - low), weights[outputs])
        pieces.append((outputs, slice(int(low), int(high)), matrix))
    return pieces


# -- passes ----------------------------------------------------------------------------------------


def _sum_up(x: Array, out: Array, places: Array, weights: Array) -> None:
    out.fill(0)
    for tap in range(places.shape[1]):
        found = x.take(places[:, tap], 1)
        weight = weights[:, tap, None]
        # a place without weight must not pass on infinity
        out += np.where(weight == 0, weight, found * weight)


def _interpolate(x: Array, out: Array, pieces: Sequence[Piece], safe: Pass) -> None:
    if not np.isfinite(x).all():
        # in a product infinity would reach outputs that it has no weight in
        safe(x, out)
    elif x.shape[2] > 1:
        for outputs, inputs, matrix in pieces:
            np.matmul(matrix, x[:, inputs], out=out[:, outputs])
    else:
        for outputs, inputs, matrix in pieces:
            np.matmul(x[:, inputs, 0], matrix.T, out=out[:, outputs, 0])


@kernel("Upsample", until=9)
@kernel("Resize", since=10, until=10)
def resize_by_scales(site: Site) -> Made:
    """Scale axes, where an index of the result divided by the scale is the one of the input.

    Mode ``nearest`` takes the element at the index rounded down, or up where it shrinks; mode
    ``linear`` (``bilinear`` in version 1) interpolates between neighbours.
    """
    mode = "nearest" if site.attribute("mode", "nearest") == "nearest" else "linear"
    settings = Settings(mode, "asymmetric", "", 0.0, excludes=False)
    given = site.attribute("scales")
    if "height_scale" in site.node.attributes:
        given = (1.0, 1.0, site.attribute("height_scale"), site.attribute("width_scale"))

    def compute(x: Array, scales: Array | None = None) -> Array:
        return _resize(x, None, tuple(given if scales is None else scales.tolist()), None, settings)

    return Kernel(compute, shares=True)
