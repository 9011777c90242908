"""A region as a program of TVM's virtual machine, and how the session calls it."""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import InnerTime, SubgraphOperator, Traits, fill_buffers
from subgraphkit.ir import Subgraph
from subgraphkit_tvm.building import MAIN, PREPARE, Engine
from subgraphkit_tvm.importing import weight_names
from subgraphkit_tvm.indices import IndexWatch
from subgraphkit_tvm.library import tvm
from subgraphkit_tvm.pool import use_threads
from subgraphkit_tvm.shared_library import pack

_ALIGNMENT: Final = 64
"""Bytes; the compiled code loads and stores vectors without looking where they lie."""


class TvmOperator(SubgraphOperator):
    """Runs compiled code on the weights of a subgraph.

    An input is read where it is if it is contiguous and lies at a multiple of 64 bytes; outputs of
    TVM do. Other inputs are copied. Outputs are handed out where TVM made them.

    Thread-safety: any number of threads may be inside ``run``. A virtual machine of TVM serves one
    thread at a time, so each call takes one from a pool; code and weights are shared.

    ``threads``: With how many threads to compute; None leaves it to TVM.
    """

    traits = Traits(thread_safe=True, minds_memory=True)
    _record: Callable[[InnerTime], object] | None = None

    def __init__(
        self, engine: Engine, subgraph: Subgraph, facts: Mapping[str, Any], threads: int | None
    ) -> None:
        self._threads = threads
        self._engine: Engine | None = engine
        self._constants = {name: subgraph.constants[name] for name in weight_names(subgraph)}
        self._outputs = subgraph.outputs
        self._watch = IndexWatch(subgraph)
        self._facts = facts
        self._replaced: dict[str, Any] = {}
        self._machines: list[Any] = []
        self._shared: frozenset[int] | None = None
        self._weights = self._prepare_weights(self._replaced)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        if self._watch.limits:
            self._watch.check(inputs)
        tensors = [_as_tensor(array) for array in inputs]
        use_threads(self._threads)
        machine = self._machine()
        made = machine[MAIN](*tensors, *self._weights)
        self._machines.append(machine)
        results = [_as_array(made)] if len(self._outputs) == 1 else list(map(_as_array, made))
        if self._shared is None:
            self._shared = _sharing(results, [*tensors, *self._weights])
        for place in self._shared:
            results[place] = results[place].copy()
        return fill_buffers(self._outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take new parameters; constants that are part of the code need it to be compiled again.

        The arrays are kept, not copied, where their memory is aligned; they must not be written to.
        """
        if not changed.keys() <= self._constants.keys():
            return False
        replaced = {**self._replaced, **changed}
        self._weights = self._prepare_weights(replaced)
        self._replaced = replaced
        return True

    def serialize(self) -> bytes | None:
        """Return the linked code, or None if this machine has no linker to make it one."""
        library = self._engine.library if self._engine is not None else None
        return None if library is None else pack(library)

    def info(self) -> Mapping[str, Any]:
        """Return target, library version, sizes, and whether the code can be stored."""
        return dict(self._facts)

    def profiled(self, record: Callable[[InnerTime], object]) -> "TvmOperator":
        """Return the same code in machines that record the time of every call they make.

        TVM names loops by the operators fused in them, and keeps no way back to nodes.
        """
        twin = copy(self)
        twin._record, twin._machines = record, []  # noqa: SLF001 (its own)
        return twin

    def close(self) -> None:
        self._engine = None
        self._machines.clear()
        self._weights = ()

    def _machine(self) -> Any:
        try:
            return self._machines.pop()
        except IndexError:
            if self._engine is None:
                raise RuntimeError("the operator is closed") from None
            machine = tvm("relax").VirtualMachine(self._engine.module, tvm().cpu())
            if self._record is not None:
                machine.set_instrument(_instrument(self._record))
            return machine

    def _prepare_weights(self, replaced: Mapping[str, Any]) -> tuple[Any, ...]:
        """Compute once what depends on the weights alone, such as transposed matrices."""
        if not self._constants:
            return ()
        tensors = [
            _as_tensor(replaced[name] if name in replaced else stored.array())
            for name, stored in self._constants.items()
        ]
        use_threads(self._threads)
        machine = self._machine()
        prepared = tuple(machine[PREPARE](tensors))
        self._machines.append(machine)
        return prepared


def _instrument(record: Callable[[InnerTime], object]) -> Callable[..., int]:
    """Return what a machine calls before and after each of its calls, to record their times."""
    begun: list[float] = []  # one call may make others: those of a branch

    def tell(function: Any, name: str, before: bool, made: Any, *given: Any) -> int:  # noqa: FBT001 (by position, by TVM)
        del function, made, given
        if before:
            begun.append(time.perf_counter())
            return 0
        seconds = time.perf_counter() - begun.pop()
        if not begun:
            record(InnerTime(name, seconds, (), time.perf_counter() - seconds))
        return 0

    return tell


def _sharing(results: Sequence[Any], tensors: Sequence[Any]) -> frozenset[int]:
    """Find the outputs that are views of something else; which ones is a matter of the code."""
    others = [_as_array(tensor) for tensor in tensors]
    shared = set()
    for place, result in enumerate(results):
        if any(np.may_share_memory(result, other) for other in others):
            shared.add(place)
        others.append(result)
    return frozenset(shared)


class _Window:
    """Shows memory of an array without its read-only flag, which DLPack cannot express."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._held = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _as_tensor(array: Any) -> Any:
    """Return a TVM tensor over an array: over its memory if that is contiguous and aligned.

    The memory must not be written to through the tensor.
    """
    array = np.asarray(array)
    address = array.__array_interface__["data"][0]
    if not array.flags.c_contiguous or address % _ALIGNMENT or not array.dtype.isnative:
        array = _aligned_copy(array)
    elif not array.flags.writeable:
        array = np.asarray(_Window(array))
    return tvm("runtime").from_dlpack(array)


def _as_array(tensor: Any) -> npt.NDArray[Any]:
    """Return an array over the memory of a TVM tensor, which it keeps alive."""
    return np.from_dlpack(tensor)


def _aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    native = array.dtype.newbyteorder("=")
    copy = memory[start : start + array.nbytes].view(native).reshape(array.shape)
    np.copyto(copy, array)
    return copy
