"""Large weights taken out of a model while it is read, so that they are in memory once.

protobuf copies every payload of a message, and copies it again on every access. It frees no memory
before the whole message goes. So the payloads of large initializers are read past it, each into
memory of its own. protobuf parses a number in place of each.

Source: protobuf, "Encoding"; numbers of fields from ``onnx.proto3``.
"""

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError

# Payloads of this many bytes and fewer stay where they are: shape inference may look into them.
_LARGE: Final = 4096
_ALIGNMENT: Final = 64
# Bytes of a page of the large kind. A payload of as many is given back alone; the smaller ones,
# all or none.
_LARGE_PAGE: Final = 1 << 21

# The file name where a payload was taken out; no model can name it.
_MARK: Final = f"payload-{os.urandom(16).hex()}"

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_BYTES_OF_A_LENGTH, _BYTES_OF_A_NUMBER = 5, 10
"""The most bytes of 32 and 64 bits; protobuf refuses longer ones, and field 0."""
# Seven bits of a number go into a byte.
_LOWER_BITS: Final = 0x7F
_BYTES_OF_A_HEADER: Final = _BYTES_OF_A_LENGTH + _BYTES_OF_A_NUMBER
# Bytes of the file that are read at once, but for payloads.
_WINDOW: Final = 1 << 14
_SMALL_FIELDS: Final = 1000
# A model with more fields than one for so many bytes has too few weights to look for.
_BYTES_OF_A_FIELD: Final = 4096


class Payload:
    """The bytes of one tensor, in memory until they are let go, and then read again when needed.

    ``data``: The bytes.

    Thread-safety: safe; two threads may at worst read the same data twice.
    """

    def __init__(self, start: int, data: npt.NDArray[np.uint8]) -> None:
        self.start, self.length = start, len(data)
        self._data: npt.NDArray[np.uint8] | None = data
        self._again: Callable[[int, int], npt.NDArray[np.uint8]] | None = None

    def data(self) -> npt.NDArray[np.uint8]:
        """Return the bytes; InvalidModelError (SGK188) if let go, and the file has changed."""
        data = self._data
        if data is None and self._again is not None:
            data = self._again(self.start, self.length)
        return cast("npt.NDArray[np.uint8]", data)

    def let_go(self, again: Callable[[int, int], npt.NDArray[np.uint8]]) -> None:
        """Leave the bytes to their present holders.

        ``again``: Reads so many bytes from a place of the serialized model.
        """
        self._again = again
        self._data = None


def read_into(file: BinaryIO, data: npt.NDArray[np.uint8]) -> bool:
    """Fill an array from a file; say whether there was enough."""
    into: Any = file  # whose type lacks the method
    return bool(into.readinto(data.data) == len(data))


