"""Operators that ONNX Runtime makes of several: products, convolutions and norms with neighbours.

Source: operators of the domain ``com.microsoft``. Where ONNX Runtime's documentation is silent,
what it computes on a CPU holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels import elementwise, rows
from subgraphkit_numpy.kernels.activation import ACTIVATIONS
from subgraphkit_numpy.kernels.blocking import FLOATS, elementwise_kernel
from subgraphkit_numpy.kernels.convolution import convolution
from subgraphkit_numpy.kernels.elementwise import Block, in_blocks
from subgraphkit_numpy.kernels.matrix import gemm, multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.normalization import rms_normalization
from subgraphkit_numpy.kernels.pooling import max_pool
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, as_kernel, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import is_half, pad_values, widen

_SUM: Final = 3
"""Which output of a norm is the sum that it normalises."""

_ACTIVATION_NS: Final = 1.0
"""Nanoseconds that an activation takes for an element, roughly."""


_ACTIVATIONS: Final[Mapping[str, tuple[Callable[..., Block], Sequence[float]]]] = {
    **{
        name: (make, tuple(defaults.values()))
        for name, (make, defaults, _) in ACTIVATIONS.items()
        if name not in {"HardSwish", "Mish", "Swish"}  # fused with those, a node is refused
    },
    "Clip": (elementwise.clip, (-np.inf, np.inf)),
    "Relu": (lambda: elementwise.relu, ()),
    "Tanh": (lambda: np.tanh, ()),
}
"""By name: what makes the block function, and of which parameters if none are given."""


def _activation(site: Site, given: list[float | None]) -> Block | None:
    """Return the activation that a node names, if any; Unsupported if nothing implements it."""
    name = site.attribute("activation", "")
    if not name:
        return None
    if name not in _ACTIVATIONS:
        text = f"{site.node.label} with activation {name!r}: nothing implements it"
        raise Unsupported(text, code="attribute")
    make, defaults = _ACTIVATIONS[name]
    given += [None] * len(defaults)
    pairs = zip(defaults, given, strict=False)
    return make(*(default if value is None else value for default, value in pairs))


def _apply_block(y: Array, block: Block | None) -> Array:
    """Apply an activation to a result that nobody else holds."""
    if block is None or not y.size:
        return y
    if is_half(y.dtype):
        return _apply_block(widen(y), block).astype(y.dtype)
    return in_blocks(block, y, y, _ACTIVATION_NS)


# -- products --------------------------------------------------------------------------------------


@kernel("FusedGemm", domain=MICROSOFT)
def fused_gemm(site: Site) -> Made:
    """Return the activation of what ``Gemm`` returns."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    given = [site.attribute(name) for name in names]
    if site.attribute("activation") == "Selu":
        given = [given[0], given[2]]
    block, product = _activation(site, given), gemm(site)
    call = product.call
    return replace(product, call=lambda *values: _apply_block(call(*values), block), shares=True)


@kernel("FusedMatMul", domain=MICROSOFT)
def fused_matmul(site: Site) -> Made:
    """Return ``alpha`` A' B', where ' transposes matrices, moves the first axis, or both."""
    alpha = site.attribute("alpha", 1.0)
    flips = [
        (bool(site.attribute(f"trans{name}", 0)), bool(site.attribute(f"transBatch{name}", 0)))
        for name in "AB"
    ]

    def compute(a: Array, b: Array) -> Array:
        left, right = (_turn_axes(widen(x), *flip) for x, flip in zip((a, b), flips, strict=True))
        y = np.asarray(multiply(left, right))
        if alpha != 1.0:
            np.multiply(y, y.dtype.type(alpha), y)
        return y.astype(a.dtype, copy=False)

    return Kernel(compute, shares=True)


def _turn_axes(x: Array, flip: bool, moves_first: bool) -> Array:  # noqa: FBT001 (called by place)
    if x.ndim < 2:  # noqa: PLR2004 (a matrix)
        return x
    if moves_first:
        x = np.moveaxis(x, 0, -2)
    return x.swapaxes(-1, -2) if flip else x


# -- convolutions ----------------------------------------------------------------------------------


class ChannelsFirst(Site):
    """The site of a node whose first input and output have channels last, seen with them first."""

    @classmethod
    def of(cls, site: Site) -> Self:
        """Make the view; what is absorbed through it, the site has."""
        view = cls(site.node, site.scope)
        view.absorbed = site.absorbed
        return view

    def shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape of an input, the first one with channels first."""
        shape = super().shape(index)
        return shape if index or shape is None else (shape[0], shape[-1], *shape[1:-1])

    def output_shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape of an output with channels first."""
        shape = super().output_shape(index)
        return None if shape is None else (shape[0], shape[-1], *shape[1:-1])


def channels_first(x: Array) -> Array:
    """Return an array with its last axis after the first."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def channels_last(x: Array) -> Array:
    """Return an array with its second axis at the end."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def with_channels_first(site: Site, call: Callable[..., Array]) -> Callable[..., Array]:
    """Let a function of channels-first arrays take them last, if the node says so."""
    if not site.attribute("channels_last", 0):
        return call
    return lambda x, *rest: channels_last(call(channels_first(x), *rest))


@kernel("FusedConv", domain=MICROSOFT)
def fused_conv(site: Site) -> Kernel:
    """Return the activation of a convolution plus an addend."""
    block = _activation(site, list(site.attribute("activation_params", ())))
    adds = site.has(3)
    if not site.settled(1, 2) or site.shape() is None or site.dtype() not in FLOATS:
        plain = convolution(site).call

        def compute(*values: Array) -> Array:
            y = plain(*(values[:-1] if adds else values))
            if adds:
                np.add(y, values[-1], y)
            return _apply_block(y, block)

        return Kernel(compute, shares=True)

    def finish(tile: Array, place: tuple[Any, ...], z: Array | None = None) -> None:
        if z is not None:
            np.add(tile, z[place], tile)
        if block is not None:
            block(tile, tile)

    made = convolution(site, finish)
    call = made.call
    if not adds:
        return made
    return replace(made, call=lambda x, z: call(x, z.reshape(*z.shape[:2], -1)))


