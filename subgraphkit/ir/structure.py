"""The structure of a subgraph without names, so that equal subgraphs have equal digests.

Values and symbolic dimensions are numbered as they first appear, so renaming does not change the
digest. Everything that can change a result is in it: operators, domains, versions, attributes,
edges, every type, and bodies. The data of the constants is apart, with digests of its own, as files
have.

Two subgraphs with one digest have the same nodes in the same places. So one engine serves both if
it takes inputs and outputs by position.
"""

import hashlib
import json
import os
import threading
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Graph, Initializer, Node, Subgraph
from subgraphkit.types import (
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    dim_name,
)

# Bytes of weights from which on several threads hash them.
_WORTH_THREADS: Final = 64 << 20

# Reading from disk, and the memory of one large weight per thread, make more threads useless.
_MOST_THREADS: Final = 4

_lock = threading.Lock()
_known: WeakKeyDictionary[Initializer, str] = WeakKeyDictionary()


def canonical(value: Any) -> bytes:
    """Return the one JSON text of a value: sorted members, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def data_digest(data: Any) -> str:
    """Return the SHA-256 of bytes; on today's processors it is the fastest of its kind."""
    return hashlib.sha256(data).hexdigest()


def file_digest(file: BinaryIO) -> str:
    """Return the SHA-256 of the rest of an open file."""
    return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()


def array_digest(array: npt.NDArray[Any]) -> str:
    """Return the digest of an array: its dtype, its shape and every element."""
    header = canonical([array.dtype.name, array.dtype.byteorder, array.shape])
    hasher = hashlib.sha256(header)
    if array.dtype.hasobject:
        hasher.update(canonical([_text(item) for item in array.reshape(-1)]))
    else:
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _text(item: object) -> list[str]:
    return ["bytes", item.hex()] if isinstance(item, bytes) else ["str", str(item)]


def weight_digests(weights: Sequence[Initializer]) -> list[str]:
    """Return the digest of each weight; each is read and hashed once in its life.

    A weight that is replaced is a new ``Initializer``, so its new value is hashed again.

    Raises:
        InvalidModelError: A weight cannot be read (SGK208, SGK211).

    Thread-safety: may be called from any thread; two may at worst hash the same weight.
    """
    with _lock:
        unknown = [weight for weight in weights if weight not in _known]
    fresh = _hash_all(unknown)
    with _lock:
        _known.update(zip(unknown, fresh, strict=True))
        return [_known[weight] for weight in weights]


def _hash_all(weights: Sequence[Initializer]) -> list[str]:
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    if threads == 1 or sum(weight.type.nbytes or 0 for weight in weights) < _WORTH_THREADS:
        return [_hash(weight) for weight in weights]
    with ThreadPoolExecutor(threads, "subgraphkit-digest") as pool:
        return list(pool.map(_hash, weights))


def _hash(weight: Initializer) -> str:
    return array_digest(weight.array())


def file_digests(path: Path, pattern: str = "*") -> dict[str, str]:
    """Return the digest of a file, or by relative path of all below a folder; or OSError."""
    if path.is_file():
        return {"": data_digest(path.read_bytes())}
    found = sorted(one for one in path.rglob(pattern) if "__pycache__" not in one.parts)
    files = [one for one in found if one.is_file()]
    return {one.relative_to(path).as_posix(): data_digest(one.read_bytes()) for one in files}


_Places = MutableMapping[str, int]


class NoKeyError(Exception):
    """There is no key, because something that decides an engine cannot be written."""


def structure_digest(subgraph: Subgraph, *, with_names: bool = False) -> str:
    """Digest all of a subgraph but constants; NoKeyError if it has no canonical form."""
    return _Writer(with_names=with_names).digest(subgraph)


