"""Arrays from tensors of a message, in JSON or as binary data in little-endian order.

Every size is held against what is there before anything is allocated, and binary numbers are
views, never copies. Nothing is cast in silence: 1.5 is no INT32, 300 no INT8, true no number.
"""

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.serving.oip.datatypes import BINARY_ONLY, DATATYPES, LENGTH, refuse

_Array = npt.NDArray[Any]

_KINDS: Final[dict[str, set[type]]] = {
    "b": {bool},
    "u": {int},
    "i": {int},
    "f": {int, float},
    "O": {str},
}
_MOST_BYTES: Final = 2**63 - 1
_MOST_AXES: Final = 64  # of NumPy's arrays


def type_and_shape(tensor: Mapping[str, Any], where: str) -> tuple[str, tuple[int, ...]]:
    """Return data type and shape of a tensor whose data nobody has looked at yet.

    Raises:
        InputError: It has none, or more than can be (SGK343).
    """
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        known = ", ".join(DATATYPES)
        refuse(f"{where} has the datatype {reprlib.repr(datatype)}; expected one of {known}")
    shown = f"{where} has the shape {reprlib.repr(shape)}"
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        refuse(f"{shown}; expected a list of sizes, none below 0")
    if len(shape) > _MOST_AXES:
        refuse(f"{where} has {len(shape)} axes; expected at most {_MOST_AXES}")
    if math.prod(filter(None, shape)) * DATATYPES[datatype][1].itemsize > _MOST_BYTES:
        refuse(f"{shown}; expected less than 2**63 bytes")
    return datatype, tuple(shape)


def from_binary(datatype: str, shape: tuple[int, ...], data: memoryview, where: str) -> _Array:
    """Return a read-only view of binary data; of strings, an array of ``str``.

    Raises:
        InputError: The data are not what shape and type say (SGK343).
    """
    dtype, count = DATATYPES[datatype][1], math.prod(shape)
    if datatype == "BYTES":
        return _objects(_strings(data, count, where), shape)
    if len(data) != count * dtype.itemsize:
        needed = f"{datatype} of shape {list(shape)} takes {count * dtype.itemsize}"
        refuse(f"{where} has {len(data)} bytes of data; {needed}")
    if datatype == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        refuse(f"{where} has a byte that is neither 0 nor 1, which BOOL has")
    array: _Array = np.ndarray(shape, dtype.newbyteorder("<"), data)
    array.flags.writeable = False
    return array


def _strings(data: memoryview, count: int, where: str) -> Iterator[str]:
    if count * LENGTH.size > len(data):
        refuse(f"{where} has {len(data)} bytes of data, too few for the lengths of {count} BYTES")
    place = 0
    for index in range(count):
        start = place + LENGTH.size
        place = start + (LENGTH.unpack_from(data, place)[0] if start <= len(data) else 0)
        if place > len(data):
            refuse(f"element {index} of {where} ends at byte {place} of {len(data)}")
        try:
            yield str(data[start:place], "utf-8")
        except UnicodeDecodeError:
            refuse(f"element {index} of {where} is not UTF-8, as strings of ONNX are")
    if place != len(data):
        refuse(f"{where} has {len(data) - place} bytes of data behind its {count} elements")


def from_json(datatype: str, shape: tuple[int, ...], data: Any, where: str) -> _Array:
    """Return an array of values in row-major order, flat or nested as the shape says.

    Raises:
        InputError: There are more values, fewer or others (SGK343).
    """
    dtype, count = DATATYPES[datatype][1], math.prod(shape)
    if datatype in BINARY_ONLY:
        refuse(f"{where} is {datatype} in JSON", "Send it as binary data.")
    values = _flat(data, shape, where)
    if len(values) != count:
        refuse(f"{where} has {len(values)} values; shape {list(shape)} takes {count}")
    if others := set(map(type, values)) - _KINDS[dtype.kind]:
        found = next(one for one in values if type(one) in others)
        refuse(f"{where} has the value {reprlib.repr(found)}, which is no {datatype}")
    if datatype == "BYTES":
        try:
            "".join(values).encode()
        except UnicodeEncodeError as error:
            refuse(f"{where} has {error.object[error.start]!r}, which is in no text")
        return _objects(values, shape)
    try:
        with np.errstate(over="raise"):
            return np.array(values, dtype).reshape(shape)
    except (OverflowError, FloatingPointError):
        refuse(f"{where} has a value out of the range of {datatype}")


def _flat(data: Any, shape: tuple[int, ...], where: str) -> list[Any]:
    if isinstance(data, list) and not any(isinstance(one, list) for one in data):
        return data
    level = [data]
    for axis, size in enumerate(shape):
        if any(not isinstance(one, list) or len(one) != size for one in level):
            refuse(f"{where} is nested otherwise than its shape {list(shape)}, at axis {axis}")
        level = list(chain.from_iterable(level))
    return level


def _objects(values: Iterable[Any], shape: tuple[int, ...]) -> _Array:
    elements = list(values)
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)
