"""The watch over what enters a region, and the backend that runs what OpenVINO gets wrong."""

import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from subgraphkit.backend import SubgraphOperator
from subgraphkit.errors import ExecutionError, SubgraphkitWarning
from subgraphkit.ir import Subgraph

Fallback = Callable[[Subgraph], SubgraphOperator]
"""Compiles a region on another backend."""


class Guard:
    """Sends a run elsewhere if it is fed what OpenVINO would compute wrong.

    That is whole numbers out of ``limits`` (an input, least, most), indices beyond the size of an
    axis (``sized``: an input, another one, its axis), and nothing where it ends the process or
    makes anything of it (``filled``: inputs that must have elements).

    Thread-safety: any number of threads may call.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        limits: Sequence[tuple[int, int, int]],
        sized: Sequence[tuple[int, int, int]],
        fallback: Fallback,
        filled: Sequence[int] = (),
    ) -> None:
        self._limits, self._sized, self._filled = tuple(limits), tuple(sized), tuple(filled)
        self.watches = bool(self._limits or self._sized or self._filled)
        places = (*(place for place, *_ in (*self._limits, *self._sized)), *self._filled)
        self._watched = dict.fromkeys(places)
        self._subgraph = subgraph
        self._fallback = fallback
        self._lock = Lock()
        self._operator: SubgraphOperator | None = None

    def admits(self, inputs: Sequence[Any]) -> bool:
        """Say whether OpenVINO gets a run right."""
        if not all(inputs[place].size for place in self._filled):
            return False
        sizes = ((place, inputs[other].shape[axis]) for place, other, axis in self._sized)
        for place, low, high in (*self._limits, *((at, -size, size - 1) for at, size in sizes)):
            array = inputs[place]
            if array.size and not (low <= array.min() and array.max() <= high):
                return False
        return True

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None) -> Sequence[Any]:
        """Run on the other backend; the first time, compile for it and warn.

        Raises:
            ExecutionError: There is no other backend (SGK131).
        """
        with self._lock:
            if self._operator is None:
                self._operator = self._elsewhere()
            operator = self._operator
            if not operator.traits.thread_safe:
                return operator.run(inputs, outputs)
        return operator.run(inputs, outputs)

    def close(self) -> None:
        """Close what was compiled for the other backend."""
        with self._lock:
            operator, self._operator = self._operator, None
        if operator is not None:
            operator.close()

    def _elsewhere(self) -> SubgraphOperator:
        names = ", ".join(repr(self._subgraph.inputs[place]) for place in self._watched)
        what = (
            f"what is fed to subgraph {self._subgraph.id!r} ({names}) has no elements, or whole "
            "numbers that are indices out of range, are counted up and are neither 0 nor 1, or "
            "need more than the 24 bits in which OpenVINO computes them exactly"
        )
        try:
            operator = self._fallback(self._subgraph)
        except Exception as error:
            raise ExecutionError(
                "SGK131",
                f"{what}, and no other backend runs it: {error}",
                backend=self._subgraph.backend,
                subgraph=self._subgraph.id,
                hint="Leave openvino out of the list for such numbers.",
            ) from error
        warnings.warn(
            SubgraphkitWarning(f"{what}; such runs go to the fallback backend"), stacklevel=5
        )
        return operator