class _Writer:
    """Writes one subgraph, row by row, into a hash."""

    def __init__(self, *, with_names: bool) -> None:
        self._with_names = with_names
        self._symbols: dict[str, int] = {}
        self._next_place = 0
        self._hasher = hashlib.sha256()

    def digest(self, subgraph: Subgraph) -> str:
        places: _Places = {"": -1}
        graph = subgraph.graph
        self._write("inputs", self._introduce(subgraph.inputs, places, graph.types))
        constant_types = {name: held.type for name, held in subgraph.constants.items()}
        self._write("constants", self._introduce(constant_types, places, constant_types))
        for index in subgraph.nodes:
            stated = [name in subgraph.constants for name in graph.table.outputs[index] if name]
            # The value of a Constant node counts as a constant, in any region.
            if not (graph.is_constant_node(index) and all(stated)):
                self._write("node", self._node(graph.nodes[index], places))
        self._write("outputs", [_place(name, places) for name in subgraph.outputs])
        return self._hasher.hexdigest()

    def _write(self, kind: str, row: Any) -> None:
        line = canonical([kind, row])
        self._hasher.update(len(line).to_bytes(8, "little") + line)

    def _introduce(self, names: Any, places: _Places, types: Mapping[str, ValueType]) -> list[Any]:
        """Number new values; return a row for each, None for one that is left out."""
        rows: list[Any] = []
        for name in names:
            if name:
                places[name] = self._next_place
                self._next_place += 1
            row = [places[name], self._type(types.get(name)), *([name] if self._with_names else ())]
            rows.append(row if name else None)
        return rows

    def _node(self, node: Node, places: _Places) -> list[Any]:
        row = [
            node.domain,
            node.op_type,
            node.opset,
            [_place(name, places) for name in node.inputs],
            [[name, self._attribute(value)] for name, value in sorted(node.attributes.items())],
            [[name, self._body(body, places)] for name, body in sorted(node.bodies.items())],
            # Last, because nothing a node reads may be its own output.
            self._introduce(node.outputs, places, node.graph.types),
        ]
        return [*row, node.name] if self._with_names else row

    def _body(self, body: Graph, outer: _Places) -> list[Any]:
        places: _Places = ChainMap({}, outer)
        held = body.initializers
        return [
            self._introduce(body.inputs, places, body.types),
            self._introduce(held, places, body.types),
            weight_digests(list(held.values())),
            [self._node(body.nodes[index], places) for index in body.order],
            [_place(name, places) for name in body.outputs],
        ]

    def _attribute(self, value: Any) -> list[Any]:  # noqa: PLR0911 (one line per kind of value)
        match value:
            case int():
                return ["int", value]
            case float():
                return ["float", value.hex()]
            case str():
                return ["str", value]
            case bytes():
                return ["bytes", value.hex()]
            case tuple():
                return ["list", [self._attribute(item) for item in value]]
            case np.ndarray():
                return ["tensor", array_digest(value)]
            case None:
                raise NoKeyError("an attribute is of a kind that ONNX did not have")
            case _:
                return ["type", self._type(value)]

    def _type(self, type_: Any) -> Any:
        match type_:
            case None:
                return None
            case TensorType() | SparseTensorType():
                dims = type_.shape and [self._dim(dim) for dim in type_.shape]
                return [type(type_).__name__, int(type_.dtype), dims]
            case SequenceType() | OptionalType():
                return [type(type_).__name__, self._type(type_.element)]
            case MapType():
                return ["MapType", int(type_.key), self._type(type_.value)]
            case _:
                raise NoKeyError(f"a {type(type_).__name__} has no canonical form")

    def _dim(self, dim: Any) -> Any:
        if not isinstance(dim, str):
            return dim
        number = self._symbols.setdefault(dim, len(self._symbols))
        return [number, dim] if self._with_names and dim_name(dim) else [number]


def _place(name: str, places: Mapping[str, int]) -> int:
    if name not in places:
        raise NoKeyError(f"value {name!r} is read before it is made")
    return places[name]