@kernel("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def nhwc_conv(site: Site) -> Made:
    """Convolve an array with channels last; the addend has them last, too."""
    inner = fused_conv(ChannelsFirst.of(site))
    call, adds = inner.call, site.has(3)

    def compute(x: Array, *values: Array) -> Array:
        if adds:
            values = (*values[:-1], channels_first(values[-1]))
        return channels_last(call(channels_first(x), *values))

    return replace(inner, call=compute)


@kernel("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(site: Site) -> Made:
    """Return maxima under windows of an array with channels last."""
    inner = as_kernel(max_pool(ChannelsFirst.of(site)))
    call = inner.call
    return replace(inner, call=lambda x: channels_last(call(channels_first(x))))


# -- activations -----------------------------------------------------------------------------------


@kernel("BiasGelu", "FastGelu", domain=MICROSOFT)
def bias_gelu(site: Site) -> Made:
    """Return Gelu of the sum of the inputs: exact, or for ``FastGelu`` by tanh."""
    block = elementwise.gelu if site.node.op_type == "BiasGelu" else elementwise.gelu_tanh
    if site.input_count == 1:
        return elementwise_kernel(site, block, _ACTIVATION_NS)

    def compute(x: Array, bias: Array) -> Array:
        y = np.asarray(np.add(widen(x), widen(bias)))
        return _apply_block(y, block).astype(x.dtype, copy=False)

    return Kernel(compute, shares=True)


# -- norms -----------------------------------------------------------------------------------------


@kernel("SimplifiedLayerNormalization")
@kernel("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(site: Site) -> Made:
    """Divide by the root mean square; return the inverse of that too if asked."""
    plain = as_kernel(rms_normalization(site))
    if site.output_count == 1:
        return plain
    axis, epsilon = site.attribute("axis", -1), site.attribute("epsilon", 1e-5)

    def compute(x: Array, scale: Array) -> Any:
        axes = tuple(range(axis % x.ndim, x.ndim))
        square = np.square(widen(x)).mean(axes, keepdims=True)
        inverse = 1 / np.sqrt(square + square.dtype.type(epsilon))
        return plain.call(x, scale), inverse.astype(np.float32, copy=False)

    return Kernel(compute, shares=True)


def _rows(function: rows.RowBlock, x: Array, out: Array | None, *parameters: Any) -> Array:
    return rows.in_rows(function, x, parameters[0].size, out, 1.0, *parameters)


@kernel("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(site: Site) -> Made:
    """Normalise the sum of input, skip and bias; return the sum too if asked."""
    epsilon, count = site.attribute("epsilon", 1e-12), site.output_count
    with_sum = count > _SUM
    is_simple = site.node.op_type == "SkipSimplifiedLayerNormalization"

    def compute(x: Array, skip: Array, gamma: Array, *shifts: Array | None) -> Any:
        beta, bias = (*((None,) if is_simple else ()), *shifts, None, None)[:2]
        total = np.add(widen(x), widen(skip))
        if bias is not None:
            np.add(total, widen(bias), total)
        out = None if with_sum else total
        if is_simple:
            y = _rows(rows.rms_normalize, total, out, widen(gamma), epsilon)
        else:
            shift = None if beta is None else widen(beta)
            y = _rows(rows.layer_normalize, total, out, widen(gamma), shift, epsilon)
        y = y.astype(x.dtype, copy=False)
        if with_sum:
            return y, None, None, total.astype(x.dtype, copy=False)
        return (y, None, None)[:count] if count > 1 else y

    return Kernel(compute, shares=True)


@kernel("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(site: Site) -> Made:
    """Normalise the sum of the embeddings of words, positions and segments; count the mask."""

    def compute(*given: Any) -> Any:
        ids, segments, words, positions, kinds, gamma, beta, mask, places = pad_values(given, 9)
        tables = [words, positions] if segments is None else [words, positions, kinds]
        rows_of = rows_looked_up(tables, ids, segments, places)
        total = sum(map(widen, rows_of[1:]), widen(rows_of[0]))
        return normalized_embeddings(site, total, (widen(gamma), widen(beta)), mask, words.dtype)

    return Kernel(compute, shares=True)


def rows_looked_up(
    tables: list[Array], ids: Array, segments: Array | None, places: Array | None
) -> list[Array]:
    """Return the rows of words, positions and maybe segments; ValueError for an id outside."""
    at = np.arange(ids.shape[1])[None] if places is None else places
    found = []
    for table, chosen, what in zip(
        tables, (ids, at, segments), ("word", "position", "segment"), strict=False
    ):
        assert chosen is not None  # noqa: S101 (tables of segments come with segments)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(table)):
            raise ValueError(f"a {what} id is outside the table of {len(table)} rows")
        found.append(table.take(chosen, 0))
    return found


def normalized_embeddings(
    site: Site, total: Array, parameters: tuple[Array, Array], mask: Array | None, dtype: Any
) -> Any:
    """Return the outputs of a node that normalises embeddings, from their sum."""
    y = _rows(rows.layer_normalize, total, None, *parameters, site.attribute("epsilon", 1e-12))
    shown = np.zeros(len(total), np.int32) if mask is None else (mask == 1).sum(1, dtype=np.int32)
    results = (y.astype(dtype, copy=False), shown, total.astype(dtype, copy=False))
    return results[0] if site.output_count == 1 else results[: site.output_count]
