"""Models of many operators at once, each with inputs and outputs of its own, and their judge."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

from subgraphkit.testing.comparison import LEAST, Wanted
from subgraphkit.testing.light_models import reference_evaluator
from subgraphkit.testing.operator_variants import USUAL_OPSET, Argument, OperatorVariant
from subgraphkit.testing.small_models import SmallModel

_IR_VERSION: Final = 10
_OPEN: Final = "N"
_LARGEST: Final = 3.0
"""The largest fraction that is fed, unless it is a special one."""
_TERMS: Final = 1 << 14
"""How many numbers may be added up before more is allowed."""
_TERMS_OF_SUMS: Final = 1 << 12
"""The same where all of them make one: a sum that is not made in parts is off by as many units."""
_PRECISE: Final = frozenset({"ulp", "near"})
_FRACTIONS: Final = frozenset({"float", "float16"})
_MOST_KNOWN: Final = 6
"""How many results are kept for feeds that come again and again."""
_EQUALS: Final = frozenset({"bits", "equal"})
_LARGE: Final = 1 << 6
"""The part of a type's range that integers are drawn from, so that a sum of some stays in it."""
_RANGES: Final = {"+": (0.3, 1.7), "~": (-0.95, 0.95), "*": (-200, 200), "#": (-(2.0**40), 2.0**40)}
_FAR: Final = "^"
"""The kind of numbers far from zero, where variances are small beside squares."""
_OFFSET: Final = 3000.0
_TERMS_OF_FAR: Final = 300.0
"""How many times more may be off there, where a mean is known to some units in its last place."""
_NEW_RESIZE: Final = 11
_OLD_RESIZE: Final = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_POOL: Final = 400_009
_INFINITIES: Final = (np.inf, -np.inf)
_STRANGE: Final = (*_INFINITIES, np.nan, np.nan)

_SPECIAL: Final = frozenset({"arithmetic", "curves", "movement"})
"""The families whose results on such values ONNX defines, but for the next operators."""
_VAGUE: Final = frozenset({"Cast", "CastLike", "Unique", "NonZero", "Tan", "Sinh", "Pow"})

_Array = npt.NDArray[Any]
_Row = tuple[OperatorVariant, int]
"""A line, and the size of ``N`` in it."""


def number_of(name: str) -> int:
    """Return which operation of a model a value of it belongs to."""
    return int(name.rpartition("_")[2])


