"""The operator: a compiled program and how the session calls it."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from copy import copy
from functools import cache
from typing import Any

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import (
    BindContext,
    InnerTime,
    Interrupted,
    Progress,
    fill_buffers,
    interrupted_here,
    interruptible,
)
from subgraphkit.errors import ExecutionError
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.compiler import Chains, compile_graph, failing_nodes
from subgraphkit_numpy.kernels.limits import OutputTooLargeError
from subgraphkit_numpy.parallel import BUFFER, allow_threads, stop_with


class NumpyOperator(sk.SubgraphOperator):
    """A region as one straight-line Python function over NumPy.

    ``chains``: Nodes that one kernel computes: a convolution and what follows it at once.
    ``growth``: Bytes that may still be folded at this bind, in a place its operators share.

    Raises:
        Unsupported: For nodes nothing implements.

    Thread-safety: any number of threads may be inside ``run``.
    """

    traits = sk.Traits(thread_safe=True, fork_safe=True, minds_memory=True)

    def __init__(
        self,
        subgraph: sk.Subgraph,
        context: BindContext[Options],
        chains: Chains,
        growth: list[int],
    ) -> None:
        _keep_freed_memory()
        self._context = _context(context.threads)
        self._subgraph = subgraph
        surroundings = copy_context()
        surroundings.run(allow_threads, context.threads)  # which kernels may cut their work for
        self._program = surroundings.run(compile_graph, subgraph, context, chains, growth)
        self._function = self._program.function

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs; floating-point exceptions give infinities and NaNs silently.

        ``outputs``: Buffers to copy results into, None where there is none. They may be strided,
        and may overlap the inputs.

        Raises:
            ExecutionError: If a node fails; the message names it (SGK131).
            ValueError: If a buffer does not fit the result; the message names the output.
        """
        try:
            results = self._context.copy().run(self._function, *inputs)
        except Exception as error:
            raise self._failure_of(error) from error
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Compute the outputs, as ``run``; cancelled, it stops where it is in Python.

        Raises:
            SubgraphkitError: What it was cancelled with; its ``nodes`` are those that were running.
        """
        try:
            results = interruptible(progress, self._compute, progress, inputs)
        except sk.SubgraphkitError as error:
            if isinstance(error.__cause__, Interrupted):
                error.context["nodes"] = failing_nodes(error.__cause__.__traceback__)
            raise
        except Exception as error:
            raise self._failure_of(error) from error
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def _compute(self, progress: Progress, inputs: Sequence[Any]) -> Sequence[Any]:
        context, program = self._context.copy(), self._program
        context.run(stop_with, progress)
        with program.surroundings():
            return interrupted_here(progress, context.run, program.inner, *inputs)

    def info(self) -> Mapping[str, Any]:
        """Return the number of calls, and the ``source`` of the program for debugging."""
        return {"calls": len(self._program.steps), "source": self._program.source}

    def profiled(self, record: Callable[[InnerTime], object]) -> "NumpyOperator":
        """Return the same program with a clock around every call."""
        twin = copy(self)
        twin._program = self._program.with_clock(record)  # noqa: SLF001 (its own)
        twin._function = twin._program.function  # noqa: SLF001 (its own)
        return twin

    def close(self) -> None:
        """Let go of the constants."""
        self._program.close()
        self._function = self._program.function

    def _failure_of(self, error: Exception) -> ExecutionError:
        labels = failing_nodes(error.__traceback__)
        where = f"node {' > '.join(labels)}" if labels else f"subgraph {self._subgraph.id!r}"
        is_refused = isinstance(error, OutputTooLargeError)
        what = str(error) if is_refused else f"{type(error).__name__}: {error}"
        failure = ExecutionError(
            "SGK217" if is_refused else "SGK131",
            f"{where} failed while running: {what}",
            backend=self._subgraph.backend,
            subgraph=self._subgraph.id,
            nodes=tuple(labels),
        )
        # dtypes, and the shapes that are known, were checked before: these are about what was fed
        if is_refused or isinstance(error, IndexError | ValueError):
            failure.fault = "caller"
        return failure


@cache
def _keep_freed_memory() -> None:
    """Let the process keep up to 64 MiB that a run frees, for the next run.

    The GNU C library returns freed memory to the system until a block of this size was freed once.
    Asking for the memory again doubled the time of a network of transforms.
    """
    np.empty((1 << 25) - (1 << 16), np.uint8)


def _context(threads: int | None) -> Context:
    """Return the context to run in: a copy of one costs a tenth of entering ``numpy.errstate``.

    NumPy keeps what floating-point exceptions do in a context variable, as we do the threads.
    """
    context = Context()
    context.run(np.seterr, all="ignore")
    context.run(np.setbufsize, BUFFER)
    context.run(allow_threads, threads)
    return context