def _room(size: int) -> npt.NDArray[np.uint8]:
    """Return memory in large pages, which are quicker to get; the rest is in small ones."""
    try:  # shared memory has no large pages, and bytes before the first one stay untouched
        memory = mmap.mmap(-1, size + _LARGE_PAGE, mmap.MAP_PRIVATE)
    except OSError:  # too little memory, which is said as always
        raise _OtherwiseError from None
    room = np.frombuffer(memory, np.uint8)
    start = -room.ctypes.data % _LARGE_PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without them
            memory.madvise(mmap.MADV_HUGEPAGE, start, size // _LARGE_PAGE * _LARGE_PAGE)
    return room[start : start + size]


class _OtherwiseError(Exception):
    """The message is damaged, or says something twice, or has little weight or too much."""


def read_apart(file: BinaryIO, size: int) -> tuple[bytes, list[Payload]]:
    """Read a serialized model, numbers in place of large payloads, and the payloads.

    It is all of the model, and none apart, where there is little to be gained.
    """
    payloads: list[Payload] = []
    try:
        return _Reader(file, size, payloads).model(size), payloads
    except _OtherwiseError:
        file.seek(0)
    return file.read(), []


def marked_length(tensor: onnx.TensorProto) -> int | None:
    """Return the bytes of the payload that was taken out of a tensor; None if none was."""
    for entry in tensor.external_data:
        if entry.value == _MARK:
            return int(tensor.external_data[-1].value)
    return None


def taken_out(graph: onnx.GraphProto, payloads: Sequence[Payload]) -> dict[str, Payload]:
    """Take the numbers from a checked graph, and return the payloads by name of the initializer."""
    found = {}
    for tensor in graph.initializer:
        if marked_length(tensor) is not None:
            found[tensor.name] = payloads[int(tensor.external_data[-2].value)]
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return found


class _Reader:
    """Goes through the fields of a model, of its graph and of the initializers, and no deeper."""

    def __init__(self, file: BinaryIO, size: int, payloads: list[Payload]) -> None:
        self._file, self._size, self._payloads = file, size, payloads
        self._at = self._taken = 0
        # The bytes of the file read last, and their place there.
        self._window, self._from = b"", 0
        self._fields = _SMALL_FIELDS + size // _BYTES_OF_A_FIELD

    def model(self, end: int) -> bytes:
        written: list[bytes] = []
        graphs = 0
        for length in self._past(end, written, _GRAPH):
            graphs += 1
            head = len(written)
            self._graph(self._at + length, written)
            written.insert(head, _head(_GRAPH, sum(map(len, written[head:]))))
        _require(graphs == 1)
        return b"".join(written)

    def _graph(self, end: int, written: list[bytes]) -> None:
        for length in self._past(end, written, _INITIALIZER, _LARGE):
            tensor = self._tensor(self._at + length)
            written += [_head(_INITIALIZER, len(tensor)), tensor]

    def _tensor(self, end: int) -> bytes:
        written: list[bytes] = []
        taken = [self._payload(length) for length in self._past(end, written, _RAW_DATA, _LARGE)]
        stated = b"".join(written)
        if not taken:
            return stated
        try:
            tensor = onnx.TensorProto.FromString(stated)
        except DecodeError:
            raise _OtherwiseError from None
        _require(len(taken) == 1 and tensor.data_type != onnx.TensorProto.STRING)
        _require(not tensor.HasField("raw_data") and not tensor.HasField("data_location"))
        tensor.data_location = onnx.TensorProto.EXTERNAL
        place = {"location": _MARK, "offset": len(self._payloads), "length": taken[0].length}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self._payloads += taken
        return cast("bytes", tensor.SerializeToString())

    def _past(
        self, end: int, written: list[bytes], field: int, more_than: int = -1
    ) -> Iterator[int]:
        """Copy fields up to a place, but for those of one number with more bytes than so many.

        Their lengths are yielded where their data begins; it is read before the next is asked for.
        """
        wanted = field << 3 | _BYTES
        while self._at < end:
            start = self._at - self._from
            if start + _BYTES_OF_A_HEADER > len(self._window):
                self._window = self._window[start:] + self._file.read(_WINDOW)
                self._from, start = self._at, 0
            window, at = self._window, start
            last = min(end - self._from - 1, len(window) - _BYTES_OF_A_HEADER)
            while True:
                key, data, stop = _field(window, at)
                self._fields -= 1
                is_found = key == wanted and stop - data > more_than
                if is_found or stop > last:
                    break
                at = stop
            _require(self._from + stop <= end and self._fields > 0)
            written.append(window[start : at if is_found else stop])
            self._at = self._from + (data if is_found else stop)
            if is_found:
                yield stop - data
            elif (rest := stop - len(window)) > 0:
                written.append(self._file.read(rest))
                _require(len(written[-1]) == rest)
        _require(self._at == end)

    def _payload(self, length: int) -> Payload:
        if length >= _LARGE_PAGE:
            payload = Payload(self._at, _room(length))
        else:
            if not self._taken:
                self._shared = _room(self._size + self._size // _LARGE * _ALIGNMENT + _ALIGNMENT)
            payload = Payload(self._at, self._shared[self._taken : self._taken + length])
            self._taken += length + -length % _ALIGNMENT
        data, at_hand = payload.data(), self._at_hand(length)
        data[: len(at_hand)] = np.frombuffer(at_hand, np.uint8)
        _require(read_into(self._file, data[len(at_hand) :]))
        return payload

    def _at_hand(self, length: int) -> bytes:
        """Go on by so many bytes, and return those of them that are in the window."""
        start = self._at - self._from
        self._at += length
        return self._window[start : start + length]


def _require(is_so: object) -> None:
    if not is_so:
        raise _OtherwiseError


def _head(field: int, length: int) -> bytes:
    return _as_varint(field << 3 | _BYTES) + _as_varint(length)


def _field(data: bytes, start: int) -> tuple[int, int, int]:
    """Read the head of a field; return number and kind, and where its data begins and ends."""
    key, start = _varint(data, start, _BYTES_OF_A_LENGTH)
    kind = key & 7
    if kind == _BYTES:
        length, start = _varint(data, start, _BYTES_OF_A_LENGTH)
        return key, start, start + length
    if kind == _VARINT:
        return key, start, _varint(data, start, _BYTES_OF_A_NUMBER)[1]
    _require(kind in {_EIGHT, _FOUR})
    return key, start, start + (8 if kind == _EIGHT else 4)


def _varint(data: bytes, start: int, most: int) -> tuple[int, int]:
    """Read a number of so many bytes at most; return it and where it ends."""
    if start < len(data) and data[start] <= _LOWER_BITS:
        return data[start], start + 1
    value = 0
    for place, byte in enumerate(data[start : start + most]):
        value |= (byte & _LOWER_BITS) << 7 * place
        if byte <= _LOWER_BITS:
            return value, start + place + 1
    raise _OtherwiseError


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > _LOWER_BITS:
        written.append(value & _LOWER_BITS | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
