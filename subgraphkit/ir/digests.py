"""Digests of data: arrays, weights (each once), and files."""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Initializer

__all__ = ["array_digest", "canonical", "data_digest", "file_digests", "weight_digests"]

_WORTH_THREADS: Final = 64 << 20
"""Bytes of weights from which on several threads hash them."""

_MOST_THREADS: Final = 4
"""Reading from disk and the memory for one large weight per thread bound what more would give."""

_lock = threading.Lock()
_known: WeakKeyDictionary[Initializer, str] = WeakKeyDictionary()


def canonical(value: Any) -> bytes:
    """Return the one JSON text of a value: sorted members, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def data_digest(data: Any) -> str:
    """Return the SHA-256 of bytes; on today's processors it is the fastest of its kind."""
    return hashlib.sha256(data).hexdigest()


def array_digest(array: npt.NDArray[Any]) -> str:
    """Return the digest of an array: its dtype, its shape and every element."""
    header = canonical([array.dtype.name, array.dtype.byteorder, array.shape])
    hasher = hashlib.sha256(header)
    if array.dtype.hasobject:
        hasher.update(canonical([_text(item) for item in array.reshape(-1)]))
    else:
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _text(item: object) -> list[str]:
    return ["bytes", item.hex()] if isinstance(item, bytes) else ["str", str(item)]


def weight_digests(weights: Sequence[Initializer]) -> list[str]:
    """Return the digest of each weight; each is read and hashed once in its life.

    A weight that is replaced is a new ``Initializer``, so its new value is hashed again.

    Raises:
        InvalidModelError: A weight cannot be read (SGK208, SGK211).

    Thread-safety: may be called from any thread; two may at worst hash the same weight.
    """
    with _lock:
        unknown = [weight for weight in weights if weight not in _known]
    fresh = _hash_all(unknown)
    with _lock:
        _known.update(zip(unknown, fresh, strict=True))
        return [_known[weight] for weight in weights]


def _hash_all(weights: Sequence[Initializer]) -> list[str]:
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    if threads == 1 or sum(weight.type.nbytes or 0 for weight in weights) < _WORTH_THREADS:
        return [_hash(weight) for weight in weights]
    with ThreadPoolExecutor(threads, "subgraphkit-digest") as pool:
        return list(pool.map(_hash, weights))


def _hash(weight: Initializer) -> str:
    return array_digest(weight.array())


def file_digests(path: Path, pattern: str = "*") -> dict[str, str]:
    """Return the digest of a file, or of every file below a folder, by relative path.

    Args:
        path: A file or a folder; what does not exist has no digests.
        pattern: Which files of a folder count.

    Raises:
        OSError: A file cannot be read.
    """
    if path.is_file():
        return {"": data_digest(path.read_bytes())}
    return {
        found.relative_to(path).as_posix(): data_digest(found.read_bytes())
        for found in _sorted_files(path.rglob(pattern))
    }


def _sorted_files(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)
