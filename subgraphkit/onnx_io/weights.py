"""Tensors stored in a model: their sizes checked, their data read when asked for."""

import os
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Initializer
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.payloads import Payload, marked_length
from subgraphkit.onnx_io.protos import is_addressable
from subgraphkit.types import DataType, TensorType

_Array = npt.NDArray[Any]

IN_ENGINES: Final = "weights-in-the-engines"
"""The file name in tensors whose data a bundle leaves out; see ``bundled``."""


class _ExternalData(NamedTuple):
    folders: DataFolders
    location: str
    offset: int
    length: int
    subject: str

    def require_within(self, size: int) -> None:
        """Refuse a file of that size if the data does not fit into it."""
        if self.offset + self.length > size:
            raise InvalidModelError(
                "SGK211",
                f"{self.subject} needs bytes {self.offset} to {self.offset + self.length} of "
                f"{self.location!r}, which has {size}",
                hint="The data file is incomplete or belongs to another model; copy it again.",
            )


def initializer_of(
    tensor: onnx.TensorProto,
    folders: DataFolders | None,
    name: str = "",
    payload: Payload | None = None,
) -> Initializer:
    """Wrap a tensor so that its data is read when asked for.

    ``tensor``: The tensor, already passed by ``check_tensor``; kept, not copied.
    ``folders``: Where the model's external data may be; None if nowhere.
    """
    type_ = _sizes_of(tensor.data_type, tuple(tensor.dims)).type
    if payload is None:
        read = share_array(lambda: array_of(tensor, folders))
        return Initializer(name or tensor.name, type_, read, mapped=_place(tensor, folders))
    read = share_array(lambda: _array_from(tensor, payload.data()))
    return Initializer(name or tensor.name, type_, read)


def _place(tensor: onnx.TensorProto, folders: DataFolders | None) -> tuple[Path, int] | None:
    """Return the file that the data of a tensor is mapped from, and where in it that begins."""
    if folders is None or tensor.data_location != onnx.TensorProto.EXTERNAL or is_left_out(tensor):
        return None
    data = _find_data(tensor, folders, "the graph")
    if data.location not in folders.mapped or DataType(tensor.data_type).bits % 8:
        return None
    return folders.folder / data.location, data.offset


def sparse_initializer_of(
    sparse: onnx.SparseTensorProto, folders: DataFolders | None
) -> Initializer:
    """Wrap a sparse tensor; its data is read as a dense array.

    Source: ONNX IR specification, ``SparseTensorProto``: indices are linear or one row per element.
    """
    shape = tuple(sparse.dims)
    type_ = TensorType(DataType(sparse.values.data_type), shape)

    def read() -> _Array:
        values = array_of(sparse.values, folders)
        indices = array_of(sparse.indices, folders)
        dense = np.zeros(shape, dtype=values.dtype)
        try:
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        except IndexError as error:
            raise _disagree(sparse.values, "the model", f"is sparse, and {error}") from error
        dense.setflags(write=False)
        return dense

    return Initializer(sparse.values.name, type_, share_array(read))


