"""Comparisons, logic, and choosing between two arrays."""

from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART, arrayed, legacy_aligned

_BINARY = {
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}


@kernel(*_BINARY)
def compare(site: Site) -> Made:
    """Make a kernel of a ufunc that gives booleans."""
    return arrayed(site, legacy_aligned(site, _BINARY[site.node.op_type]))


@kernel("Equal")
def equal(site: Site) -> Made:
    """Compare element by element; strings too."""
    dtype = site.dtype()
    if dtype is not None and dtype.kind != "O":
        return arrayed(site, legacy_aligned(site, np.equal))
    return _equal_objects


def _equal_objects(first: Array, second: Array) -> Array:
    """Compare in parts; on objects the ufunc gives objects, and keeps the interpreter for long."""
    each = np.nditer(
        [first, second, None],
        ["buffered", "external_loop", "refs_ok", "zerosize_ok"],
        [["readonly"], ["readonly"], ["writeonly", "allocate"]],
        op_dtypes=[None, None, np.bool_],
        buffersize=PART,
    )
    with each:
        for one, other, same in each:
            same[...] = one == other
        found: Array = each.operands[2]
    return found


@kernel("Not")
def logical_not(site: Site) -> Made:
    """Negate booleans."""
    return arrayed(site, np.logical_not)


@kernel("IsNaN")
def is_nan(site: Site) -> Made:
    """Find what is not a number."""
    return arrayed(site, np.isnan)


@kernel("IsInf")
def is_inf(site: Site) -> Made:
    """Find infinities of the signs that the attributes ask for."""
    negative = bool(site.attribute("detect_negative", 1))
    positive = bool(site.attribute("detect_positive", 1))

    def compute(x: Array) -> Any:
        found = np.isinf(x)
        if not positive:
            found = found & (x < 0)
        return found if negative else found & ~(x < 0)

    return arrayed(site, compute)


@kernel("Where")
def where(site: Site) -> Made:
    """Choose elements of one of two arrays."""
    del site
    return np.where
