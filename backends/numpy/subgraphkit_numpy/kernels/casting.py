"""Conversions between element types."""

from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site

__all__: list[str] = []

_PLAIN: Final = frozenset(
    {
        np.dtype(kind)
        for kind in (
            *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.bool_),
            *(np.int8, np.int16, np.int32, np.int64),
            *(np.uint8, np.uint16, np.uint32, np.uint64),
        )
    }
)
"""Types between which ONNX and NumPy convert alike: C's rules, no saturation."""


@kernel("Cast")
def cast(site: Site) -> Made:
    """Convert to the type an attribute names."""
    to = site.attribute("to")
    # version 1 of the operator names the type by a string
    target = DataType[to.upper()] if isinstance(to, str) else DataType(to)
    return _cast(site, target.numpy)


@kernel("CastLike")
def cast_like(site: Site) -> Made:
    """Convert to the type of the second input."""
    target = site.dtype(1)
    if target is None:
        return reference_kernel(site)
    return _cast(site, target, drop=1)


def _cast(site: Site, target: np.dtype[Any], drop: int | None = None) -> Made:
    dtype = site.dtype()
    if dtype is not None and dtype == target:
        return Same()
    if dtype not in _PLAIN or target not in _PLAIN:
        return reference_kernel(site)

    def compute(x: Array, *_: Any) -> Array:
        return x.astype(target)

    if drop is not None:
        site.absorbed.add(drop)
    return compute