def array_of(tensor: onnx.TensorProto, folders: DataFolders | None) -> _Array:
    """Read a tensor's data as a read-only array; strings are objects."""
    if is_left_out(tensor):
        raise InvalidModelError(
            "SGK184",
            f"the data of weight {tensor.name!r} is nowhere but in the engines of a bundle",
            hint="Open the bundle by its folder; for anything but running it, such as other "
            "backends or new weights, load the model it was exported from.",
            tensor=tensor.name,
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _array_from(tensor, _read_external(tensor, folders))
    return _decode_tensor(tensor)


def _decode_tensor(tensor: onnx.TensorProto) -> _Array:
    try:
        array = numpy_helper.to_array(tensor)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise _disagree(tensor, "the model", f"cannot be read: {error}") from error
    array.setflags(write=False)
    return array


def is_left_out(tensor: onnx.TensorProto) -> bool:
    """Say whether a bundle leaves the data of a tensor to its engines."""
    return bool(
        tensor.data_location == onnx.TensorProto.EXTERNAL
        and any(one.key == "location" and one.value == IN_ENGINES for one in tensor.external_data)
    )


def _array_from(tensor: onnx.TensorProto, data: npt.NDArray[np.uint8]) -> _Array:
    """Return bytes as the array a tensor says they are, sharing their memory if possible."""
    dtype = DataType(tensor.data_type)
    if dtype.bits % 8 == 0:
        array: _Array = np.frombuffer(data, dtype=dtype.numpy).reshape(tuple(tensor.dims))
    else:
        stored = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
        stored.raw_data = data.tobytes()
        array = _decode_tensor(stored)
    array.setflags(write=False)
    return array


def check_tensor(tensor: onnx.TensorProto, folders: DataFolders | None, where: str) -> None:
    """Check that dimensions are sane and match the payload (else SGK208), reading none of it."""
    type_, count, nbytes, problem = _sizes_of(tensor.data_type, tuple(tensor.dims))
    if problem:
        raise _disagree(tensor, where, problem)
    dtype = type_.dtype
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        found = _external_length(tensor, nbytes, folders, where)
        expected, unit = nbytes, "bytes"
    elif tensor.HasField("raw_data") and dtype is not DataType.STRING:
        expected, found, unit = nbytes, len(tensor.raw_data), "bytes"
    else:
        stored = len(getattr(tensor, helper.tensor_dtype_to_field(dtype)))
        expected, found, unit = _stored_count(tensor, dtype, count), stored, "items"
    if expected != found:
        raise _disagree(
            tensor, where, f"is {type_}, which needs {expected} {unit}, but {found} are stored"
        )


class _Sized(NamedTuple):
    """The type of a tensor, its elements and bytes, and its fault."""

    type: TensorType
    elements: int
    nbytes: int
    problem: str = ""


@lru_cache(maxsize=4096)
def _sizes_of(data_type: int, dims: tuple[int, ...]) -> _Sized:
    """Look at the type of a tensor: many tensors of a model have the same one."""
    try:
        type_ = TensorType(DataType(data_type), dims)
    except ValueError:
        type_ = TensorType(DataType.UNDEFINED, dims)
    if type_.dtype is DataType.UNDEFINED:
        return _Sized(type_, 0, 0, f"has data type {data_type}, which ONNX lacks")
    if any(dim < 0 for dim in dims):
        return _Sized(type_, 0, 0, f"has dimensions {list(dims)}, one is negative")
    if not is_addressable(type_):
        return _Sized(type_, 0, 0, f"is {type_}, of more bytes than any memory has")
    return _Sized(type_, type_.element_count or 0, type_.nbytes or 0)


def _external_length(
    tensor: onnx.TensorProto, nbytes: int, folders: DataFolders | None, where: str
) -> int:
    if tensor.data_type == DataType.STRING:
        raise _disagree(tensor, where, "holds strings in a file; ONNX keeps them in the model")
    if is_left_out(tensor):
        return nbytes
    if (taken := marked_length(tensor)) is not None:
        return taken
    data = _find_data(tensor, folders, where)
    data.require_within(data.folders.size_of(data.location, data.subject))
    return data.length


def _disagree(tensor: onnx.TensorProto, where: str, what: str) -> InvalidModelError:
    return InvalidModelError(
        "SGK208",
        f"tensor {tensor.name!r} of {where} {what}",
        hint="The model file is damaged or was written wrongly; export it again.",
        tensor=tensor.name,
    )


def _stored_count(tensor: onnx.TensorProto, dtype: DataType, count: int) -> int:
    if dtype in {DataType.COMPLEX64, DataType.COMPLEX128}:
        return 2 * count
    if dtype.bits in {2, 4, 6} and tensor.int32_data:
        # int32_data holds one byte of packed elements per entry.
        return (count * dtype.bits + 7) // 8
    return count


def check_sparse(sparse: onnx.SparseTensorProto, folders: DataFolders | None, where: str) -> None:
    """Check a sparse tensor, reading none of it, as ``check_tensor``."""
    values, indices = sparse.values, sparse.indices
    check_tensor(values, folders, where)
    check_tensor(indices, folders, where)
    dense = TensorType(DataType(values.data_type), tuple(sparse.dims))
    count = len(sparse.dims)
    if any(dim < 0 for dim in sparse.dims) or not is_addressable(dense):
        raise _disagree(values, where, f"is sparse, of dimensions {list(sparse.dims)}")
    (found,) = values.dims if len(values.dims) == 1 else (-1,)
    if indices.data_type != DataType.INT64 or [*indices.dims] not in ([found], [found, count]):
        raise _disagree(values, where, "is sparse, and its indices are not those of a list")


def share_array(read: Callable[[], _Array], *, keeps: bool = False) -> Callable[[], _Array]:
    """Return a reader that reads again only after the last array it returned was dropped."""
    held: Callable[[], _Array | None] = lambda: None  # noqa: E731 (the state before any reading)

    def array() -> _Array:
        nonlocal held
        if (found := held()) is None:
            found = read()
            held = (lambda: found) if keeps else weakref.ref(found)
        return found

    return array


def _read_external(tensor: onnx.TensorProto, folders: DataFolders | None) -> npt.NDArray[np.uint8]:
    data = _find_data(tensor, folders, "the graph")
    if data.location in data.folders.mapped:
        mapping = data.folders.mapped[data.location]
        data.require_within(len(mapping))
        return np.frombuffer(mapping, np.uint8, data.length, data.offset)
    with data.folders.open(data.location, data.subject) as file:
        size = os.fstat(file.fileno()).st_size
        data.require_within(size)
        file.seek(data.offset)
        payload = np.fromfile(file, dtype=np.uint8, count=data.length)
        data.folders.require_same(data.location, file)
    if len(payload) != data.length:
        data.require_within(data.offset + len(payload))
    return payload


def _find_data(tensor: onnx.TensorProto, folders: DataFolders | None, where: str) -> _ExternalData:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    subject = f"external data of tensor {tensor.name!r} of {where}"
    if folders is None:
        raise InvalidModelError(
            "SGK210",
            f"{subject} lies in a file, but the model was not loaded from one",
            hint="Load the model by its path, or store the data inside the model.",
        )
    needed = TensorType(DataType(tensor.data_type), tuple(tensor.dims)).nbytes or 0
    return _ExternalData(
        folders,
        entries.get("location", ""),
        _number(entries, "offset", 0, subject),
        _number(entries, "length", needed, subject),
        subject,
    )


def _number(entries: Mapping[str, str], key: str, default: int, subject: str) -> int:
    if (text := entries.get(key)) is None:
        return default
    # int() would also take "1_0" or " 7 ", and a signed or huge number is never right.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**63)):
        raise InvalidModelError("SGK211", f"{subject} has {key} {text!r}, which is not a size")
    return int(text)
