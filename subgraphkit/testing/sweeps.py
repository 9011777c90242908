"""Models of many operators at once, each with inputs and outputs of its own, and their judge."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.operations import Argument, Operation
from subgraphkit.testing.small_models import SmallModel
from subgraphkit.testing.subject import Subject
from subgraphkit.types import DataType

__all__ = ["Sweep"]

_OPSET: Final = 21
_IR_VERSION: Final = 10
_OPEN: Final = "N"
_NEAR: Final = {"float32": 1e-5, "float16": 6e-3, "float64": 1e-12}
"""What ``near`` allows: a part of the largest element expected."""
_PRECISE: Final = frozenset({"ulp", "near"})
_FRACTIONS: Final = frozenset({"float", "float16"})
_LARGE: Final = 1 << 6
"""The part of a type's range that integers are drawn from, so that a sum of some stays in it."""

_Array = npt.NDArray[Any]


class Sweep(SmallModel):
    """A model of operations that have nothing to do with one another.

    Args:
        rows: The operations, each with the size that its ``N`` has.
        is_open: Whether ``N`` is a symbol, the same for all, and their sizes only the usual ones.
    """

    def __init__(self, rows: Sequence[tuple[Operation, int]], *, is_open: bool = False) -> None:
        self.rows = tuple(rows)
        self.is_open = is_open
        self._constants = _constants(self.rows)
        super().__init__(self._model(precise=False))
        self._reference = ReferenceEvaluator(self._model(precise=True))
        self._number_of = {
            value.name: int(value.name.rpartition("_")[2]) for value in self.proto.graph.output
        }

    def feeds(self, seed: int = 0, size: int | None = None) -> Mapping[str, _Array]:
        """Return something to feed; another seed gives other values.

        Args:
            seed: Which values.
            size: The size of ``N`` where it is open, or the usual one.
        """
        fed: dict[str, _Array] = {}
        for number, (operation, usual) in enumerate(self.rows):
            rng = np.random.default_rng([seed, number])
            first: _Array | None = None
            for one in operation.arguments:
                if not one.is_stored:
                    drawn = _drawn(rng, operation, one, usual if size is None else size, first)
                    fed[f"{one.name}_{number}"] = drawn
                    first = drawn if first is None else first
        return fed

    def expected(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what onnx's own implementation computes, in double where precision is judged."""
        wide = {
            name: array.astype(np.float64)
            if array.dtype.kind == "f" and self._is_precise(int(name.rpartition("_")[2]))
            else array
            for name, array in feeds.items()
        }
        with np.errstate(all="ignore"):
            return list(self._reference.run(None, wide))

    def difference(
        self, subject: Subject, expected: Sequence[Any], actual: Sequence[Any]
    ) -> Finding | None:
        """Judge each result by what is asked of its operation."""
        if len(expected) != len(actual):
            return Finding(Outcome.FAIL_RUN, f"{len(actual)} outputs, expected {len(expected)}")
        for name, want, have in zip(self._number_of, expected, actual, strict=True):
            operation, _ = self.rows[self._number_of[name]]
            wrong = _wrong(subject, operation, np.asarray(want), np.asarray(have))
            if wrong is not None:
                return Finding(wrong.outcome, f"{operation.label}: {wrong.detail}")
        return None

    def _is_precise(self, number: int) -> bool:
        return self.rows[number][0].judged in _PRECISE

    def _model(self, *, precise: bool) -> onnx.ModelProto:
        nodes, inputs, outputs, stored = [], [], [], []
        for number, (operation, size) in enumerate(self.rows):
            wide = precise and operation.judged in _PRECISE
            for one in operation.arguments:
                name, typed = f"{one.name}_{number}", _typed(operation, one, wide=wide)
                if one.is_stored:
                    array = self._constants[name].astype(helper.tensor_dtype_to_np_dtype(typed))
                    stored.append(numpy_helper.from_array(array, name))
                else:
                    dims = _dims(one, _OPEN if self.is_open else size)
                    inputs.append(helper.make_tensor_value_info(name, typed, dims))
            for node in operation.nodes:
                node.input[:] = [name and f"{name}_{number}" for name in node.input]
                node.output[:] = [f"{name}_{number}" for name in node.output]
                nodes.append(node)
            outputs += map(helper.make_empty_tensor_value_info, nodes[-1].output)
        graph = helper.make_graph(nodes, "sweep", inputs, outputs, stored)
        imports = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
        typed_model = onnx.shape_inference.infer_shapes(model)
        del typed_model.graph.value_info[:]
        return typed_model


def _typed(operation: Operation, one: Argument, *, wide: bool) -> int:
    name = one.element_type or operation.element_type
    if wide and name in _FRACTIONS:
        name = "double"
    return int(TensorProto.DataType.Value(name.upper()))


def _dims(one: Argument, size: Any) -> list[Any]:
    return [size if dim == "N" else int(dim) for dim in one.dims]


def _constants(rows: Sequence[tuple[Operation, int]]) -> dict[str, _Array]:
    made = {}
    for number, (operation, size) in enumerate(rows):
        rng = np.random.default_rng([7, number])
        for one in operation.arguments:
            if one.is_stored:
                made[f"{one.name}_{number}"] = _drawn(rng, operation, one, size, None)
    return made


def _drawn(
    rng: np.random.Generator, operation: Operation, one: Argument, size: int, first: _Array | None
) -> _Array:
    """Draw values; those behind the first agree with it in some places."""
    shape = _dims(one, size)
    dtype = helper.tensor_dtype_to_np_dtype(_typed(operation, one, wide=False))
    if one.values:
        return (
            np.array([float(v) if "." in v else int(v) for v in one.values.split(",")])
            .astype(dtype)
            .reshape(shape)
        )
    if dtype.kind == "b":
        return rng.random(shape) > 0.5
    drawn = (
        _fractions(rng, one, shape)
        if dtype.kind == "f"
        else _integers(rng, one, shape, dtype, is_first=first is None)
    )
    drawn = np.asarray(drawn).astype(dtype)
    if first is not None and operation.judged in {"bits", "equal"} and not one.kind:
        if first.shape == drawn.shape and first.dtype == dtype:
            drawn = np.where(rng.random(shape) < 0.5, first, drawn)
    return drawn


def _fractions(rng: np.random.Generator, one: Argument, shape: list[int]) -> Any:
    if one.kind:
        low, high = (0.3, 1.7) if one.kind == "+" else (-0.95, 0.95)
        return rng.uniform(low, high, shape)
    drawn = np.clip(rng.standard_normal(shape) * 1.5, -3, 3)
    return np.where(rng.random(shape) < 0.25, np.round(drawn * 2) / 2, drawn)


def _integers(
    rng: np.random.Generator, one: Argument, shape: list[int], dtype: Any, *, is_first: bool
) -> Any:
    if one.kind:
        return rng.integers(1, 8, shape)
    limits = np.iinfo(dtype)
    small = rng.integers(max(-9, limits.min), 10, shape)
    if not is_first:
        return small
    large = rng.integers(limits.min // _LARGE, limits.max // _LARGE + 1, shape, dtype=dtype)
    return np.where(rng.random(shape) < 0.5, large, small)


def _wrong(subject: Subject, operation: Operation, want: _Array, have: _Array) -> Finding | None:
    if have.shape != want.shape:
        return Finding(Outcome.FAIL_SHAPE, f"shape {have.shape}, expected {want.shape}")
    if have.dtype.kind != want.dtype.kind:
        return Finding(Outcome.FAIL_DTYPE, f"dtype {have.dtype}, expected {want.dtype}")
    with np.errstate(all="ignore"):
        right = _right(subject, operation.judged, want, have)
    if right.all():
        return None
    place = tuple(np.argwhere(~right)[0].tolist())
    return Finding(
        Outcome.FAIL_VALUE,
        f"{np.count_nonzero(~right)} of {right.size} elements of {list(have.shape)} differ; at "
        f"{list(place)} expected {want[place]!s}, got {have[place]!s}",
    )


def _right(subject: Subject, judged: str, want: _Array, have: _Array) -> Any:
    """Say of each element whether it is right."""
    if have.dtype.kind != "f":
        return have == want
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    if judged != "near":
        declared = subject.declarations.tolerances.get(str(have.dtype))
        if judged == "bits":
            return same & (np.signbit(have) == np.signbit(want) | np.isnan(want))
        if judged == "equal":
            return same
        nearest = want.astype(have.dtype)
        same = (have == nearest) | (np.isnan(have) & np.isnan(nearest))
        unit = np.spacing(np.abs(nearest))
        off = np.abs(have.astype(np.float64) - want) <= 1.001 * unit.astype(np.float64)
        return same | off
    finite = np.abs(want[np.isfinite(want)])
    largest = float(finite.max()) if finite.size else 0.0
    limit = _NEAR[str(have.dtype)] * largest
    return same | (np.abs(have.astype(np.float64) - want) <= limit)
