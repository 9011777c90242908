"""Operators in the child process of their model: one that stands for each here, and its errors."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.operator import SubgraphOperator, fill_buffers
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.binding.isolation import ModelProcess, ProcessEnded
from subgraphkit.errors import BackendError, CompileError, ExecutionError
from subgraphkit.finding.catalogue import CATALOGUE, IN_PROCESS
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Claim
from subgraphkit.partitioning.claiming.constraints import ResolvedConstraints

__all__ = ["IsolatedOperator", "isolated"]

_LAST_LINES: Final = 10


def isolated(
    graph: BoundModel,
    subgraph: Subgraph,
    claim: Claim,
    constraints: ResolvedConstraints,
    progress: Progress,
    **how: bool,
) -> "IsolatedOperator":
    """Have a region compiled in the process of its model.

    Args:
        graph: The bound model.
        subgraph: The region.
        claim: Who compiles it.
        constraints: What the user demands.
        progress: Told how far it is; when it is cancelled, the process is ended.
        **how: ``shares``, whether the processors are shared, and ``cached``, whether its engine is
            looked for and kept.

    Raises:
        CompileError: The process went down (SGK136), the backend cannot be opened in another
            process (SGK137), or it failed to compile the region (SGK130).
        Unsupported: It gives nodes back.
    """
    recipe = {
        "backend": [claim.backend.name, _class_of(graph, claim.backend, subgraph)],
        "property": claim.property_name,
        "subgraph": {
            name: getattr(subgraph, name)
            for name in ("id", "backend", "nodes", "inputs", "outputs", "property_name", "copies")
        },
        "constants": list(subgraph.constants),
        "pinned": list(constraints.pinned.items()),
        "excluded": {name: sorted(nodes) for name, nodes in constraints.excluded.items()},
        **how,
    }
    return IsolatedOperator(graph.process, subgraph, recipe, progress)


class IsolatedOperator(SubgraphOperator):
    """Stands for an operator in the process of its model, and has it made there when need be.

    Inputs are copied once into memory that both processes share, and outputs once out of it.

    Args:
        process: The process.
        subgraph: What the operator runs.
        recipe: How it is made there.
        progress: Told how far compiling is.

    Attributes:
        restored: Whether its engine came from the cache.
        kept: Whether its engine is in the cache.

    Thread-safety: ``run`` may be called from any thread; the operators of a process run one at a
    time.
    """

    thread_safe: ClassVar[bool] = True

    def __init__(
        self,
        process: ModelProcess,
        subgraph: Subgraph,
        recipe: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        self._process = process
        self._subgraph = subgraph
        self._recipe = recipe
        self._weights = {
            name: one.array() for name, one in subgraph.constants.items() if one.version
        }
        self._number = 0
        self._generation = 0
        self.restored = self.kept = False
        with process.lock:
            process.join(self)
            try:
                self._make(progress)
            except ProcessEnded as ended:
                process.leave(self)
                raise self._worded(ended, CompileError, "compiling") from None
            except BaseException:
                process.leave(self)
                raise

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Have the outputs computed.

        Raises:
            ExecutionError: The process went down (SGK136); the next run starts another.
            Exception: What the operator raised there.
        """
        process = self._process
        with process.lock:
            try:
                if self._generation != process.ready():
                    self._make()
                given = process.inward.store(inputs)
                answer = process.ask({"run": self._number, "values": given})
                results = [_owned(one) for one in process.outward.restore(answer["values"])]
            except ProcessEnded as ended:
                raise self._worded(ended, ExecutionError, "running") from None
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new weights to the operator; another process will make it with them."""
        process = self._process
        with process.lock:
            if self._generation != process.ready():
                self._make()
            values = process.inward.store(list(changed.values()))
            update = {"update": self._number, "names": list(changed), "values": values}
            taken: bool = process.ask(update)["taken"]
        if taken:
            self._weights |= changed
        return taken

    def serialize(self) -> bytes | None:
        """Return the engine."""
        return self._bytes("serialize")

    def bare_engine(self) -> bytes | None:
        """Return the engine as the library's own tools take it."""
        return self._bytes("bare_engine")

    def info(self) -> Mapping[str, Any]:
        """Return what the operator says, and that it is isolated."""
        facts = self._asked("info") if self._generation == self._process.generation else None
        return {**(facts or {}), "isolated": True}

    def close(self) -> None:
        """Close the operator; with the last one the process ends."""
        process = self._process
        with process.lock:
            if process.is_at_work and self._generation == process.generation:
                self._asked("close")
            self._generation = -1
            process.leave(self)

    # -- inside ------------------------------------------------------------------------------

    def _make(self, progress: Progress | None = None) -> None:
        process = self._process
        generation = process.ready()
        values = process.inward.store(list(self._weights.values()))
        new = {"names": list(self._weights), "values": values}
        answer = process.ask({"create": self._recipe, **new}, progress)
        self._generation, self._number = generation, answer["number"]
        self.made_by = answer["made_by"]
        self.restored, self.kept = answer["restored"], answer["kept"]

    def _asked(self, what: str) -> Any:
        with self._process.lock:
            return self._process.ask({"call": what, "of": self._number})["result"]

    def _bytes(self, what: str) -> bytes | None:
        with self._process.lock:
            if self._generation != self._process.ready():
                self._make()
            values = self._asked(what)
            return None if values is None else self._process.outward.restore(values)[0].tobytes()

    def _worded(self, ended: ProcessEnded, kind: type[BackendError], doing: str) -> BackendError:
        backend = self._recipe["backend"][0]
        subgraph = self._subgraph
        error = kind(
            "SGK136",
            f"the process in which backend {backend!r} was {doing} subgraph {subgraph.id!r} "
            f"({len(subgraph.nodes)} nodes) ended with {ended.how}",
            backend=backend,
            subgraph=subgraph.id,
            hint="This process and the session go on. To have such subgraphs run on the fallback "
            "backend, set on_compile_error='fallback' and on_run_error='fallback'; or leave the "
            "backend out of the list.",
        )
        if ended.printed:
            lines = "\n".join(ended.printed.splitlines()[-_LAST_LINES:])
            error.add_note(f"It printed last:\n{lines}")
        return error


def _owned(value: Any) -> Any:
    """Copy what lies in shared memory, which the next run writes to."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.hasobject else value.copy()
    return [_owned(one) for one in value] if isinstance(value, list) else value


def _class_of(graph: BoundModel, backend: Backend, subgraph: Subgraph) -> str:
    """Return where another process finds the class of a backend; empty if it goes by the name.

    Raises:
        CompileError: It finds none (SGK137).
    """
    name, kind = backend.name, type(backend)
    given = next((one.target for one in graph.settings.backends if one.name == name), None)
    problem = "" if hasattr(os, "memfd_create") else f"{sys.platform} has no memory for it"
    if given is None and not CATALOGUE.find(name, IN_PROCESS) and not problem:
        return ""
    if isinstance(given, Backend):
        problem = "it was given as an instance"
    elif kind.__module__ == "__main__" or "<" in kind.__qualname__:
        problem = f"class {kind.__qualname__!r} of module {kind.__module__!r} cannot be imported"
    if problem:
        raise CompileError(
            "SGK137",
            f"backend {name!r} cannot run in a process of its own: {problem}",
            backend=name,
            subgraph=subgraph.id,
            hint="Give a class at the top of a module, or leave the backend out of 'isolate'.",
        )
    return f"{kind.__module__}:{kind.__qualname__}"