class Sweep(SmallModel):
    """A model of operations that have nothing to do with one another."""

    def __init__(
        self,
        rows: Sequence[_Row],
        *,
        is_open: bool = False,
        own_sizes: bool = False,
        signs: bool = True,
    ) -> None:
        self.rows = tuple(rows)
        self.signs = signs
        self.is_open = is_open
        self.own_sizes = own_sizes
        self._constants = {
            f"{one.name}_{number}": _draw_values(number + place, operation, one, size)
            for number, (operation, size) in enumerate(self.rows)
            for place, one in enumerate(operation.arguments)
            if one.is_stored
        }
        self._known: dict[bytes, list[Any]] = {}
        super().__init__(self._model(dict(enumerate(self.rows))))
        self._number_of = {value.name: number_of(value.name) for value in self.proto.graph.output}

    @cached_property
    def _references(self) -> list[tuple[frozenset[str], ReferenceEvaluator]]:
        """Models of the lines' meanings, with the inputs of each."""
        rows = dict(enumerate(self.rows))
        stated = {at: (one.meant, size) for at, (one, size) in rows.items() if one.meaning}
        plain = {at: row for at, row in rows.items() if at not in stated}
        models = [self._model(some, precise=True) for some in (plain, stated) if some]
        return [
            (frozenset(value.name for value in model.graph.input), reference_evaluator(model))
            for model in map(_in_usual_opset, models)
        ]

    def _reference_results(self, feeds: Mapping[str, Any]) -> list[Any]:
        made: dict[str, Any] = {}
        with np.errstate(all="ignore"):
            for names, evaluator in self._references:
                fed = {name: array for name, array in feeds.items() if name in names}
                results: Any = evaluator.run(None, fed)
                made |= zip(evaluator.output_names, results, strict=True)
        return [made[name] for name in self._number_of]

    def feeds(
        self, seed: int = 0, size: int | None = None, repeated: int | None = None
    ) -> Mapping[str, _Array]:
        """Return something to feed; another seed gives other values."""
        fed: dict[str, _Array] = {}
        for number, (operation, usual) in enumerate(self.rows):
            actual = usual if size is None else size
            arguments = operation.arguments
            for place, one in enumerate(arguments):
                if not one.is_stored:
                    at = 3 * number + 1009 * seed + place
                    n = 1 if place == repeated else actual
                    fed[f"{one.name}_{number}"] = _draw_values(at, operation, one, n)
            if operation.strictness in _EQUALS and not any(one.kind for one in arguments):
                _agree(number, fed)
        return fed

    def expected_outputs(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the results of onnx's own implementation, in double where precision is judged."""
        digest = hashlib.sha256()
        for array in feeds.values():
            digest.update(np.ascontiguousarray(array).tobytes())
        key = digest.digest()
        if key not in self._known:
            self._known[key] = self._compute_expected(feeds)
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return self._known[key]

    def _compute_expected(self, feeds: Mapping[str, Any]) -> list[Any]:
        wide = {
            name: array.astype(np.float64)
            if array.dtype.kind == "f" and self.rows[number_of(name)][0].strictness in _PRECISE
            else array
            for name, array in feeds.items()
        }
        terms, least = [1.0] * len(self.rows), [LEAST] * len(self.rows)
        for name, array in feeds.items():
            number = number_of(name)
            is_sum = self.rows[number][0].family == "reductions" and array.dtype.kind == "f"
            terms[number] = max(terms[number], array.size / (_TERMS_OF_SUMS if is_sum else _TERMS))
            if any(one.kind == _FAR for one in self.rows[number][0].arguments):
                terms[number] = max(terms[number], _TERMS_OF_FAR)
            if is_sum or "Gelu" in self.rows[number][0].operators:
                least[number] = _LARGEST  # cancelling leaves the errors of the terms
        results, wanted = self._reference_results(wide), []
        for n, array in zip(self._number_of.values(), results, strict=True):
            about = self.rows[n][0].strictness, self.rows[n][0].label
            wanted.append(Wanted(np.asarray(array), *about, terms[n], least[n], self.signs))
        return wanted

    def special(
        self, seed: int, losing: frozenset[str], *, denormals: bool = True
    ) -> Mapping[str, _Array]:
        """Return feeds with zeros of both signs, infinities, NaN, denormal and extreme numbers."""
        careful = {
            number
            for number, (operation, _) in enumerate(self.rows)
            if any(node.op_type in losing for node in operation.nodes)
        }
        fed = self._fed_special(seed, dict.fromkeys(careful, _INFINITIES), denormals=denormals)
        if not careful:
            return fed
        made = zip(self._number_of.values(), self.expected_outputs(fed), strict=True)
        unclear = {number for number, wanted in made if np.isnan(wanted.array).any()}
        strange: dict[int, tuple[float, ...]] = dict.fromkeys(careful - unclear, _INFINITIES)
        strange |= dict.fromkeys(careful & unclear, ())
        return self._fed_special(seed, strange, denormals=denormals)

    def _fed_special(
        self, seed: int, strange: Mapping[int, tuple[float, ...]], *, denormals: bool
    ) -> Mapping[str, _Array]:
        fed = dict(self.feeds(seed))
        for name, array in fed.items():
            number = number_of(name)
            operation, _ = self.rows[number]
            odd = strange.get(number, _STRANGE)
            values = _special(operation, array.dtype, odd, denormals=denormals)
            is_meant = operation.strictness != "near" or name.startswith("x_")
            if values is not None and array.size and is_meant:
                rng = np.random.default_rng([seed, *name.encode()])  # others for each argument
                chosen = values[rng.integers(len(values), size=array.shape)]
                fed[name] = np.where(rng.random(array.shape) < 2 / 3, chosen, array)
                if number in strange and array.size >= len(odd):
                    fed[name].flat[: len(odd)] = odd  # so that unclear values show in every draw
        return fed

    def _model(self, rows: Mapping[int, _Row], *, precise: bool = False) -> onnx.ModelProto:
        nodes, inputs, stored = [], [], []
        outputs: list[onnx.ValueInfoProto] = []
        for number, (operation, size) in rows.items():
            wide = precise and operation.strictness in _PRECISE
            for place, one in enumerate(operation.arguments):
                name, typed = f"{one.name}_{number}", _onnx_type_of(operation, one, wide=wide)
                if one.is_stored:
                    array = self._constants.get(name)
                    array = _draw_values(0, operation, one, size) if array is None else array
                    array = array.astype(helper.tensor_dtype_to_np_dtype(typed))
                    stored.append(numpy_helper.from_array(array, name))
                else:
                    symbol = f"{_OPEN}{place}" if self.own_sizes else _OPEN
                    dims = _dims(one, symbol if self.is_open else size)
                    inputs.append(helper.make_tensor_value_info(name, typed, dims))
            for node in operation.nodes:
                node.input[:] = [name and f"{name}_{number}" for name in node.input]
                node.output[:] = [name and f"{name}_{number}" for name in node.output]
                nodes.append(node)
            made = filter(None, nodes[-1].output)
            outputs += map(helper.make_empty_tensor_value_info, made)
        graph = helper.make_graph(nodes, "sweep", inputs, outputs, stored)
        imports = [helper.make_opsetid("", max(operation.opset for operation, _ in rows.values()))]
        model = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
        typed_model = onnx.shape_inference.infer_shapes(model)
        del typed_model.graph.value_info[:]
        return typed_model


def _in_usual_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert a model of an older operator set, some of which ``onnx.reference`` does not have."""
    version = model.opset_import[0].version
    if version >= USUAL_OPSET:
        return model
    made = version_converter.convert_version(model, USUAL_OPSET)
    if version < _NEW_RESIZE:  # whose positions are others than the conversion makes them
        for node in made.graph.node:
            if node.op_type == "Resize":
                node.attribute.extend(helper.make_attribute(*one) for one in _OLD_RESIZE.items())
    return made


def _onnx_type_of(operation: OperatorVariant, one: Argument, *, wide: bool) -> int:
    name = one.element_type or operation.element_type
    if wide and name in _FRACTIONS:
        name = "double"
    return int(TensorProto.DataType.Value(name.upper()))


def _dims(one: Argument, size: Any) -> list[Any]:
    return [size if dim == "N" else int(dim) for dim in one.dims]


def _agree(number: int, fed: dict[str, _Array]) -> None:
    """Give a second argument elements of the first and their neighbours, as comparisons want it.

    A runtime that computes int64 through double, or double through float, takes neighbours for one.
    """
    first, second = fed.get(f"x_{number}"), fed.get(f"z_{number}")
    if first is not None and second is not None and first.shape == second.shape:
        second.flat[::3] = first.flat[::3]
        if first.dtype.kind == "f":
            above = np.nextafter(first.flat[1::3], np.inf, dtype=first.dtype)
            least: Any = np.finfo(first.dtype).tiny  # some backends take smaller ones for 0
            second.flat[1::3] = np.where(np.abs(above) < least, least, above)
        elif first.dtype.itemsize > 1:
            second.flat[1::3] = first.flat[1::3] + first.dtype.type(1)


def _draw_values(place: int, operation: OperatorVariant, one: Argument, size: int) -> _Array:
    """Take values from those drawn; another place gives others."""
    shape = _dims(one, size)
    dtype = helper.tensor_dtype_to_np_dtype(_onnx_type_of(operation, one, wide=False))
    if one.values:
        stated = [float(value) if "." in value else int(value) for value in one.values.split(",")]
        return np.array(stated).astype(dtype).reshape(shape)
    pool = _pool(dtype.str, one.kind or ("" if one.name == "x" else "small"))
    count = int(np.prod(shape, dtype=np.int64))
    start = place * 7919 % (len(pool) - min(count, len(pool)) + 1)
    return np.resize(pool[start : start + count], shape)


@lru_cache(maxsize=64)
def _pool(dtype_text: str, kind: str) -> _Array:
    """Draw as many values of a kind as the largest argument has."""
    rng, dtype = np.random.default_rng(3), np.dtype(dtype_text)
    half = rng.random(_POOL) < 1 / 2
    if dtype.kind == "b":
        return half
    if dtype.kind == "f":
        if kind in _RANGES:
            return rng.uniform(*_RANGES[kind], _POOL).astype(dtype)
        if kind == _FAR:
            return (_OFFSET + rng.integers(-8, 9, _POOL) / 4).astype(dtype)
        drawn = np.clip(rng.standard_normal(_POOL) * 1.5, -3, 3)
        return np.where(half, np.round(drawn * 2) / 2, drawn).astype(dtype)
    if kind in _RANGES:
        return rng.integers(1, 8, _POOL).astype(dtype)
    limits: Any = np.iinfo(dtype)
    small = rng.integers(max(-9, limits.min), 10, _POOL).astype(dtype)
    part = _LARGE if dtype.itemsize > 1 else 1
    low, high = limits.min // part, limits.max // part
    large = rng.integers(low, high + 1, _POOL, dtype=dtype)
    # products of 8 bits are added up in more, which those of half the size would not show
    is_small = kind == "small" and dtype.itemsize > 1
    return small if is_small else np.where(half, large, small)


def _special(
    operation: OperatorVariant, dtype: np.dtype[Any], strange: tuple[float, ...], *, denormals: bool
) -> _Array | None:
    """Return special values of a type, or None where ONNX does not define their results."""
    is_vague = "reduction=" in operation.text or not _VAGUE.isdisjoint(operation.operators)
    if is_vague or operation.family not in _SPECIAL or dtype.kind != "f":
        return None
    limits: Any = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5]
    if denormals:
        # whose reciprocals are finite, for libraries divide by multiplying with them
        values += [limits.tiny * 0.5, -limits.tiny * 0.5, limits.tiny * 0.75]
    if operation.strictness != "near" and denormals:
        values += [limits.max, limits.min, limits.tiny]
    return np.array([*values, *strange]).astype(dtype)
