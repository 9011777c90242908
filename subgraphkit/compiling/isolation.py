"""Operators in the child process of their model: one that stands for each here, and its errors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import numpy as np

from subgraphkit.backend.operator import SubgraphOperator, Traits, fill_buffers, set_maker
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.binding.model_process import ProcessEnded, backend_recipe, with_last_words
from subgraphkit.errors import BackendError, CompileError, ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Claim
from subgraphkit.partitioning.constraints import ResolvedConstraints
from subgraphkit.texts import count_of

_LOOK_SECONDS: Final = 0.02
# How long an operator may take to close before its process is ended.
_CLOSING_SECONDS: Final = 5.0


class IsolatedOperator(SubgraphOperator):
    """Stands for an operator in the process of its model, and has it made there when need be.

    Inputs are copied once into memory that both processes share, and outputs once out of it.

    ``engine``: The engine to restore; None to compile one. As an attribute, the state of the new
    engine: ``"kept"`` in the cache, ``"unproven"``, or empty if it is not kept.

    Thread-safety: ``run`` may be called from any thread; the operators of a process run one at a
    time.
    """

    traits = Traits(thread_safe=True, minds_memory=True, fork_safe=True)

    def __init__(
        self,
        subgraph: Subgraph,
        claim: Claim,
        constraints: ResolvedConstraints,
        progress: Progress,
        how: Mapping[str, bool],
        engine: bytes | memoryview | None = None,
    ) -> None:
        """Have a region compiled, or its engine restored, in the process of its model."""
        graph = cast("BoundModel", subgraph.graph)
        fields = ("id", "backend", "nodes", "inputs", "outputs", "property_name")
        self._recipe = {
            "backend": backend_recipe(graph, claim.backend),
            "property": claim.property_name,
            "subgraph": {name: getattr(subgraph, name) for name in fields},
            "constants": list(subgraph.constants),
            "pinned": list(constraints.pinned.items()),
            "excluded": {name: sorted(nodes) for name, nodes in constraints.excluded.items()},
            **how,
        }
        self._process = process = graph.process
        self._subgraph, self._backend = subgraph, claim.backend.name
        self._engine = [] if engine is None else [np.frombuffer(engine, np.uint8)]
        self._weights = {key: one.array() for key, one in subgraph.constants.items() if one.version}
        self._number = 0
        self._generation = 0
        self.restored, self.engine = False, ""
        with process.lock:
            process.join(self)
            try:
                self._make(progress)
            except ProcessEnded as ended:
                process.leave(self)
                doing = "compiling"
                raise ended_while(doing, CompileError, ended, self._backend, subgraph) from None
            except BaseException:
                process.leave(self)
                raise

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Have the outputs computed; if the process goes down (SGK136), another run starts one."""
        with self._process.lock:
            results = self._run_in_child(inputs)
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Have the outputs computed; if the run is cancelled the process is ended."""
        lock = self._process.lock
        while not lock.acquire(timeout=_LOOK_SECONDS):  # another thread may be in a hang
            progress.check()
        try:
            results = self._run_in_child(inputs, progress)
        finally:
            lock.release()
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new weights to the operator; a process that is started later makes it with them."""
        process = self._process
        with process.lock, self._explain_end("updating"):
            if self._generation != process.ready():
                self._make()
            values = process.inward.store(list(changed.values()))
            taken: bool = process.ask(".update", self._number, list(changed), values)
        if taken:
            self._weights |= changed
        return taken

    def prove(self, given: Sequence[Any]) -> str:
        """Have the child restore the engine and compare its results on inputs; store it if alike.

        It returns the difference.
        """
        process = self._process
        with process.lock, self._explain_end("proving the engine of"):
            if self._generation != process.ready():
                return "the process that made it is gone"
            return str(process.ask(".prove", self._number, process.inward.store(given)))

    def serialize(self) -> bytes | None:
        """Return the engine."""
        return self._bytes("serialize")

    def bare_engine(self) -> bytes | None:
        """Return the engine as the library's own tools take it."""
        return self._bytes("bare_engine")

    def info(self) -> Mapping[str, Any]:
        """Return the operator's facts, and the number of its process."""
        facts = self._ask_child("info") if self._is_there else {}
        return {**facts, "process": self._process.number}

    def close(self) -> None:
        """Close the operator; with the last one the process ends."""
        process = self._process
        with process.lock:
            try:
                if self._is_there:
                    with suppress(ProcessEnded):
                        process.ask(".ask", self._number, "close", seconds=_CLOSING_SECONDS)
            finally:
                self._generation = -1
                process.leave(self)

    # -- inside ------------------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return self._process.is_at_work and self._generation == self._process.generation

    def _run_in_child(self, inputs: Sequence[Any], progress: Progress | None = None) -> list[Any]:
        process = self._process
        with self._explain_end("running"):
            if self._generation != process.ready(progress):
                self._make(progress)
            given = process.inward.store(inputs)
            values = process.ask(".run", self._number, given, progress=progress)
            return [_copy_values(one) for one in process.outward.restore(values)]

    def _make(self, progress: Progress | None = None) -> None:
        process = self._process
        generation = process.ready(progress)
        values = process.inward.store([*self._weights.values(), *self._engine])
        new = self._recipe, list(self._weights), values
        answer = process.ask(".create", *new, progress=progress, tells=True)
        self._generation, self._number = generation, answer["number"]
        set_maker(self, answer["maker"])
        self.restored, self.engine = answer["restored"], answer["engine"]

    def _ask_child(self, what: str) -> Any:
        with self._process.lock, self._explain_end(f"asked for {what!r} of"):
            return self._process.ask(".ask", self._number, what)

    def _bytes(self, what: str) -> bytes | None:
        with self._process.lock:
            with self._explain_end("compiling"):
                if self._generation != self._process.ready():
                    self._make()
            values = self._ask_child(what)
            return None if values is None else self._process.outward.restore(values)[0].tobytes()

    @contextmanager
    def _explain_end(self, doing: str) -> Iterator[None]:
        try:
            yield
        except ProcessEnded as ended:
            raise ended_while(doing, ExecutionError, ended, self._backend, self._subgraph) from None


def ended_while(
    doing: str, kind: type[BackendError], ended: ProcessEnded, backend: str, subgraph: Subgraph
) -> BackendError:
    """Word that a process went down (SGK136)."""
    error = kind(
        "SGK136",
        f"the process in which backend {backend!r} was {doing} subgraph {subgraph.id!r} "
        f"({count_of(len(subgraph.nodes), 'node')}) ended with {ended.how}",
        backend=backend,
        subgraph=subgraph.id,
        hint="This program and the session go on. To have such subgraphs run on the fallback "
        "backend, set on_compile_error='fallback' and on_run_error='fallback'; or leave the "
        "backend out of the list.",
    )
    return with_last_words(error, ended)


def _copy_values(value: Any) -> Any:
    """Copy values from shared memory, which the next run overwrites."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.hasobject else value.copy()
    if isinstance(value, dict):
        return {key: _copy_values(one) for key, one in value.items()}
    return [_copy_values(one) for one in value] if isinstance(value, list) else value
