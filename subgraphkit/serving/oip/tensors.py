"""Arrays from the tensors of a message, and how much memory its JSON may become."""

import math
import reprlib
from collections.abc import Callable
from typing import Any, Final

from subgraphkit.serving.oip.datatypes import BINARY_ONLY, DATATYPES, refuse
from subgraphkit.serving.oip.json_values import from_json, pieces
from subgraphkit.serving.oip.parsing import TensorForm, name_tensors, parameters
from subgraphkit.serving.oip.reading import checked_shape, from_binary

_MORE_THAN_JSON: Final = 2
"""How many times the bytes of JSON its arrays may take, from some bytes on."""
_FREE_BYTES: Final = 2 << 20
_TEXT_BYTES: Final = 72
"""The bytes of a text as an object of Python, without its letters."""


def arrays_of(
    tensors: list[TensorForm],
    data: memoryview,
    key: str,
    pause: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Return the arrays of a message by name; InputError (SGK343) if wrong or too much."""
    arrays, place = {}, 0
    room = max(_MORE_THAN_JSON * sum(len(memoryview(one.data)) for one in tensors), _FREE_BYTES)
    for one, where in name_tensors(tensors, key):
        size: Any = parameters(one.parameters, where).get("binary_data_size")
        shape = checked_shape(one, where)
        values = memoryview(one.data)
        if (size is None) is (bytes(values[:5]) in {b"", b"null"}):
            refuse(f"{where} has neither or both of 'data' and 'binary_data_size'; expected one")
        if size is None:
            if one.datatype in BINARY_ONLY:
                refuse(f"{where} is {one.datatype} in JSON", "Send it as binary data.")
            room -= _bytes_of(one.datatype, shape, values)
            if room < 0:
                refuse("its JSON makes arrays of more than twice its bytes", "Send binary data.")
            arrays[one.name] = from_json(one.datatype, shape, values, where, pause)
            continue
        rest = len(data) - place
        if type(size) is not int or not 0 <= size <= rest:
            refuse(f"{where} has the binary_data_size {reprlib.repr(size)}; {rest} bytes are left")
        arrays[one.name] = from_binary(one.datatype, shape, data[place : place + size], where)
        place += size
    if place != len(data):
        refuse(f"{len(data) - place} bytes are left behind its last tensor")
    return arrays


def _bytes_of(datatype: str, shape: tuple[int, ...], data: memoryview) -> int:
    """Return about how much memory an array takes, however wrong its values are."""
    if datatype != "BYTES":
        return math.prod(shape) * DATATYPES[datatype][1].itemsize
    quotes = (piece.count(b'"') - piece.count(b'\\"') for piece in pieces(data))
    return sum(quotes) // 2 * _TEXT_BYTES + len(data)
