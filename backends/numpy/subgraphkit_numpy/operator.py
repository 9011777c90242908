"""The operator: a compiled program and how the session calls it."""

from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import Any, ClassVar, Final

import numpy as np

from subgraphkit.backend import SubgraphOperator
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit_numpy.compiler import Program, compile_graph, failing_nodes

__all__ = ["NumpyOperator"]

# NumPy keeps what floating-point exceptions do in a context variable. Running in a copy of a
# context prepared once costs a tenth of entering ``numpy.errstate`` on every run.
_QUIET: Final = Context()
_QUIET.run(np.seterr, all="ignore")


class NumpyOperator(SubgraphOperator):
    """A region as one straight-line Python function over NumPy.

    Args:
        subgraph: The region.
        option_values: Options of the backend.

    Raises:
        Unsupported: For nodes nothing implements.

    Thread-safety: any number of threads may be inside ``run``.
    """

    thread_safe: ClassVar[bool] = True

    def __init__(self, subgraph: Subgraph, option_values: Mapping[str, Any]) -> None:
        self._subgraph = subgraph
        self._option_values = option_values
        self._replaced: dict[str, Any] = {}
        self._program = self._compile()
        self._function = self._program.function

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs; floating-point exceptions give infinities and NaNs silently.

        Raises:
            ExecutionError: If a node fails; the message names it (SGK131).
        """
        try:
            results = _QUIET.copy().run(self._function, *inputs)
        except Exception as error:
            raise self._explained(error) from error
        return results if outputs is None else _fill(outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take new constants: only kernels and folded values that depend on them are made again.

        The arrays are kept, not copied; they must not be written to afterwards. If the region
        cannot be computed with them, the old ones stay and the error is raised.
        """
        before = self._replaced
        self._replaced = {**before, **changed}
        try:
            if not self._program.update(changed):
                self._program = self._compile()
        except Exception:
            self._replaced = before
            self._program = self._compile()
            raise
        finally:
            self._function = self._program.function
        return True

    def info(self) -> Mapping[str, Any]:
        """Return the number of calls, and the ``source`` of the program for debugging."""
        return {"calls": len(self._program.steps), "source": self._program.source}

    def close(self) -> None:
        """Let go of the constants."""
        self._program.close()
        self._function = self._program.function

    def _compile(self) -> Program:
        subgraph = self._subgraph
        return compile_graph(
            subgraph.graph,
            subgraph.nodes,
            inputs=subgraph.inputs,
            outputs=subgraph.outputs,
            constants=subgraph.constants,
            replaced=self._replaced,
            option_values=self._option_values,
            name=subgraph.id,
        )

    def _explained(self, error: Exception) -> ExecutionError:
        labels = failing_nodes(error.__traceback__)
        where = f"node {' > '.join(labels)}" if labels else f"subgraph {self._subgraph.id!r}"
        return ExecutionError(
            "SGK131",
            f"{where} failed while running: {type(error).__name__}: {error}",
            backend=self._subgraph.backend,
            subgraph=self._subgraph.id,
            nodes=tuple(labels),
        )


def _fill(outputs: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Copy results into the buffers that were given."""
    filled = []
    for buffer, result in zip(outputs, results, strict=True):
        if buffer is None:
            filled.append(result)
            continue
        if buffer.shape != result.shape or buffer.dtype != result.dtype:
            raise ValueError(
                f"an output buffer is {buffer.dtype}{buffer.shape}, expected "
                f"{result.dtype}{result.shape}"
            )
        np.copyto(buffer, result)
        filled.append(buffer)
    return filled
