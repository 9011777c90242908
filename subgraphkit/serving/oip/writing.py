"""Tensors of a message from arrays, in JSON or as binary data in little-endian order."""

import reprlib
import struct
from itertools import chain
from typing import Any, Final

import numpy as np

from subgraphkit.serving.oip.datatypes import BINARY_ONLY, datatype_of, refuse

__all__ = ["to_binary", "to_json"]

_LENGTH: Final = struct.Struct("<I")


def to_binary(array: Any, where: str) -> Any:
    """Return an array as binary data: its own memory, if that is as the protocol wants it.

    Raises:
        InputError: It cannot be written (SGK344).
    """
    if datatype_of(array, where) == "BYTES":
        encoded = [_encoded(one, where) for one in np.asarray(array, object).flat]
        return b"".join(chain.from_iterable((_LENGTH.pack(len(one)), one) for one in encoded))
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1).view(np.uint8)


def to_json(array: Any, where: str) -> list[Any]:
    """Return the values of an array in row-major order.

    Raises:
        InputError: It cannot be written, or JSON has no such values (SGK344).
    """
    datatype, hint = datatype_of(array, where), "Ask for it as binary data."
    if datatype in BINARY_ONLY:
        refuse(f"{where} is {datatype}, which is not sent in JSON", hint, code="SGK344")
    if datatype == "BYTES":
        encoded = [_encoded(one, where) for one in np.asarray(array, object).flat]
        try:
            return [str(one, "utf-8") for one in encoded]
        except UnicodeDecodeError:
            refuse(f"{where} has bytes that are not UTF-8", hint, code="SGK344")
    if datatype.startswith("FP") and not np.isfinite(array).all():
        refuse(f"{where} has NaN or infinity, which JSON has not", hint, code="SGK344")
    values: list[Any] = array.reshape(-1).tolist()
    return values


def _encoded(one: Any, where: str) -> bytes:
    try:
        return one if isinstance(one, bytes) else str.encode(one)
    except (TypeError, UnicodeEncodeError):
        refuse(f"{where} has the element {reprlib.repr(one)}, which is no text", code="SGK344")
