"""Arrays from tensors of a message whose values are JSON.

Values are read in pieces, into the array: what JSON takes as objects of Python would be up to
thirty times its bytes, and nothing else would run meanwhile. So brackets and commas are held
against the shape first. Nothing is cast in silence: 1.5 is no INT32, 300 no INT8, true no number.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from subgraphkit.serving.oip.datatypes import BINARY_ONLY, DATATYPES, refuse
from subgraphkit.serving.oip.reading import objects

_Array = npt.NDArray[Any]

_READ: Final[Mapping[str, Callable[[bytes], list[Any]]]] = {
    "b": msgspec.json.Decoder(list[bool]).decode,
    "u": (_whole := msgspec.json.Decoder(list[int]).decode),
    "i": _whole,
    "f": msgspec.json.Decoder(list[float]).decode,
}
"""By kind of dtype, what reads values of JSON."""

_ODD: Final = re.compile(rb"-0(?![.0-9])|[eE][+-]?[0-9]{3}")
"""What msgspec reads as no float, or without its sign."""

_VALUES: Final = bytes(set(range(256)) - set(b'[],"'))
_BETWEEN: Final = b"[] \t\r\n"
_PIECE: Final = 1 << 14
"""Bytes that are read at a stroke, which no other thread can interrupt."""
_MOST_TEXTS: Final = 1 << 17
"""Texts, which are all read at a stroke, and are objects of Python."""


def from_json(datatype: str, shape: tuple[int, ...], data: bytes, where: str) -> _Array:
    """Return an array of values in row-major order, flat or nested as the shape says.

    ``data``: JSON that was found to be such.

    Raises:
        InputError: There are more values, fewer or others (SGK343).
    """
    if datatype in BINARY_ONLY:
        refuse(f"{where} is {datatype} in JSON", "Send it as binary data.")
    if datatype == "BYTES":
        return objects(_texts(data, shape, where), shape)
    count, form = math.prod(shape), data.translate(None, _VALUES)
    values = form.count(b",") + 1
    if b'"' in form:
        refuse(f"{where} has text, which is no {datatype}")
    if count and values != count:
        refuse(f"{where} has {values} values; shape {list(shape)} takes {count}")
    if form not in {b"[%b]" % (b"," * (count - 1)), _nested(shape, len(form))}:
        refuse(f"{where} is nested otherwise than its shape {list(shape)}")
    if not count:
        return np.empty(shape, DATATYPES[datatype][1])
    del form
    return _numbers(data, datatype, shape, where)


def _nested(shape: tuple[int, ...], most: int) -> bytes | None:
    """Return the brackets and commas of a tensor that is nested as its shape says."""
    made = b""
    for size in reversed(shape):
        if size * (len(made) + 1) > most:
            return None
        made = b"[%b]" % (b"%b," % made * size)[:-1]
    return made


def _numbers(data: bytes, datatype: str, shape: tuple[int, ...], where: str) -> _Array:
    dtype, at, start = DATATYPES[datatype][1], 0, 0
    made = np.empty(math.prod(shape), dtype)
    while start < len(data):
        end = data.find(b",", start + _PIECE)
        end = len(data) if end < 0 else end
        piece = data[start:end].translate(None, _BETWEEN)
        start = end + 1
        try:
            with np.errstate(over="raise"):
                found = np.array(_read(piece, dtype.kind), dtype)
        except (OverflowError, FloatingPointError):
            refuse(f"{where} has a value out of the range of {datatype}")
        except ValueError:  # msgspec's own are such
            refuse(f"{where} has a value which is no {datatype}")
        made[at : at + len(found)] = found
        at += len(found)
    if at != made.size:
        refuse(f"{where} has {at} values; shape {list(shape)} takes {made.size}")
    return made.reshape(shape)


def _read(piece: bytes, kind: str) -> list[Any]:
    if kind == "f" and _ODD.search(piece):
        return list(map(float, piece.replace(b"0e99999999", b"nan").split(b",")))
    return _READ[kind](b"[%b]" % piece)


def _texts(data: bytes, shape: tuple[int, ...], where: str) -> list[str]:
    level: list[Any] = []
    if data.count(b'"') - data.count(b'\\"') > 2 * _MOST_TEXTS:
        refuse(f"{where} has more than {_MOST_TEXTS} texts in JSON", "Send it as binary data.")
    for sizes in ((math.prod(shape),), shape):
        try:
            level = [msgspec.json.decode(data, type=_nested_texts(len(sizes)))]
        except ValueError as error:  # msgspec's own are such
            if sizes is shape:
                refuse(f"{where} is no BYTES of shape {list(shape)}: {error}")
            continue
        for axis, size in enumerate(sizes):
            if any(len(one) != size for one in level):
                refuse(f"{where} is nested otherwise than its shape {list(sizes)}, at axis {axis}")
            level = list(chain.from_iterable(level))
        break
    return level


@lru_cache(maxsize=65)
def _nested_texts(rank: int) -> Any:
    form: Any = str
    for _ in range(rank):
        form = list[form]
    return form
