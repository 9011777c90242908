"""Every operator, in every version, with every element type that its schema allows.

The inputs come from the official cases of ONNX: the smallest case of an operator that also fits an
older version is taken, and its values are converted to the element type in question.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper, numpy_helper

from backends.numpy.tests.dtype_templates import EXTRA
from subgraphkit.testing.official_cases import official_cases
from subgraphkit.types import DataType

BITS_OF_HALF: Final = 16
BITS_OF_DOUBLE: Final = 53
NAMES: Final = {dtype.onnx_name: dtype for dtype in DataType if dtype}
_SETTERS: Final = ("to", "dtype", "output_dtype", "output_datatype")
_TEMPLATES_TRIED: Final = 4


@dataclass(frozen=True)
class Template:
    """A node with inputs it can run on."""

    node: NodeProto
    opset: int
    inputs: tuple[Any, ...]

    @property
    def size(self) -> int:
        """Number of elements of the inputs."""
        return sum(_size(value) for value in self.inputs)


@dataclass(frozen=True)
class Combination:
    """One operator version with one of its type parameters set to one type."""

    schema: Any
    template: Template
    parameter: str
    type_name: str

    def __str__(self) -> str:
        """Render as ``Add-14 T=float16``."""
        domain = f"{self.schema.domain}::" if self.schema.domain else ""
        version = self.schema.since_version
        return f"{domain}{self.schema.name}-{version} {self.parameter}={self.type_name}"


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    return 0 if value is None else int(np.size(value))


@lru_cache(maxsize=1)
def _templates() -> dict[tuple[str, str], list[Template]]:
    found: dict[tuple[str, str], list[Template]] = {}
    for case in official_cases("node"):
        if len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        opset = next(e.version for e in case.model.opset_import if e.domain == node.domain)
        values, _ = next(case.data_sets())
        given = case.feeds(values)
        if any(name and name not in given for name in node.input):
            continue
        inputs = tuple(given[name] if name else None for name in node.input)
        found.setdefault((node.domain, node.op_type), []).append(Template(node, opset, inputs))
    for node, opset, inputs in EXTRA:
        key = (node.domain, node.op_type)
        found.setdefault(key, []).insert(0, Template(node, opset, tuple(inputs)))
    for templates in found.values():
        templates.sort(key=lambda t: t.size)
    return found


@lru_cache(maxsize=1)
def schemas() -> tuple[Any, ...]:
    """Return every schema of every version that is not withdrawn."""
    found = [s for s in defs.get_all_schemas_with_history() if not s.deprecated]
    return tuple(sorted(found, key=lambda s: (s.domain, s.name, s.since_version)))


def fitting(schema: Any) -> Iterator[Template]:
    """Yield templates that a version of an operator can run, the smallest first."""
    for template in _templates().get((schema.domain, schema.name), ()):
        if (fitted := _fitted(schema, template)) is not None:
            yield fitted


def _fitted(schema: Any, template: Template) -> Template | None:
    """Move inputs to attributes where an older version wants them there."""
    node = NodeProto()
    node.CopyFrom(template.node)
    moved = _moved_inputs(schema, template, node)
    if moved is None or any(a.name not in schema.attributes for a in template.node.attribute):
        return None
    inputs, names = moved
    given = {a.name for a in node.attribute}
    if any(a.required and name not in given for name, a in schema.attributes.items()):
        return None
    if len(inputs) < schema.min_input or len(node.output) > schema.max_output:
        return None
    del node.input[:]
    node.input.extend(f"x{i}" if n else "" for i, n in enumerate(names))
    for place in range(len(node.output)):
        if node.output[place]:
            node.output[place] = f"y{place}"
    return Template(node, schema.since_version, tuple(inputs))


def _moved_inputs(
    schema: Any, template: Template, node: NodeProto
) -> tuple[list[Any], list[str]] | None:
    """Return the inputs that remain after some became attributes of ``node``.

    None if they cannot.
    """
    newer = defs.get_schema(schema.name, template.opset, schema.domain)
    inputs, names = list(template.inputs), list(node.input)
    for place in reversed(range(len(inputs))):
        formal, was = _formal(schema.inputs, place), _formal(newer.inputs, place)
        if _corresponds(formal, was):
            continue
        attribute = None if was is None else schema.attributes.get(was.name)
        if attribute is not None and inputs[place] is not None:
            node.attribute.append(_as_attribute(was.name, attribute, inputs[place]))
        elif inputs[place] is not None:
            return None
        del inputs[place], names[place]
    return inputs, names


def _corresponds(formal: Any, was: Any) -> bool:
    if formal is None or was is None:
        return False
    return bool(formal.name == was.name or formal.option == was.option)


def _as_attribute(name: str, attribute: Any, value: Any) -> AttributeProto:
    plain = np.asarray(value).reshape(-1).tolist()
    kind = attribute.type.name
    if kind in {"INT", "FLOAT"}:
        return helper.make_attribute(name, {"INT": int, "FLOAT": float}[kind](plain[0]))
    convert = int if kind == "INTS" else float
    return helper.make_attribute(name, [convert(v) for v in plain], attr_type=getattr(
        AttributeProto, kind))  # fmt: skip


def _formal(formals: Any, place: int) -> Any:
    if place < len(formals):
        return formals[place]
    last = formals[-1] if formals else None
    return last if last is not None and last.option.name == "Variadic" else None


@lru_cache(maxsize=2048)
def combinations(schema: Any) -> tuple[list[Combination], ...]:
    """Return, for every parameter and type of a schema, candidates on different templates.

    A parameter that only outputs have, and that no attribute sets, has none.
    """
    templates = list(fitting(schema))
    return tuple(
        _diverse([
            Combination(schema, template, constraint.type_param_str, type_name)
            for template in templates
            if _can_take(schema, template, constraint.type_param_str, type_name)
        ])
        for constraint in schema.type_constraints
        for type_name in sorted(constraint.allowed_type_strs)
    )  # fmt: skip


def _diverse(candidates: list[Combination]) -> list[Combination]:
    """Return a few candidates that differ in attributes and number of inputs."""
    found: dict[tuple[Any, ...], Combination] = {}
    for candidate in candidates:
        node = candidate.template.node
        key = (len(node.input), len(node.output), *sorted(a.name for a in node.attribute))
        found.setdefault(key, candidate)
    return list(found.values())[:_TEMPLATES_TRIED]


def _places(schema: Any, template: Template, parameter: str) -> list[int]:
    return [
        place
        for place, value in enumerate(template.inputs)
        if value is not None and _formal(schema.inputs, place).type_str == parameter
    ]


def _outer(type_name: str) -> str:
    return type_name.split("(", maxsplit=1)[0] + ("+" if "(tensor" in type_name else "")


def _kind(value: Any) -> str:
    return "seq+" if isinstance(value, list) else "map" if isinstance(value, dict) else "tensor"


def _can_take(schema: Any, template: Template, parameter: str, type_name: str) -> bool:
    if places := _places(schema, template, parameter):
        if type_name.startswith("map("):
            key = next(iter(template.inputs[places[0]]))
            return type_name.startswith("map(string" if isinstance(key, str) else "map(int64")
        return all(_kind(template.inputs[p]) == _outer(type_name) for p in places)
    return _setter(schema, template, parameter) is not None and type_name.startswith("tensor(")


def _setter(schema: Any, template: Template, parameter: str) -> str | None:
    """Return the attribute that decides a type no input has."""
    if not any(formal.type_str == parameter for formal in schema.outputs):
        return None
    if schema.name in {"Constant", "ConstantOfShape"}:
        return "value"
    for name in _SETTERS:
        if name in schema.attributes:
            return name
    return None


def element_type(type_name: str) -> DataType:
    """Return the element type inside a type string."""
    return NAMES[type_name[type_name.rindex("(") + 1 :].rstrip(")").split(",")[-1].strip()]


def converted(value: Any, dtype: DataType) -> Any:
    """Return small values that any element type has."""
    if isinstance(value, list):
        return [converted(element, dtype) for element in value]
    if isinstance(value, dict):
        return {key: converted(number, dtype)[()] for key, number in value.items()}
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return array.copy() if array.dtype == dtype.numpy else _array_of(array, dtype)


def _array_of(array: np.ndarray[Any, Any], dtype: DataType) -> np.ndarray[Any, Any]:
    numbers = _as_numbers(array)
    if dtype is DataType.STRING:
        return np.array([str(v) for v in numbers.reshape(-1)], object).reshape(array.shape)
    if dtype is DataType.BOOL:
        return numbers > 0
    if "INT" in dtype.name:
        return _as_integers(numbers, dtype, is_whole=array.dtype.kind in "iub")
    if dtype.bits < BITS_OF_HALF:
        is_scale = dtype is DataType.FLOAT8E8M0
        limit = 1.0 if is_scale else 6.0
        numbers = np.clip(np.abs(numbers) if is_scale else numbers, -limit, limit)
    return np.asarray(numbers).astype(dtype.numpy)


def _as_numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind == "O":
        return np.arange(1, array.size + 1).reshape(array.shape)
    if array.dtype.kind in "fV":
        return np.nan_to_num(array.astype(np.float64), posinf=4, neginf=-4)
    return array.real if array.dtype.kind == "c" else array.astype(np.int64)


def _as_integers(
    numbers: np.ndarray[Any, Any], dtype: DataType, *, is_whole: bool
) -> np.ndarray[Any, Any]:
    bits = min(dtype.bits, BITS_OF_DOUBLE)
    unsigned = dtype.name.startswith("U")
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    scaled = np.rint(numbers if is_whole else numbers * 3)
    high = high if is_whole else min(high, 100)
    return np.clip(np.abs(scaled) if unsigned else scaled, low, high).astype(dtype.numpy)


def model_of(combination: Combination, dtype: DataType | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the model and its feeds."""
    schema, template = combination.schema, combination.template
    dtype = element_type(combination.type_name) if dtype is None else dtype
    node = NodeProto()
    node.CopyFrom(template.node)
    inputs = list(template.inputs)
    for place in _places(schema, template, combination.parameter):
        inputs[place] = converted(inputs[place], dtype)
        if schema.name in {"Div", "Mod"} and place == 1 and inputs[place].dtype.kind not in "Oc":
            inputs[place] = np.where(inputs[place] == 0, inputs[place].dtype.type(1), inputs[place])
    if not _places(schema, template, combination.parameter):
        _set(
            node,
            _setter(schema, template, combination.parameter) or "",
            dtype,
            by_name=schema.attributes.get("to") is not None and schema.since_version < 6,
        )
    _make_allowed(schema, template, combination, inputs)
    return _model(schema, node, inputs)


