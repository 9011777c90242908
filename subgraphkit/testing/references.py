"""Feeds and expected results for models that come without them."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import ModelSource
from subgraphkit.placing import InferenceSession
from subgraphkit.types import DataType, TensorType

__all__ = ["REFERENCE", "drawn_feeds", "reference_results"]

REFERENCE: Final = "numpy"
"""The backend whose results count where none are stored."""

_UNKNOWN_SIZE: Final = 1
_HIGH: Final = 2  # 0 and 1 are right for masks, indices and counts alike


def reference_results(source: ModelSource, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what the NumPy backend computes, whatever is configured."""
    with InferenceSession(
        source,
        REFERENCE,
        fallback=REFERENCE,
        strict=False,
        on_missing="error",
        build="now",
        require={},
    ) as session:
        return session.run(None, feeds)


def drawn_feeds(graph: BoundGraph, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Draw an array for every input: standard normal floats, integers that are 0 or 1.

    Dimensions that nobody knows are taken to be 1.

    Raises:
        CallerError: An input is not a tensor of numbers of a known rank (SGK301).
    """
    rng = np.random.default_rng(seed)
    return {name: _drawn(name, graph.types.get(name), rng) for name in graph.inputs}


def _drawn(name: str, type_: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    known = isinstance(type_, TensorType) and type_.shape is not None
    if not known or type_.dtype in {DataType.UNDEFINED, DataType.STRING}:
        raise CallerError(
            "SGK301",
            f"input {name!r} is {type_}, which cannot be made up",
            hint="Store what is to be fed in test_data_set_0/input_0.pb beside model.onnx.",
        )
    shape = [dim if isinstance(dim, int) else _UNKNOWN_SIZE for dim in type_.shape]
    if type_.dtype.label.startswith(("int", "uint", "bool")):
        return rng.integers(0, _HIGH, shape).astype(type_.dtype.numpy)
    return np.asarray(rng.standard_normal(shape)).astype(type_.dtype.numpy)
