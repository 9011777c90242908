"""The error function in float64."""

from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Any:
    """Evaluate by Horner's rule, constant term first, in the type of ``x``."""
    scalar = x.dtype.type
    total = np.multiply(x, scalar(coefficients[-1]))
    for coefficient in coefficients[-2:0:-1]:
        np.add(total, scalar(coefficient), total)
        np.multiply(total, x, total)
    return np.add(total, scalar(coefficients[0]), total)


def erf_double(x: Array, out: Array) -> None:
    """Write the error function of float64 numbers; ``out`` may be ``x``.

    Source: W. J. Cody, "Rational Chebyshev approximation for the error function", Mathematics of
    Computation 23 (1969), the approximations of Netlib's CALERF.
    """
    magnitude = np.abs(x)
    result = np.empty_like(x)
    small = magnitude <= 0.46875  # noqa: PLR2004 (the paper's ranges)
    large = magnitude > 4.0  # noqa: PLR2004 (a constant of the source)
    middle = ~(small | large)
    inner = x[small]
    result[small] = inner * _ratio(inner * inner, _CODY_A, _CODY_B)
    y = magnitude[middle]
    result[middle] = 1.0 - np.exp(-y * y) * _ratio(y, _CODY_C, _CODY_D)
    y = magnitude[large]
    inverse = 1.0 / (y * y)
    tail = inverse * _ratio(inverse, _CODY_P, _CODY_Q)
    result[large] = 1.0 - np.exp(-y * y) * (_INV_SQRT_PI - tail) / y
    np.copysign(result, x, out=result)
    result[np.isnan(x)] = np.nan
    np.copyto(out, result)


def _ratio(x: Array, numerator: tuple[float, ...], denominator: tuple[float, ...]) -> Any:
    return _polynomial(x, numerator) / _polynomial(x, denominator)


_INV_SQRT_PI = 0.56418958354775628695
_CODY_A = (
    3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02,
    3.16112374387056560e00, 1.85777706184603153e-1,
)  # fmt: skip
_CODY_B = (
    2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02,
    2.36012909523441209e01, 1.0,
)  # fmt: skip
_CODY_C = (
    1.23033935479799725272e03, 2.05107837782607146532e03, 1.71204761263407058314e03,
    8.81952221241769090411e02, 2.98635138197400131132e02, 6.61191906371416294775e01,
    8.88314979438837594118e00, 5.64188496988670089180e-1, 2.15311535474403846343e-8,
)  # fmt: skip
_CODY_D = (
    1.23033935480374942043e03, 3.43936767414372163696e03, 4.36261909014324715820e03,
    3.29079923573345962678e03, 1.62138957456669018874e03, 5.37181101862009857509e02,
    1.17693950891312499305e02, 1.57449261107098347253e01, 1.0,
)  # fmt: skip
_CODY_P = (
    6.58749161529837803157e-4, 1.60837851487422766278e-2, 1.25781726111229246204e-1,
    3.60344899949804439429e-1, 3.05326634961232344035e-1, 1.63153871373020978498e-2,
)  # fmt: skip
_CODY_Q = (
    2.33520497626869185443e-3, 6.05183413124413191178e-2, 5.27905102951428412248e-1,
    1.87295284992346725209e00, 2.56852019228982242072e00, 1.0,
)  # fmt: skip
