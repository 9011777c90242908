"""A backend that does to its process whatever the first number it is fed says."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from subgraphkit import Backend, OpSelector, Option, Subgraph, SubgraphOperator, SubgraphProperty
from subgraphkit.backend import Traits


def _corrupt_the_heap() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(2000) for _ in range(8)]
    ctypes.memset(blocks[0], 0xFF, 4096)
    for block in blocks:
        library.free(block)
    os.abort()  # where the heap has borne it


def _take_memory() -> None:
    held = bytes(1 << 20)
    while True:
        held = held + held


def _compute() -> None:
    while True:
        pass


def _leave_a_child() -> None:
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os.abort()


def _read() -> None:
    sys.stdin.read()


class WordlessError(Exception):
    """Fails when it is put into words."""

    def __str__(self) -> str:
        raise ValueError("no words")


def _raise(error: BaseException) -> None:
    raise error


def _strike(number: int) -> None:
    os.kill(os.getpid(), number)


FAULTS: Final[Mapping[int, Callable[[], object]]] = {
    1: _corrupt_the_heap,
    2: os.abort,
    3: lambda: os._exit(3),
    4: lambda: _raise(SystemExit(4)),
    5: lambda: ctypes.PyDLL(None).pause(),  # which keeps Python's lock
    6: _take_memory,
    7: lambda: ctypes.string_at(0),
    8: lambda: _strike(signal.SIGFPE),
    9: lambda: _strike(signal.SIGKILL),
    10: lambda: _raise(ValueError("no such number")),
    11: _compute,
    40: _leave_a_child,
    41: os.fork,
    42: _read,
    43: lambda: _raise(WordlessError()),
}


class FaultyOperator(SubgraphOperator):
    """Returns what it is fed times its weight, if it lives."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.weight: Any = next(iter(subgraph.constants.values())).array()

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        FAULTS.get(int(inputs[0].max(initial=0)), int)()
        return [inputs[0] * self.weight]

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        (self.weight,) = changed.values()
        return True


class FaultyProperty(SubgraphProperty):
    """Takes every Mul."""

    def prepare(self, graph: Any, context: Any) -> None:
        FAULTS.get(context.options.asking, int)()

    def create_selector(self, graph: Any) -> OpSelector:
        return OpSelector(graph, {"Mul"})

    def create_operator(self, subgraph: Subgraph, context: Any) -> SubgraphOperator:
        os.write(2, b"the library says something\n")
        context.progress("fusing", 1, 2)
        FAULTS.get(context.options.compiling, int)()
        return FaultyOperator(subgraph)


class Faulty(Backend):
    """The backend; its options say what happens while it is asked, and while it compiles."""

    name = "faulty"
    traits = Traits(evidence="asked")
    options: ClassVar[Sequence[Option]] = (
        Option("asking", "int", 0, "The fault."),
        Option("compiling", "int", 0, "The fault."),
    )

    def properties(self) -> list[SubgraphProperty]:
        return [FaultyProperty()]
