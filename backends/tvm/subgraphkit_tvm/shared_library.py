"""Compiled code as bytes and back: a shared library behind a header that reveals damage."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any, Final

from subgraphkit_tvm.library import tvm

_MAGIC: Final = b"subgraphkit-tvm 1\n"
_DIGEST_SIZE: Final = 32


def pack(library: bytes) -> bytes:
    """Put the header before a shared library."""
    return _MAGIC + hashlib.sha256(library).digest() + library


def unpack(blob: bytes) -> bytes:
    """Return the shared library in what ``pack`` made; ValueError if it is other, or damaged."""
    if not blob.startswith(_MAGIC):
        raise ValueError("the stored engine is not one of this backend, or of another version")
    digest, library = blob[len(_MAGIC) :][:_DIGEST_SIZE], blob[len(_MAGIC) + _DIGEST_SIZE :]
    if hashlib.sha256(library).digest() != digest:
        raise ValueError("the stored engine is damaged: its digest is another")
    return library


def link(executable: Any) -> bytes:
    """Link what TVM compiled into a shared library, if the machine's C compiler does."""
    with tempfile.TemporaryDirectory(prefix="subgraphkit-tvm-") as folder:
        path = Path(folder) / "engine.so"
        executable.export_library(str(path))
        return path.read_bytes()


def load_library(library: bytes) -> Any:
    """Load a shared library; its file, in a folder of this user alone, does not outlive the call.

    Raises:
        Exception: It does not fit this machine, or files there may not be executed.
    """
    with tempfile.TemporaryDirectory(prefix="subgraphkit-tvm-") as folder:
        path = Path(folder) / "engine.so"
        path.touch(mode=0o600)
        path.write_bytes(library)
        return tvm("runtime").load_module(str(path))
