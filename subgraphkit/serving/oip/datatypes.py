"""Data types of the Open Inference Protocol, and the error of what breaks it."""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from subgraphkit.errors import InputError

__all__ = ["BINARY_ONLY", "DATATYPES", "datatype_of", "refuse"]

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

_NAMES: Final = {dtype: name for name, (_, dtype) in DATATYPES.items()}


def refuse(text: str, hint: str = "", *, code: str = "SGK343") -> NoReturn:
    """Raise what is wrong with a message, or with what was to become one (SGK344)."""
    done = "read" if code == "SGK343" else "written"
    message = f"a message of the Open Inference Protocol cannot be {done}: {text}"
    raise InputError(code, message, hint=hint)


def datatype_of(array: Any, where: str) -> str:
    """Return the protocol's name for the type of an array.

    Raises:
        InputError: It is no array, or the protocol has no such type (SGK344).
    """
    if not isinstance(array, np.ndarray | np.generic):
        refuse(f"{where} is a {type(array).__name__}; only tensors can travel", code="SGK344")
    is_text = array.dtype.kind in "UST"
    name = "BYTES" if is_text else _NAMES.get(array.dtype.newbyteorder("="))
    if name is None:
        known = ", ".join(DATATYPES)
        refuse(f"{where} is of {array.dtype}, which is none of {known}", code="SGK344")
    return name
