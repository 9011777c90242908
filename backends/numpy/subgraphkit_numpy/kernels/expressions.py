"""Expressions of a node over a tile of its operand that is still in cache.

Tiles are float32 or float64 blocks of a few ten thousand elements, cut along any axes or, for
functions of whole rows, along all but the last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels import rows
from subgraphkit_numpy.kernels.normalization import batch_scale_and_shift, scale_and_shift
from subgraphkit_numpy.kernels.registry import Array, Kernel, as_kernel, find
from subgraphkit_numpy.kernels.site import Site


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of tiles.

    Attributes:
        call: Takes a tile of each operand and of each of ``constants``. Returns a new array, or
            with ``takes_out`` what it wrote to ``out``, which may be an operand.
        constants: Arrays made from constant inputs that are cut into tiles as operands are.
        whole_rows: Whether tiles must hold whole rows, that is the whole of the last axis.
        passes: What it costs, in plain passes such as an addition.
    """

    call: Callable[..., Any]
    places: tuple[int, ...]
    constants: tuple[Array, ...] = ()
    takes_out: bool = True
    whole_rows: bool = False
    passes: int = 1


Maker = Callable[[Site], Expression | None]

_BINARY: Final[dict[str, np.ufunc]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Sum": np.add,
}

_UNARY: Final[dict[str, np.ufunc]] = {
    "Abs": np.absolute,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Neg": np.negative,
    "Reciprocal": np.reciprocal,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
}

_CURVES: Final = frozenset({"Cos", "Exp", "Log", "Sin", "Tanh"})

_SLOW: Final = 4
"""Passes that an exponential is worth."""

_BLOCKS: Final = frozenset(
    {
        *("Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Pow"),
        *("Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish"),
    }
)
"""Operators whose own kernels say how they compute a block."""


def expression(site: Site) -> Expression | None:
    """Return how a node of float operands goes on with a tile, or None if it does not."""
    if site.node.domain:
        return None
    op_type = site.node.op_type
    maker = _MAKERS.get(op_type)
    if maker is not None:
        return maker(site)
    if op_type in _BINARY and site.input_count == 2 and site.opset >= 7:  # noqa: PLR2004 (opset)
        return Expression(_BINARY[op_type], (0, 1))
    if op_type in _UNARY:
        return Expression(_UNARY[op_type], (0,), passes=_SLOW if op_type in _CURVES else 1)
    return _block(site) if op_type in _BLOCKS else None


def _block(site: Site) -> Expression | None:
    entry = find("", site.node.op_type, site.opset)
    made = entry.factory(site) if entry is not None else None
    if made is None or not (callable(made) or isinstance(made, Kernel)):
        return None
    kernel = as_kernel(made)
    places = tuple(i for i in range(site.input_count) if site.has(i) and i not in site.absorbed)
    if kernel.block is None or places != (0,):
        return None
    plain = site.node.op_type in {"Clip", "Relu"}
    return Expression(kernel.block, (0,), passes=1 if plain else 2 * _SLOW)


def _batch_normalization(site: Site) -> Expression | None:
    inference = not site.attribute("training_mode", 0) and site.output_count == 1
    if not inference or site.opset < 9 or not site.settled(1, 2, 3, 4):  # noqa: PLR2004 (an opset)
        return None
    scale, shift = folded_normalization(site)
    rank = site.rank() or 0
    shape = (-1,) + (1,) * (rank - 2)
    return Expression(scale_and_shift, (0,), (scale.reshape(shape), shift.reshape(shape)))


def folded_normalization(site: Site) -> tuple[Array, Array]:
    """Return what a BatchNormalization with constant statistics multiplies by and adds."""
    statistics = [one for index in range(1, 5) if (one := site.constant(index)) is not None]
    dtype = site.dtype() or np.dtype(np.float32)
    factors = batch_scale_and_shift(statistics, site.attribute("epsilon", 1e-5))
    scale, shift = (factor.astype(dtype) for factor in factors)
    return scale, shift


def _is_last(site: Site, axis: int) -> bool:
    rank = site.rank() or 0
    return rank > 1 and axis in {-1, rank - 1}


def _by_rows(function: rows.RowBlock, *extra: Any) -> Callable[..., Any]:
    """Let a block function of the rows of a matrix take tiles with more axes."""

    def compute(x: Array, *parameters: Array, out: Array) -> None:
        length = x.shape[-1]
        if out.flags.c_contiguous:
            function(x.reshape(-1, length), out.reshape(-1, length), *parameters, *extra)
            return
        rows_of_out = np.empty((out.size // length, length), out.dtype)
        function(x.reshape(-1, length), rows_of_out, *parameters, *extra)
        out[...] = rows_of_out.reshape(out.shape)

    return compute


def _softmax(site: Site) -> Expression | None:
    if site.opset < 13 or not _is_last(site, site.attribute("axis", -1)):  # noqa: PLR2004 (opset)
        return None
    function = rows.softmax if site.node.op_type == "Softmax" else rows.log_softmax
    return Expression(_by_rows(function), (0,), whole_rows=True, passes=2 * _SLOW)


def _normalization(site: Site) -> Expression | None:
    """Take the normalisations of the last axis whose parameters are one number per column."""
    shape = site.shape()
    inputs = 3 if site.node.op_type == "LayerNormalization" else 2
    if shape is None or not _is_last(site, site.attribute("axis", -1)) or site.output_count > 1:
        return None
    if not site.settled(*range(1, inputs)):
        return None
    parameters = [site.constant(index) for index in range(1, inputs)]
    if any(one is None or one.shape != shape[-1:] for one in parameters):
        return None
    function = rows.layer_normalize if inputs > 2 else rows.rms_normalize  # noqa: PLR2004 (see above)
    call = _by_rows(function, *parameters, site.attribute("epsilon", 1e-5))
    return Expression(call, (0,), whole_rows=True, passes=2 * _SLOW)


def _mean(site: Site) -> Expression | None:
    axes = site.ints("axes")
    if axes is None and site.settled(1):
        given = site.constant(1)
        axes = None if given is None else tuple(int(axis) for axis in given.reshape(-1))
    kept = site.attribute("keepdims", 1)
    if not kept or axes is None or len(axes) != 1 or not _is_last(site, axes[0]):
        return None
    return Expression(_mean_rows, (0,), takes_out=False, whole_rows=True)


def _mean_rows(x: Array) -> Any:
    """Return the mean of every row of a tile, as a column."""
    length = x.shape[-1]
    total = rows.row_sums(x.reshape(-1, length))
    return np.divide(total, length, total).reshape(*x.shape[:-1], 1)


_MAKERS: Final[dict[str, Maker]] = {
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _normalization,
    "LogSoftmax": _softmax,
    "RMSNormalization": _normalization,
    "ReduceMean": _mean,
    "Softmax": _softmax,
}
