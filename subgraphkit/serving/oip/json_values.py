"""Arrays from tensors of a message whose values are JSON.

Values are read in pieces, into the array. As Python objects, they would take up to thirty times the
bytes of the JSON, and would block everything else. So brackets and commas are compared with the
shape first. Nothing is cast in silence: 1.5 is no INT32, 300 no INT8, true no number.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from subgraphkit.serving.oip.datatypes import DATATYPES, refuse
from subgraphkit.serving.oip.reading import objects

_Array = npt.NDArray[Any]

_READ: Final[Mapping[str, Callable[[bytes], list[Any]]]] = {
    "b": msgspec.json.Decoder(list[bool]).decode,
    "u": (_whole := msgspec.json.Decoder(list[int]).decode),
    "i": _whole,
    "f": msgspec.json.Decoder(list[float]).decode,
}
"""The readers of JSON values, by kind of dtype."""

_ODD: Final = re.compile(rb"-0(?![.0-9])|[eE][+-]?[0-9]{3}")
"""Numbers that msgspec does not read as floats, or without their sign."""

_FORM: Final = np.frombuffer(b"[],", np.uint8)
_VALUES: Final = bytes(set(range(256)) - set(b"[],"))
_BETWEEN: Final = b"[] \t\r\n"
_COMMA, _QUOTE, _FLAT = (re.compile(one) for one in (b",", b'"', rb"\[\s*[^\s[]"))
_PIECE: Final = 1 << 11
"""Bytes that are read at a stroke, which no other thread can interrupt."""


def from_json(
    datatype: str,
    shape: tuple[int, ...],
    data: memoryview,
    where: str,
    pause: Callable[[], object] = lambda: None,
) -> _Array:
    """Return an array of values in row-major order, flat or nested; else InputError (SGK343).

    ``data``: JSON that was found to be such. ``pause``: Called between pieces of it.
    """
    if datatype == "BYTES":
        return objects(_texts(data, shape, where), shape)
    if _QUOTE.search(data):
        refuse(f"{where} has text, which is no {datatype}")
    count, values = math.prod(shape), 1 + sum(piece.count(b",") for piece in pieces(data))
    if count and values != count:
        refuse(f"{where} has {values} values; shape {list(shape)} takes {count}")
    sizes = (*shape[: shape.index(0)], 1) if count == 0 else shape
    if _FLAT.match(data):
        sizes = (max(count, 1),)
    made, at = np.empty(count, DATATYPES[datatype][1]), 0
    for piece in pieces(data):
        end = at + piece.count(b",") + (not piece.endswith(b","))
        if piece.translate(None, _VALUES) != _form(sizes, at, end):
            refuse(f"{where} is nested otherwise than its shape {list(shape)}")
        numbers = piece.translate(None, _BETWEEN).removesuffix(b",")
        found = _numbers(numbers, datatype, where) if count or numbers.strip(b",") else made
        if len(found) != min(end, count) - min(at, count):
            refuse(f"{where} has {at + len(found)} values; shape {list(shape)} takes {count}")
        made[at:end], at = found, end
        pause()
    return made.reshape(shape)


def pieces(data: memoryview) -> Iterator[bytes]:
    """Cut JSON after commas."""
    start = 0
    while start < len(data):
        comma = _COMMA.search(data, start + _PIECE)
        end = comma.end() if comma else len(data)
        yield bytes(data[start:end])
        start = end


def _form(sizes: tuple[int, ...], start: int, end: int) -> bytes:
    """Return the brackets and commas of values from one to another, of a tensor of these sizes."""
    if len(sizes) == 1:
        flat = b"," * (end - start - (end == sizes[0]))
        return b"[" * (start == 0) + flat + b"]" * (end == sizes[0])
    places = np.arange(start, end + 1)
    blocks = Counter(math.prod(sizes[axis:]) for axis in range(len(sizes)))
    turns = np.zeros(len(places), int)
    for block, axes in blocks.items():
        turns += axes * (places % block == 0)
    commas = places[1:] != math.prod(sizes)
    times = np.stack([turns[:-1], turns[1:], commas], axis=1).reshape(-1)
    return np.repeat(np.tile(_FORM, end - start), times).tobytes()


def _numbers(piece: bytes, datatype: str, where: str) -> _Array:
    dtype = DATATYPES[datatype][1]
    try:
        with np.errstate(over="raise"):
            return np.array(_read(piece, dtype.kind), dtype)
    except (OverflowError, FloatingPointError):
        refuse(f"{where} has a value out of the range of {datatype}")
    except ValueError:  # msgspec's own are such
        refuse(f"{where} has a value which is no {datatype}")


def _read(piece: bytes, kind: str) -> list[Any]:
    if kind == "f" and _ODD.search(piece):
        return list(map(float, piece.replace(b"0e99999999", b"nan").split(b",")))
    return _READ[kind](b"[%b]" % piece)


def _texts(data: memoryview, shape: tuple[int, ...], where: str) -> list[str]:
    sizes = (math.prod(shape),) if _FLAT.match(data) else shape
    try:
        level: list[Any] = [msgspec.json.decode(data, type=_nested_texts(len(sizes)))]
    except ValueError as error:  # msgspec's own are such
        refuse(f"{where} is no BYTES of shape {list(shape)}: {error}")
    for axis, size in enumerate(sizes):
        if any(len(one) != size for one in level):
            refuse(f"{where} is nested otherwise than its shape {list(sizes)}, at axis {axis}")
        level = list(chain.from_iterable(level))
    return level


@lru_cache(maxsize=65)
def _nested_texts(rank: int) -> Any:
    form: Any = str
    for _ in range(rank):
        form = list[form]
    return form
