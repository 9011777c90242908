"""A region as a program of TVM's virtual machine, and how the session calls it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from subgraphkit.backend import InnerTime, SubgraphOperator
from subgraphkit.ir import Subgraph
from subgraphkit_tvm.building import MAIN, PREPARE, Engine
from subgraphkit_tvm.library import tvm
from subgraphkit_tvm.pool import use_threads
from subgraphkit_tvm.shared_library import pack
from subgraphkit_tvm.tensors import as_array, as_tensor

__all__ = ["TvmOperator"]


class TvmOperator(SubgraphOperator):
    """Runs compiled code on the weights of a subgraph.

    Inputs are read where they are if they are contiguous and lie at a multiple of 64 bytes, which
    what TVM makes does; others are copied. Outputs are handed out where TVM made them.

    Thread-safety: any number of threads may be inside ``run``. A virtual machine of TVM serves one
    thread at a time, so each call takes one from a pool; code and weights are shared.

    Args:
        engine: The compiled code.
        subgraph: The subgraph.
        weights: Names of the constants that are parameters of the code, in order.
        facts: What ``info`` says.
        threads: With how many threads to compute; None leaves it to TVM.
    """

    thread_safe: ClassVar[bool] = True

    def __init__(
        self,
        engine: Engine,
        subgraph: Subgraph,
        weights: Sequence[str],
        facts: Mapping[str, Any],
        threads: int | None,
    ) -> None:
        self._threads = threads
        self._engine: Engine | None = engine
        self._constants = {name: subgraph.constants[name] for name in weights}
        self._outputs = subgraph.outputs
        self._facts = facts
        self._replaced: dict[str, Any] = {}
        self._machines: list[Any] = []
        self._shared: frozenset[int] | None = None
        self._weights = self._prepared(self._replaced)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        tensors = [as_tensor(array) for array in inputs]
        use_threads(self._threads)
        machine = self._machine()
        made = machine[MAIN](*tensors, *self._weights)
        self._machines.append(machine)
        results = [as_array(made)] if len(self._outputs) == 1 else list(map(as_array, made))
        if self._shared is None:
            self._shared = _sharing(results, [*tensors, *self._weights])
        for place in self._shared:
            results[place] = results[place].copy()
        return results if outputs is None else _filled(self._outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take new parameters; constants that are part of the code need it to be compiled again.

        The arrays are kept, not copied, where their memory is aligned; they must not be written to.
        """
        if not changed.keys() <= self._constants.keys():
            return False
        replaced = {**self._replaced, **changed}
        self._weights = self._prepared(replaced)
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
        return _Instrumented(self, record)

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
            return tvm("relax").VirtualMachine(self._engine.module, tvm().cpu())

    def _prepared(self, replaced: Mapping[str, Any]) -> tuple[Any, ...]:
        """Compute once what depends on the weights alone, such as transposed matrices."""
        if not self._constants:
            return ()
        tensors = [
            as_tensor(replaced[name] if name in replaced else stored.array())
            for name, stored in self._constants.items()
        ]
        use_threads(self._threads)
        machine = self._machine()
        prepared = tuple(machine[PREPARE](tensors))
        self._machines.append(machine)
        return prepared


class _Instrumented(TvmOperator):
    """Another operator's code and weights in machines with an instrument of TVM.

    Args:
        whole: The operator.
        record: Takes the times.
    """

    def __init__(self, whole: TvmOperator, record: Callable[[InnerTime], object]) -> None:
        vars(self).update(vars(whole))
        self._machines = []
        self._record = record

    def _machine(self) -> Any:
        if self._machines:
            return super()._machine()
        machine = super()._machine()
        begun: list[float] = []  # one call may make others: those of a branch

        def tell(function: Any, name: str, before: bool, made: Any, *given: Any) -> int:  # noqa: FBT001 (by position, by TVM)
            del function, made, given
            if before:
                begun.append(time.perf_counter())
                return 0
            seconds = time.perf_counter() - begun.pop()
            if not begun:
                started = time.perf_counter() - seconds
                self._record(InnerTime(name, seconds, (), started))
            return 0

        machine.set_instrument(tell)
        return machine


def _sharing(results: Sequence[Any], tensors: Sequence[Any]) -> frozenset[int]:
    """Find the outputs that are views of something else; which ones is a matter of the code."""
    others = [as_array(tensor) for tensor in tensors]
    shared = set()
    for place, result in enumerate(results):
        if any(np.may_share_memory(result, other) for other in others):
            shared.add(place)
        others.append(result)
    return frozenset(shared)


def _filled(names: Sequence[str], buffers: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    filled = []
    for name, buffer, result in zip(names, buffers, results, strict=True):
        if buffer is None:
            filled.append(result)
            continue
        if buffer.shape != result.shape or buffer.dtype != result.dtype:
            raise ValueError(
                f"the buffer for output {name!r} is {buffer.dtype}{buffer.shape}, expected "
                f"{result.dtype}{result.shape}"
            )
        np.copyto(buffer, result)
        filled.append(buffer)
    return filled
