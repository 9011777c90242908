"""Seeded inputs for ONNX Runtime's own operators, and their comparison with ONNX Runtime."""

from typing import Any

import numpy as np

from backends.numpy.tests.comparing import check

Array = np.ndarray[Any, Any]

DOMAIN = "com.microsoft"

_TOLERANCES = {np.dtype(np.float64): 1e-6, np.dtype(np.float16): 2e-3}


class Numbers:
    """A source of arrays; equal seeds give equal arrays."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
        """Return numbers around 0."""
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def ints(self, high: int, *shape: int, dtype: Any = np.int32) -> Array:
        """Return numbers from 0 to below ``high``."""
        return self.rng.integers(0, high, shape).astype(dtype)

    def bytes(self, dtype: Any, *shape: int, most: int | None = None) -> Array:
        """Return bytes of any size, or with a magnitude of ``most``."""
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if most is None else (max(limits.min, -most), most)
        return np.asarray(self.rng.integers(low, high + 1, shape)).astype(dtype)

    def scale(self, *shape: int) -> Array:
        """Return scales that lead neither to zeros nor to saturation alone."""
        return np.asarray(self.rng.random(shape) * 0.1 + 0.01).astype(np.float32)


def agrees(
    op_type: str, inputs: list[Any], outputs: list[Any] | None = None, **attributes: Any
) -> None:
    """Compare a node with ONNX Runtime, with constants and without, shapes known and not.

    ``inputs``: Arrays, None for an input left out; trailing ones are dropped.
    """
    inputs = [None if one is None else np.asarray(one) for one in inputs]
    while inputs[-1] is None:
        inputs.pop()
    types = [None if one is None else np.dtype(one) for one in outputs or [inputs[0].dtype]]
    attributes.setdefault("domain", DOMAIN)
    rtol = max(2e-6 if one is None else _TOLERANCES.get(one, 2e-6) for one in types)
    check(op_type, inputs, types, rtol=rtol, **attributes)
