"""Memory that two processes share, and arrays in it, described in JSON.

The memory has no name: nothing of it is left once both processes have ended.
"""

import json
import mmap
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.types import DataType

_ALIGNMENT: Final = 64
_STEP: Final = 1 << 20
_MOST_REMEMBERED: Final = 64
_SCALARS: Final = (bool, int, float, str)

_Array = npt.NDArray[Any]
Kind = tuple[Any, tuple[int, ...]]
"""A dtype and a shape."""


class SharedArea:
    """Memory that one process writes values into, from its beginning on, for another to read.

    The latest values overwrite the former, so the two take turns. The layout of arrays is computed
    once for each list of dtypes and shapes.

    Attributes:
        descriptor: The number by which a child that inherits it opens the same.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _make_memory() if descriptor is None else descriptor
        weakref.finalize(self, os.close, self.descriptor)
        self._bytes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._written: dict[tuple[Kind, ...], tuple[list[_Array], str]] = {}
        self._read: dict[str, list[_Array]] = {}

    def store(self, values: Sequence[Any]) -> str:
        """Copy values into the memory and describe them; KeyError for a dtype ONNX lacks."""
        if not all(map(_is_plain, values)):
            return self._store_nested(values)
        places, text = self._laid_out(tuple([(one.dtype, one.shape) for one in values]))
        for place, value in zip(places, values, strict=True):
            np.copyto(place, value)
        return text

    def restore(self, text: str) -> list[Any]:
        """Return the values that were stored; arrays are views, read-only."""
        if (known := self._read.get(text)) is not None:
            return known
        entries = json.loads(text)
        values = [rebuild_value(entry, self._read_view) for entry in entries]
        if all(isinstance(value, np.ndarray) and not value.dtype.hasobject for value in values):
            _remember(self._read, text, values)
        return values

    # -- inside ------------------------------------------------------------------------------

    def _laid_out(self, kinds: tuple[Kind, ...]) -> tuple[list[_Array], str]:
        if (known := self._written.get(kinds)) is None:
            end = 0
            entries: list[tuple[int, tuple[int, ...], int]] = []
            for dtype, shape in kinds:
                entries.append((int(DataType.of(dtype)), shape, end))
                end += dtype.itemsize * prod(shape)
                end += -end % _ALIGNMENT
            self._grow(end)
            known = [self._view(*entry) for entry in entries], json.dumps(entries)
            _remember(self._written, kinds, known)
        return known

    def _store_nested(self, values: Sequence[Any]) -> str:
        """Store values that are not all plain arrays."""
        end = 0

        def keep(array: _Array) -> tuple[int, tuple[int, ...], int]:
            nonlocal end
            entry = int(DataType.of(array.dtype)), array.shape, end
            end += array.nbytes + -array.nbytes % _ALIGNMENT
            self._grow(end)
            np.copyto(self._view(*entry), array)
            return entry

        return json.dumps([describe_value(value, keep) for value in values])

    def _read_view(self, *entry: Any) -> _Array:
        view = self._view(*entry)
        view.flags.writeable = False
        return view

    def _view(self, dtype: int, shape: Sequence[int], start: int) -> _Array:
        kind = DataType(dtype).numpy
        end = start + kind.itemsize * prod(shape)
        if end > len(self._bytes):
            self._map()  # the other process has let it grow
        return self._bytes[start:end].view(kind).reshape(shape)

    def _grow(self, size: int) -> None:
        if size > len(self._bytes):
            held = os.fstat(self.descriptor).st_size  # a process before may have let it grow
            if size > held:
                os.ftruncate(self.descriptor, -(-max(size, 2 * held) // _STEP) * _STEP)
            self._map()

    def _map(self) -> None:
        size = os.fstat(self.descriptor).st_size
        # The former map lives on as long as an array in it does; both show the same bytes.
        self._bytes = np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)


def _make_memory() -> int:
    import fcntl  # noqa: PLC0415 (not everywhere, as memory without a name)

    descriptor = os.memfd_create("subgraphkit", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    # A process that has lost its mind must not take the ground from under the other one.
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def _is_plain(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype.kind not in "OSTU"


def describe_value(value: Any, keep: Callable[[_Array], Sequence[Any]]) -> Any:
    """Describe a value in JSON; ``keep`` says in a list where it has kept an array of numbers."""
    if value is None or type(value) in _SCALARS:
        return {"scalar": value}
    if isinstance(value, list | tuple):
        return {"items": [describe_value(one, keep) for one in value]}
    if isinstance(value, Mapping):
        items = [describe_value(one, keep) for one in value.values()]
        return {"keys": list(value), "items": items}
    array = np.asarray(value)
    if array.dtype.kind not in "OSTU":
        return keep(array)
    texts = [plain_text(one) for one in array.reshape(-1).tolist()]
    return {"texts": texts, "shape": array.shape}


def rebuild_value(entry: Any, restore: Callable[..., _Array]) -> Any:
    """Return the value of a description; ``restore`` returns the array kept at a place."""
    if isinstance(entry, list):
        return restore(*entry)
    if "items" in entry:
        items = [rebuild_value(one, restore) for one in entry["items"]]
        return dict(zip(entry["keys"], items, strict=True)) if "keys" in entry else items
    if "scalar" in entry:
        return entry["scalar"]
    texts = np.empty(len(entry["texts"]), object)
    texts[:] = entry["texts"]
    return texts.reshape(entry["shape"])


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known[key] = value


def plain_text(value: Any) -> str:
    """Return an element of text, which may be bytes; bytes that are no UTF-8 survive."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
