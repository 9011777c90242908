"""Types between protobuf and subgraphkit, both ways."""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final, TypeVar

import onnx
from google.protobuf.message import Message
from onnx import helper

from subgraphkit.errors import InvalidModelError
from subgraphkit.types import (
    DataType,
    Dim,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
    dim_name,
)

_MOST_BYTES: Final = 2**63 - 1
_Message = TypeVar("_Message", bound=Message)

ALIAS: Final = "ai.onnx"
"""Another name of the default domain."""


def normal_domain(domain: str) -> str:
    """Return the operator domain with the alias ``ai.onnx`` of the default domain resolved."""
    return "" if domain == ALIAS else domain


def without_alias(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose nodes name the default domain as onnx's inference knows it."""
    copy = copy_of(model)
    stack = [copy.graph]
    while stack:
        for node in stack.pop().node:
            node.domain = normal_domain(node.domain)
            for attribute in node.attribute:
                stack += [attribute.g, *attribute.graphs]
    return copy


def copy_of(message: _Message) -> _Message:
    """Return a copy of a message, to be changed."""
    copy: _Message = type(message)()
    copy.CopyFrom(message)
    return copy


def copy_fields(source: Any, target: Any, *, without: Collection[str]) -> None:
    """Copy a message but for some members; those may be large."""
    for field, value in source.ListFields():
        if field.name in without:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif field.message_type is not None:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def drop_notes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Remove what exporters note for people from nodes; many models consist mostly of it."""
    for node in nodes:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")


def read_type(proto: onnx.TypeProto, *, inferred: bool = False) -> ValueType | None:
    """Read a type, None if open; InvalidModelError (SGK214) if unknown, or larger than memory."""
    return _read(proto.SerializeToString(), inferred)


@lru_cache(maxsize=4096)
def _read(data: bytes, inferred: bool) -> ValueType | None:  # noqa: FBT001 (one call per value)
    """Read a type as it is stored: many values of a model have the same one."""
    proto = onnx.TypeProto.FromString(data)
    kind = proto.WhichOneof("value")
    read = partial(read_type, inferred=inferred)
    if kind == "tensor_type":
        return _tensor_type(proto.tensor_type.elem_type, _shape(proto.tensor_type, inferred))
    if kind == "sparse_tensor_type":
        sparse = proto.sparse_tensor_type
        return SparseTensorType(_data_type(sparse.elem_type), _shape(sparse, inferred))
    if kind == "sequence_type":
        return SequenceType(read(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(read(proto.optional_type.elem_type))
    if kind == "map_type":
        return MapType(_data_type(proto.map_type.key_type), read(proto.map_type.value_type))
    return None


def write_value_info(name: str, type_: ValueType | None) -> onnx.ValueInfoProto:
    """Write a named, typed value; an element type that is not known is left out."""
    value = onnx.ValueInfoProto()
    state_value(value, name, type_)
    return value


def state_value(value: onnx.ValueInfoProto, name: str, type_: ValueType | None) -> None:
    """Write name and type of a value into a message that is empty; see ``write_value_info``."""
    value.name = name
    if type_ is not None:
        value.type.CopyFrom(_write_type(type_))


@lru_cache(maxsize=4096)
def _write_type(type_: ValueType | None) -> onnx.TypeProto:
    """Write a type; not to be changed, since it is that of all values of the type."""
    match type_:
        case TensorType():
            return helper.make_tensor_type_proto(int(type_.dtype), type_.shape)
        case SparseTensorType():
            return helper.make_sparse_tensor_type_proto(int(type_.dtype), type_.shape)
        case SequenceType():
            return helper.make_sequence_type_proto(_write_type(type_.element))
        case OptionalType():
            return helper.make_optional_type_proto(_write_type(type_.element))
        case MapType():
            return helper.make_map_type_proto(int(type_.key), _write_type(type_.value))
        case None:
            return onnx.TypeProto()


def substitute_symbols(proto: onnx.TypeProto, symbols: Mapping[str, int]) -> None:
    """Replace named dimensions by their values, in place, at any depth of the type.

    Names without a meaning are taken out, because onnx takes equal names for equal sizes. So are
    negative sizes, which onnx does not expect.
    """
    kind = proto.WhichOneof("value")
    if kind in {"sequence_type", "optional_type"}:
        substitute_symbols(getattr(proto, kind).elem_type, symbols)
    elif kind == "map_type":
        substitute_symbols(proto.map_type.value_type, symbols)
    elif kind in {"tensor_type", "sparse_tensor_type"}:
        for dim in getattr(proto, kind).shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
            elif dim.dim_param and dim_name(dim.dim_param) is None:
                dim.ClearField("dim_param")
            elif dim.dim_value < 0:
                dim.ClearField("dim_value")


@lru_cache(maxsize=4096)
def _tensor_type(elem_type: int, shape: Shape | None) -> TensorType:
    """Share one object among the many values of a model that have the same type."""
    type_ = TensorType(_data_type(elem_type), shape)
    if not is_addressable(type_):
        raise InvalidModelError("SGK214", f"type {type_} is of more bytes than any memory has")
    return type_


def is_addressable(type_: TensorType) -> bool:
    """Say whether an array of the sizes that are known could be, as far as NumPy is concerned."""
    sizes = (dim for dim in type_.shape or () if isinstance(dim, int) and dim)
    return math.prod(sizes) * max(type_.dtype.bits // 8, 1) <= _MOST_BYTES


def _data_type(number: int) -> DataType:
    try:
        return DataType(number)
    except ValueError as error:
        raise InvalidModelError(
            "SGK214",
            f"a type has data type {number}, which ONNX lacks",
            hint="The model file is damaged or was written wrongly; export it again.",
        ) from error


def _shape(proto: Any, inferred: bool) -> Shape | None:  # noqa: FBT001 (as above)
    if not proto.HasField("shape"):
        return None
    return tuple([_dim(dim, inferred) for dim in proto.shape.dim])


def _dim(proto: onnx.TensorShapeProto.Dimension, inferred: bool) -> Dim:  # noqa: FBT001 (as above)
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        # Exporters write -1 (or another negative number) where they mean "not known".
        return int(proto.dim_value) if proto.dim_value >= 0 else None
    if kind != "dim_param":
        return None
    name = intern(proto.dim_param)  # TypeError if it is no text
    return name if inferred and name.startswith("unk__") else dim_name(name)
