"""Data types of the Open Inference Protocol, and arrays written as such, in little-endian order."""

import reprlib
import struct
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final, NoReturn

import ml_dtypes
import msgspec
import numpy as np

from subgraphkit.errors import InputError

DATATYPES: Final[Mapping[str, tuple[str, np.dtype[Any]]]] = {
    "BOOL": ("bool", np.dtype("bool")),
    **{
        f"{sign}INT{bits}": (f"{sign}int{bits}".lower(), np.dtype(f"{sign}int{bits}".lower()))
        for sign in ("U", "")
        for bits in (8, 16, 32, 64)
    },
    "FP16": ("float16", np.dtype("float16")),
    "BF16": ("bfloat16", np.dtype(ml_dtypes.bfloat16)),
    "FP32": ("float", np.dtype("float32")),
    "FP64": ("double", np.dtype("float64")),
    "BYTES": ("string", np.dtype(object)),
}
"""By the protocol's name of a type, ONNX's name and the dtype; other types cannot travel."""

BINARY_ONLY: Final = ("FP16", "BF16")
"""Those that JSON is not used for."""

LENGTH: Final = struct.Struct("<I")
"""How many bytes an element of BYTES has, before it."""

_PIECE: Final = 1 << 14
"""Values that are written at a stroke, which no other thread can interrupt."""

_NAMES: Final = {dtype: name for name, (_, dtype) in DATATYPES.items()}


def refuse(text: str, hint: str = "", *, code: str = "SGK343") -> NoReturn:
    """Raise the fault of a message, or of values for one (SGK344)."""
    done = "read" if code == "SGK343" else "written"
    message = f"a message of the Open Inference Protocol cannot be {done}: {text}"
    raise InputError(code, message, hint=hint)


def datatype_of(array: Any, where: str) -> str:
    """Return the protocol's name for the type of an array; InputError (SGK344) if it has none."""
    if not isinstance(array, np.ndarray | np.generic):
        refuse(f"{where} is a {type(array).__name__}; only tensors can travel", code="SGK344")
    is_text = array.dtype.kind in "UST"
    name = "BYTES" if is_text else _NAMES.get(array.dtype.newbyteorder("="))
    if name is None:
        known = ", ".join(DATATYPES)
        refuse(f"{where} is of {array.dtype}, which is none of {known}", code="SGK344")
    return name


def to_binary(array: Any, where: str) -> Any:
    """Return an array as binary data, if it can its own memory; else InputError (SGK344)."""
    if datatype_of(array, where) == "BYTES":
        encoded = [_encode(one, where) for one in np.asarray(array, object).flat]
        return b"".join(chain.from_iterable((LENGTH.pack(len(one)), one) for one in encoded))
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1).view(np.uint8)


def to_json(array: Any, where: str) -> msgspec.Raw:
    """Write the values in row-major order, piece by piece; InputError (SGK344) if JSON cannot."""
    datatype, hint = datatype_of(array, where), "Ask for it as binary data."
    if datatype in BINARY_ONLY:
        refuse(f"{where} is {datatype}, which is not sent in JSON", hint, code="SGK344")
    if datatype == "BYTES":
        encoded = [_encode(one, where) for one in np.asarray(array, object).flat]
        try:
            return msgspec.Raw(msgspec.json.encode([str(one, "utf-8") for one in encoded]))
        except UnicodeDecodeError:
            refuse(f"{where} has bytes that are not UTF-8", hint, code="SGK344")
    if datatype.startswith("FP") and not np.isfinite(array).all():
        refuse(f"{where} has NaN or infinity, which JSON has not", hint, code="SGK344")
    flat = array.reshape(-1)
    pieces = (flat[at : at + _PIECE].tolist() for at in range(0, flat.size, _PIECE))
    return msgspec.Raw(b"[%b]" % b",".join(msgspec.json.encode(one)[1:-1] for one in pieces))


def _encode(one: Any, where: str) -> bytes:
    try:
        return one if isinstance(one, bytes) else str.encode(one)
    except (TypeError, UnicodeEncodeError):
        refuse(f"{where} has the element {reprlib.repr(one)}, which is no text", code="SGK344")
