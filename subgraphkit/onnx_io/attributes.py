"""Attributes of nodes as Python values, decoded when first looked at."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto

from subgraphkit.ir import Initializer
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.protos import read_type
from subgraphkit.onnx_io.weights import array_of, initializer_of, sparse_initializer_of
from subgraphkit.types import DataType, TensorType

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


class LazyAttributes(Mapping[str, Any]):
    """The attributes of a node other than bodies.

    Numbers are ``int`` and ``float``, text is ``str`` (``bytes`` where it is not UTF-8), lists are
    tuples, tensors are read-only arrays, types are subgraphkit types.

    Thread-safety: safe; two threads may at worst decode the same attributes twice.
    """

    __slots__ = ("_folders", "_proto", "_values")

    def __init__(self, proto: onnx.NodeProto, folders: DataFolders | None) -> None:
        self._proto = proto
        self._folders = folders
        self._values: dict[str, Any] | None = None

    def _decoded(self) -> dict[str, Any]:
        if self._values is None:
            self._values = {
                attribute.name: _decode(attribute, self._folders)
                for attribute in self._proto.attribute
                if attribute.type not in _GRAPHS
            }
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def __repr__(self) -> str:
        """Render as the mapping it is."""
        return repr(self._decoded())


def body_protos(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """Return the graphs held by a node's attributes, lists of graphs as ``name[0]``, ..."""
    bodies: dict[str, onnx.GraphProto] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            bodies[attribute.name] = attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            bodies |= {f"{attribute.name}[{i}]": body for i, body in enumerate(attribute.graphs)}
    return bodies


def constant_of(node: onnx.NodeProto, folders: DataFolders | None) -> Initializer | None:
    """Return the value of a ``Constant`` node, or None if it states none of the known forms.

    Source: ONNX operator ``Constant`` (exactly one of its attributes is present).
    """
    name = node.output[0]
    for attribute in node.attribute:
        if attribute.name == "value":
            return initializer_of(attribute.t, folders, name)
        if attribute.name == "sparse_value":
            sparse = sparse_initializer_of(attribute.sparse_tensor, folders)
            return Initializer(name, sparse.type, sparse.array)
        if attribute.name in _CONSTANT_DTYPES:
            dtype = _CONSTANT_DTYPES[attribute.name]
            array = np.asarray(_decode(attribute, folders), dtype=dtype.numpy)
            array.setflags(write=False)
            return Initializer(name, TensorType(dtype, array.shape), partial(_itself, array))
    return None


_CONSTANT_DTYPES = {
    "value_float": DataType.FLOAT,
    "value_floats": DataType.FLOAT,
    "value_int": DataType.INT64,
    "value_ints": DataType.INT64,
    "value_string": DataType.STRING,
    "value_strings": DataType.STRING,
}


def _itself(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _decode(attribute: AttributeProto, folders: DataFolders | None) -> Any:  # noqa: PLR0911 (a table)
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.INTS:
        return tuple(attribute.ints)
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.FLOATS:
        return tuple(attribute.floats)
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.STRINGS:
        return tuple(_text(raw) for raw in attribute.strings)
    if kind == AttributeProto.TENSOR:
        return array_of(attribute.t, folders)
    return _decode_rare(attribute, folders)


def _decode_rare(attribute: AttributeProto, folders: DataFolders | None) -> Any:
    kind = attribute.type
    if kind == AttributeProto.TENSORS:
        return tuple(array_of(tensor, folders) for tensor in attribute.tensors)
    if kind == AttributeProto.SPARSE_TENSOR:
        return sparse_initializer_of(attribute.sparse_tensor, folders).array()
    if kind == AttributeProto.TYPE_PROTO:
        return read_type(attribute.tp)
    if kind == AttributeProto.TYPE_PROTOS:
        return tuple(read_type(proto) for proto in attribute.type_protos)
    return None
