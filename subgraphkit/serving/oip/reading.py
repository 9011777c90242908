"""Arrays from tensors of a message that are binary data, in little-endian order.

Every size is compared with the data before anything is allocated. Binary numbers are views, never
copies.
"""

import math
import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.serving.oip.datatypes import DATATYPES, LENGTH, refuse
from subgraphkit.serving.oip.parsing import TensorForm

_Array = npt.NDArray[Any]

_MOST_BYTES: Final = 2**63 - 1
_MOST_AXES: Final = 64  # of NumPy's arrays


def checked_shape(tensor: TensorForm, where: str) -> tuple[int, ...]:
    """Return the shape of a tensor still unread; InputError (SGK343) if it cannot be."""
    datatype, shape = tensor.datatype, tensor.shape
    if datatype not in DATATYPES:
        known = ", ".join(DATATYPES)
        refuse(f"{where} has the datatype {reprlib.repr(datatype)}; expected one of {known}")
    if len(shape) > _MOST_AXES:
        refuse(f"{where} has {len(shape)} axes; expected at most {_MOST_AXES}")
    if math.prod(filter(None, shape)) * DATATYPES[datatype][1].itemsize > _MOST_BYTES:
        refuse(f"{where} has the shape {reprlib.repr(shape)}; expected less than 2**63 bytes")
    return tuple(shape)


def from_binary(datatype: str, shape: tuple[int, ...], data: memoryview, where: str) -> _Array:
    """View data read-only, strings as ``str``; InputError (SGK343) if shape or type differ."""
    dtype, count = DATATYPES[datatype][1], math.prod(shape)
    if datatype == "BYTES":
        return objects(_strings(data, count, where), shape)
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


def objects(values: Iterable[Any], shape: tuple[int, ...]) -> _Array:
    """Return an array of objects into which NumPy would look."""
    elements = list(values)
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)
