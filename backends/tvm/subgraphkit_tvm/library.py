"""TVM itself: imported when first used, kept quiet, with its target for this machine."""

import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final

MODULE: Final = "tvm"

_NOISE: Final = re.compile(r"^(?:Check failed: )?(?:\([^()]*\) is false: )?")
_LONGEST: Final = 300
_LONGEST_OUTPUT: Final = 2000


@cache
def tvm(name: str = "") -> Any:
    """Import TVM or a part of it, which takes seconds; ImportError if missing or broken."""
    with warnings.catch_warnings(), _Hushed.here():
        warnings.simplefilter("ignore")
        return import_module(f"{MODULE}.{name}" if name else MODULE)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what TVM prints and warns about from the user; an exception gets it as a note.

    Thread-safety: what other threads print meanwhile is still printed. Warnings of modules other
    than TVM's still appear.
    """
    with _delay_interrupts(), warnings.catch_warnings(), _Hushed.here() as printed:
        warnings.filterwarnings("ignore", module=MODULE)
        try:
            yield
        except Exception as error:
            if text := "".join(printed).strip():
                error.add_note(f"TVM printed: {text[-_LONGEST_OUTPUT:]}")
            raise


@contextlib.contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until TVM is back, which would take it for a failure of its own code."""
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not in_main or not callable(handler):
        yield
        return
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(noted[0], None)


def raise_here(error: type[BaseException]) -> Callable[[], object]:
    """Return what raises an error in the thread that called this, where Python runs next.

    TVM's passes are written in Python for the most part, so that it stops there.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    return lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(error))


class _Hushed:
    """Standard output for all threads but those that are to be quiet."""

    _lock: ClassVar = threading.Lock()
    _threads: ClassVar[dict[int, list[list[str]]]] = {}
    _installed: ClassVar[list["_Hushed"]] = []

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, unless it comes of a thread that is to be quiet."""
        if quiet := self._threads.get(threading.get_ident()):
            quiet[-1].append(text)
            return len(text)
        written: int = self.stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @classmethod
    @contextlib.contextmanager
    def here(cls) -> Iterator[list[str]]:
        """Keep this thread quiet, and hand out what it writes; the stream is put back at the end.

        That is when no thread is to be quiet any more.
        """
        me, printed = threading.get_ident(), list[str]()
        with cls._lock:
            if not cls._installed and sys.stdout is not None:
                cls._installed.append(cls(sys.stdout))
                sys.stdout = cls._installed[0]
            cls._threads.setdefault(me, []).append(printed)
        try:
            yield printed
        finally:
            with cls._lock:
                cls._threads[me].pop()
                if not cls._threads[me]:
                    del cls._threads[me]
                if not cls._threads and cls._installed:
                    mine = cls._installed.pop()
                    if sys.stdout is mine:
                        sys.stdout = mine.stream


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
