"""The operators of a partitioning, in order; and those of a divided subgraph as one."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, overload

from subgraphkit.backend.operator import ON_DEVICE, InnerTime, SubgraphOperator, Traits
from subgraphkit.backend.progress import Progress
from subgraphkit.compiling.caching.engine_cache import EngineCache
from subgraphkit.compiling.outcomes import close_all
from subgraphkit.ir import Graph, Subgraph, last_uses
from subgraphkit.partitioning import Partitioning

_HOST: Final = "cpu"


class _Part(NamedTuple):
    """A region with its operator.

    Attributes:
        lock: Held while it runs.
        places: For each output, its place among those of the whole, if it has one.
        drops: Values that nobody reads after it.
    """

    subgraph: Subgraph
    operator: SubgraphOperator
    lock: AbstractContextManager[object]
    places: Sequence[int | None]
    drops: Sequence[str]


class ComposedOperator(SubgraphOperator):
    """Runs the operators of regions in order.

    Values between regions stay on the device if all operators have the same one.

    Thread-safety: ``run`` may be called from any thread; an operator that is not thread-safe is
    run by one at a time.
    """

    def __init__(self, graph: Graph, parts: Iterable[tuple[Subgraph, SubgraphOperator]]) -> None:
        pairs = [(subgraph, operator) for subgraph, operator in parts if subgraph.outputs]
        place_of = {name: place for place, name in enumerate(graph.outputs)}
        drops = last_uses([subgraph for subgraph, _ in pairs], graph.outputs)
        self._parts = [
            _Part(
                subgraph,
                operator,
                nullcontext() if operator.traits.thread_safe else threading.Lock(),
                [place_of.get(name) for name in subgraph.outputs],
                gone,
            )
            for (subgraph, operator), gone in zip(pairs, drops, strict=True)
        ]
        devices = {operator.device for _, operator in pairs}
        self.device = devices.pop() if len(devices) == 1 else _HOST
        traits = [operator.traits for _, operator in pairs]
        self.traits = Traits(
            thread_safe=True,
            fork_safe=all(one.fork_safe and one.thread_safe for one in traits),
            minds_memory=all(one.minds_memory for one in traits),
        )
        self._graph = graph
        self._values: dict[str, Any] = {}

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run the regions; an operator's error gets a note that names its region."""
        return self._run(inputs, outputs, lambda operator, given, room: operator.run(given, room))

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Run the regions; before each it is asked whether to go on."""

        def run(operator: SubgraphOperator, given: Sequence[Any], room: Any) -> Sequence[Any]:
            progress.check()
            return operator.run_stoppable(progress, given, room)

        return self._run(inputs, outputs, run)

    def _run(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any] | None,
        run: Callable[[SubgraphOperator, Sequence[Any], Any], Sequence[Any]],
    ) -> Sequence[Any]:
        values = dict(zip(self._graph.inputs, inputs, strict=True))
        for subgraph, operator, lock, places, drops in self._parts:
            given = [values[name] for name in subgraph.inputs]
            try:
                with lock:
                    made = run(operator, given, self._room(places, outputs))
                values.update(zip(subgraph.outputs, made, strict=True))
            except Exception as error:
                error.add_note(f"It happened in {subgraph!r} on backend {subgraph.backend!r}.")
                raise
            for name in drops:
                del values[name]
        return [values[name] for name in self._graph.outputs]

    def _room(self, places: Sequence[int | None], outputs: Sequence[Any] | None) -> Any:
        """Return where the outputs of a region go: those of the whole where the caller says."""
        inner = None if self.device == _HOST else ON_DEVICE
        given = (None,) * len(self._graph.outputs) if outputs is None else outputs
        room = tuple([inner if place is None else given[place] for place in places])
        return room if any(one is not None for one in room) else None

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new values to the operators that read them; all take them, or none keeps them."""
        done: list[_Part] = []
        takes = False
        try:
            for part in self._parts:
                mine = {name: changed[name] for name in changed if name in part.subgraph.constants}
                takes = not mine or part.operator.update_weights(mine)
                if not takes:
                    break
                done.append(part)
        finally:
            if takes:
                self._values.update(changed)
            else:
                self._put_back(done, changed)
        return takes

    def info(self) -> Mapping[str, Any]:
        """Return the facts of each operator; JSON-able."""
        regions = [
            {
                "subgraph": part.subgraph.id,
                "backend": part.subgraph.backend,
                "property": part.subgraph.property_name,
                "node_count": len(part.subgraph.nodes),
                "info": part.operator.info(),
            }
            for part in self._parts
        ]
        return {"regions": regions}

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator:
        """Compose the operators anew, of those that record times, and others with a clock."""
        twins: list[tuple[Subgraph, SubgraphOperator]] = []
        try:
            for subgraph, operator, *_ in self._parts:
                twin = operator.profiled(record) or _Clocked(subgraph, operator, record)
                twins.append((subgraph, twin))
            return ComposedOperator(self._graph, twins)
        except BaseException:
            close_all(twin for _, twin in twins)
            raise

    def close(self) -> None:
        """Close the operators."""
        close_all(part.operator for part in self._parts)

    def _put_back(self, done: Sequence[_Part], changed: Mapping[str, Any]) -> None:
        for subgraph, operator, *_ in done:
            old = {
                name: self._values[name] if name in self._values else constant.array()
                for name, constant in subgraph.constants.items()
                if name in changed
            }
            if old:
                operator.update_weights(old)