def _make_allowed(schema: Any, template: Template, combination: Combination, inputs: Any) -> None:
    """Give inputs of the other parameters a type that this version allows too."""
    for place, value in enumerate(inputs):
        if value is None or _kind(value) == "map":
            continue
        formal = _formal(schema.inputs, place)
        allowed = sorted(formal.types)
        element = value[0] if isinstance(value, list) and value else value
        if isinstance(element, list):
            continue
        have = DataType.of(np.asarray(element).dtype).onnx_name
        if formal.type_str == combination.parameter or any(f"({have})" in a for a in allowed):
            continue
        fit = [a for a in ("tensor(float)", "tensor(int64)", "tensor(int32)") if a in allowed]
        inputs[place] = converted(value, element_type((fit or allowed)[0]))


def _set(node: NodeProto, name: str, dtype: DataType, *, by_name: bool) -> None:
    kept = [a for a in node.attribute if a.name != name and not a.name.startswith("value_")]
    del node.attribute[:]
    node.attribute.extend(kept)
    if name == "value":
        count = 3 if node.op_type == "Constant" else 1
        array = converted(np.arange(1, 1 + count, dtype=np.float32), dtype)
        node.attribute.append(
            helper.make_attribute("value", numpy_helper.from_array(array, "value"))
        )
    else:
        node.attribute.append(helper.make_attribute(name, dtype.name if by_name else int(dtype)))


