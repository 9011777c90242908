"""Functions of one array: signs, roots, exponentials, angles, rounding, the error function."""

from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels import elementwise
from subgraphkit_numpy.kernels.blocking import FLOATS, elementwise_kernel
from subgraphkit_numpy.kernels.elementwise import Block
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import in_arrays, in_wide, is_half

_LARGE: Final = 1024
"""Rows of a matrix whose decomposition takes long."""

_UNARY: dict[str, np.ufunc] = {
    "Neg": np.negative, "Abs": np.absolute, "Sign": np.sign, "BitwiseNot": np.bitwise_not,
    "Not": np.logical_not, "IsNaN": np.isnan, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log,
    "Reciprocal": np.reciprocal, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos,
    "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh,
    "Atanh": np.arctanh, "Tanh": np.tanh,
}  # fmt: skip
_MANY: dict[str, tuple[Block, float]] = {
    "Exp": (np.exp, 0.5), "Log": (np.log, 0.4), "Tanh": (np.tanh, 0.4), "Sqrt": (np.sqrt, 0.4),
    "Sin": (np.sin, 0.8), "Cos": (np.cos, 0.8),
}  # fmt: skip
"""What models call on large arrays, and the nanoseconds that an element takes."""
_EXACT = frozenset({"Abs", "Ceil", "Floor", "IsNaN", "Neg", "Reciprocal", "Round", "Sign", "Sqrt"})


@kernel(*_UNARY)
def unary(site: Site) -> Made:
    """Make a kernel of a ufunc of one array; ``Round`` rounds halves to even."""
    op_type, dtype = site.node.op_type, site.dtype()
    function = _UNARY[op_type]
    if op_type in _MANY and dtype in FLOATS:
        return elementwise_kernel(site, *_MANY[op_type])
    if dtype is not None and is_half(dtype) and op_type not in _EXACT:
        return in_arrays(site, in_wide(function))
    return in_arrays(site, function)


@kernel("Det")
def determinant(_site: Site) -> Made:
    """Return the determinant of every matrix."""

    def compute(x: Array) -> Array:
        return np.asarray(np.linalg.det(x) if x.shape[-1] < _LARGE else _by_reflections(x), x.dtype)

    return in_wide(compute)


def _by_reflections(x: Array) -> Any:
    """Compute it from a QR decomposition, for which NumPy lets go of the interpreter."""
    triangle, factors = np.linalg.qr(x, "raw")
    signs = np.where(factors != 0, -1, 1).prod(axis=-1)
    return np.diagonal(triangle, axis1=-2, axis2=-1).prod(axis=-1) * signs


@kernel("DFT")
def fourier(site: Site) -> Made:
    """Return the discrete Fourier transform along one axis, or its inverse."""
    inverse, onesided = site.attribute("inverse", 0), site.attribute("onesided", 0)
    usual = site.attribute("axis", -2 if site.opset >= 20 else 1)  # noqa: PLR2004 (an opset)

    def compute(x: Array, length: Array | None = None, axis: Array | None = None) -> Array:
        at = (usual if axis is None else axis.item()) % x.ndim
        size = x.shape[at] if not (inverse and onesided) else 2 * (x.shape[at] - 1)
        size = size if length is None else length.item()
        narrow = np.result_type(x.dtype, np.complex64)
        is_real = x.shape[-1] == 1
        signal = (x if is_real else np.ascontiguousarray(x).view(narrow))[..., 0]
        if inverse and onesided:
            return np.fft.irfft(signal, size, at)[..., None].astype(x.dtype, copy=False)
        if inverse or not (onesided and is_real):
            made = (np.fft.ifft if inverse else np.fft.fft)(signal, size, at)
            made = made.take(range(size // 2 + 1), at) if onesided else made
        else:
            made = np.fft.rfft(signal, size, at)
        return np.ascontiguousarray(made, narrow)[..., None].view(x.dtype)

    return in_wide(compute)


@kernel("Erf")
def error_function(site: Site) -> Made:
    """Return the error function of each element."""
    dtype = site.dtype()
    if dtype is not None and dtype.kind in "iu":
        return _erf_of_integers
    return elementwise_kernel(site, elementwise.erf, 1.7)


def _erf_of_integers(x: Array) -> Any:
    wide = x.astype(np.float64).reshape(-1)
    elementwise.erf(wide, wide)
    return wide.reshape(x.shape).astype(x.dtype)