class IdleOperator(SubgraphOperator):
    """The operator of a region nobody reads from: there is nothing to do."""

    traits = Traits(thread_safe=True, fork_safe=True)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute nothing."""
        return ()

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take any: it makes no difference."""
        return True


class _Clocked(SubgraphOperator):
    """Runs another operator as one thing that takes time; closing it closes nothing."""

    traits = Traits(thread_safe=True)

    def __init__(
        self, subgraph: Subgraph, operator: SubgraphOperator, record: Callable[[InnerTime], object]
    ) -> None:
        self._subgraph, self._operator, self._record = subgraph, operator, record
        self.device = operator.device
        self._lock = nullcontext() if operator.traits.thread_safe else threading.Lock()

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        with self._lock:
            started = time.perf_counter()
            results = self._operator.run(inputs, outputs)
            seconds = time.perf_counter() - started
        self._record(InnerTime(self._subgraph.id, seconds, self._subgraph.nodes, started))
        return results


@dataclass(frozen=True, eq=False)
class CompiledSubgraphs(Sequence[SubgraphOperator]):
    """One operator per subgraph, in the order of ``partitioning.subgraphs``.

    Attributes:
        partitioning: The partitioning the operators belong to: the one given to
            ``compile_subgraphs``, or its successor if a backend gave nodes back.
        origin: The partitioning given to ``compile_subgraphs``.
        operators: The operators.
        seconds: How long each took to compile or to restore, by subgraph id.
        restored: Ids of the subgraphs whose engine came from the cache.
        cache: The cache of the bind, if it has one.
    """

    partitioning: Partitioning
    origin: Partitioning
    operators: tuple[SubgraphOperator, ...]
    seconds: Mapping[str, float]
    restored: frozenset[str] = frozenset()
    cache: EngineCache | None = None

    @property
    def kept(self) -> frozenset[str]:
        """Ids of the subgraphs whose engine is in the cache now."""
        return frozenset(self.cache.kept if self.cache is not None else ())

    def __len__(self) -> int:
        """Count the operators."""
        return len(self.operators)

    @overload
    def __getitem__(self, index: int | str) -> SubgraphOperator: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SubgraphOperator]: ...
    def __getitem__(
        self, index: int | str | slice
    ) -> SubgraphOperator | Sequence[SubgraphOperator]:
        """Return operators by place, or the one of a subgraph id; ConfigError (SGK123) for none."""
        if isinstance(index, str):
            index = self.partitioning.place_of(index)
        return self.operators[index]

    def close(self) -> None:
        """Close every operator, when engines that wait have been proven."""
        if self.cache is not None:
            self.cache.proofs.settle()
        close_all(self.operators)
