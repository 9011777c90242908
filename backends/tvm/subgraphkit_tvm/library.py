"""TVM itself: imported when first used, kept quiet, with its target for this machine."""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

__all__ = ["MODULE", "host_target", "identity", "quiet", "tvm", "words_of"]

MODULE: Final = "tvm"

_NOISE: Final = re.compile(r"^(?:Check failed: )?(?:\([^()]*\) is false: )?")
_LONGEST: Final = 300


@cache
def tvm(name: str = "") -> Any:
    """Import TVM or one of its modules; the first import takes seconds.

    Args:
        name: Name of the module below ``tvm``.

    Raises:
        ImportError: It is not installed, or broken.
    """
    with quiet():
        return import_module(f"{MODULE}.{name}" if name else MODULE)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what TVM prints and warns about, which its exceptions say again, from the user."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@cache
def host_target() -> Any:
    """Return the target of this machine: LLVM with the instruction set of its processor."""
    cpu = tvm("target.codegen").llvm_get_system_cpu()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return tvm().target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores or 1})


@cache
def identity() -> str:
    """Name what code depends on: TVM, its LLVM and the processor compiled for."""
    llvm = tvm("target.codegen").llvm_version_major()
    return f"{tvm().__version__};llvm {llvm};{host_target()}"


def words_of(error: BaseException) -> str:
    """Return what TVM said, without its traceback and the text of programs."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = _NOISE.sub("", lines[0]) if lines else ""
    words = f"{type(error).__name__}: {told}" if told else type(error).__name__
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