def _type_proto(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        element = _type_proto(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_sequence_type_proto(element)
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        proto = onnx.TypeProto()
        proto.map_type.key_type = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        kind = DataType.of(np.asarray(item).dtype)
        proto.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(int(kind), []))
        return proto
    array = np.asarray(value)
    return helper.make_tensor_type_proto(int(DataType.of(array.dtype)), array.shape)


def _model(schema: Any, node: NodeProto, inputs: list[Any]) -> tuple[Any, dict[str, Any]]:
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    fed = [helper.make_value_info(name, _type_proto(value)) for name, value in feeds.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "g", fed, outputs)
    imports = [helper.make_opsetid(schema.domain, schema.since_version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=13)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False)
    if all(o.type.WhichOneof("value") for o in inferred.graph.output):
        model = inferred
    else:
        _declare(schema, model, inputs)
    return model, feeds


def _declare(schema: Any, model: Any, inputs: list[Any]) -> None:
    """Declare outputs whose types inference does not find, from the parameters of the schema."""
    by_parameter = {
        _formal(schema.inputs, place).type_str: value
        for place, value in enumerate(inputs)
        if value is not None
    }
    to = {a.name: a.s for a in model.graph.node[0].attribute}.get("to")
    if schema.name == "Cast" and to:
        target = DataType[to.decode()].numpy
        by_parameter[schema.outputs[0].type_str] = np.zeros((), target)
    for place, output in enumerate(model.graph.output):
        formal = _formal(schema.outputs, place)
        if (value := by_parameter.get(formal.type_str)) is not None:
            output.type.CopyFrom(_type_proto(value))
            if output.type.WhichOneof("value") == "tensor_type":
                output.type.tensor_type.ClearField("shape")
            continue
        allowed = sorted(formal.types)
        name = "tensor(float)" if "tensor(float)" in allowed else allowed[0]
        output.type.CopyFrom(helper.make_tensor_type_proto(int(element_type(name)), None))
