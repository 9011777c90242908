"""The operators of a divided subgraph as one, written out as straight-line Python.

For two regions, of which the second makes the output of the subgraph, the text is

    def run(inputs, buffers):
        v0, v1, = inputs
        v2, = run0((v0, ), None)
        v3, = run1((v2, v1, ), None if buffers is None else (buffers[0],))
        del v2
        return (v3, )
"""

import linecache
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from types import FunctionType
from typing import Any, Final

from subgraphkit.backend.operator import ON_DEVICE, InnerTime, SubgraphOperator
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.traits import Traits
from subgraphkit.compiling.creation import close_all
from subgraphkit.ir import Graph, Subgraph, last_uses

_HOST: Final = "cpu"
_serial = count()

_Parts = Sequence[tuple[Subgraph, SubgraphOperator]]


class ComposedOperator(SubgraphOperator):
    """Runs the operators of regions in order. Beside its work, each costs one call.

    Values between regions stay on the device if all operators have the same one.

    Thread-safety: ``run`` may be called from any thread; an operator that is not thread-safe is
    run by one at a time.
    """

    def __init__(self, graph: Graph, parts: Iterable[tuple[Subgraph, SubgraphOperator]]) -> None:
        self._parts = [(subgraph, operator) for subgraph, operator in parts if subgraph.outputs]
        devices = {operator.device for _, operator in self._parts}
        self.device = devices.pop() if len(devices) == 1 else _HOST
        traits = [operator.traits for _, operator in self._parts]
        self.traits = Traits(
            thread_safe=True,
            fork_safe=all(one.fork_safe and one.thread_safe for one in traits),
            minds_memory=all(one.minds_memory for one in traits),
        )
        self._graph = graph
        self._values: dict[str, Any] = {}
        self._filename = f"<subgraphkit composed {next(_serial)}: {graph.name}>"
        lines, self._region_of_line = _written(graph, self._parts, stays=self.device != _HOST)
        names: dict[str, Any] = {"ON_DEVICE": ON_DEVICE}
        for index, (_, operator) in enumerate(self._parts):
            names |= {f"run{index}": operator.run, f"lock{index}": threading.Lock()}
        text = "".join(lines)
        exec(compile(text, self._filename, "exec"), names)  # noqa: S102 (our own text, see above)
        self._execute: FunctionType = names["run"]
        linecache.cache[self._filename] = (len(text), None, lines, self._filename)
        weakref.finalize(self, linecache.cache.pop, self._filename, None)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run the regions.

        Raises:
            Exception: Whatever an operator raises, with a note that names its region.
        """
        return self._run(self._execute, inputs, outputs)

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Run the regions; before each it is asked whether to go on."""

        def stoppable(operator: SubgraphOperator) -> Callable[..., Sequence[Any]]:
            def run(inputs: Sequence[Any], outputs: Any) -> Sequence[Any]:
                progress.check()
                return operator.run_stoppable(progress, inputs, outputs)

            return run

        runs = {f"run{i}": stoppable(operator) for i, (_, operator) in enumerate(self._parts)}
        plain = self._execute
        execute = FunctionType(plain.__code__, {**plain.__globals__, **runs})
        return self._run(execute, inputs, outputs)

    def _run(
        self, execute: FunctionType, inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> Sequence[Any]:
        try:
            results: Sequence[Any] = execute(inputs, outputs)
        except Exception as error:
            self._name_region(error)
            raise
        return results

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Hand new values to the operators that read them; all take them, or none keeps them."""
        done: list[tuple[Subgraph, SubgraphOperator]] = []
        takes = False
        try:
            for subgraph, operator in self._parts:
                mine = {name: changed[name] for name in changed if name in subgraph.constants}
                takes = not mine or operator.update_weights(mine)
                if not takes:
                    break
                done.append((subgraph, operator))
        finally:
            if takes:
                self._values.update(changed)
            else:
                self._put_back(done, changed)
        return takes

    def info(self) -> Mapping[str, Any]:
        """Return what each operator says; JSON-able."""
        regions = [
            {
                "subgraph": subgraph.id,
                "backend": subgraph.backend,
                "property": subgraph.property_name,
                "node_count": len(subgraph.nodes),
                "info": operator.info(),
            }
            for subgraph, operator in self._parts
        ]
        return {"regions": regions}

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator:
        """Compose the operators anew, of those that record times, and others with a clock."""
        parts: list[tuple[Subgraph, SubgraphOperator]] = []
        try:
            for subgraph, operator in self._parts:
                twin = operator.profiled(record) or _Clocked(subgraph, operator, record)
                parts.append((subgraph, twin))
            return ComposedOperator(self._graph, parts)
        except BaseException:
            close_all(twin for _, twin in parts)
            raise

    def close(self) -> None:
        """Close the operators."""
        close_all(operator for _, operator in self._parts)

    def _put_back(self, done: _Parts, changed: Mapping[str, Any]) -> None:
        for subgraph, operator in done:
            old = {
                name: self._values[name] if name in self._values else constant.array()
                for name, constant in subgraph.constants.items()
                if name in changed
            }
            if old:
                operator.update_weights(old)

    def _name_region(self, error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != self._filename:
            trace = trace.tb_next
        index = self._region_of_line.get(trace.tb_lineno) if trace is not None else None
        if index is not None:
            subgraph, _ = self._parts[index]
            error.add_note(f"It happened in {subgraph!r} on backend {subgraph.backend!r}.")


class IdleOperator(SubgraphOperator):
    """The operator of a region nobody reads from: there is nothing to do."""

    traits = Traits(thread_safe=True, fork_safe=True)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute nothing."""
        del inputs, outputs
        return ()

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take whatever there is: it makes no difference."""
        del changed
        return True


class _Clocked(SubgraphOperator):
    """Runs another operator as one thing that takes time; closing it closes nothing."""

    traits = Traits(thread_safe=True)

    def __init__(
        self,
        subgraph: Subgraph,
        operator: SubgraphOperator,
        record: Callable[[InnerTime], object],
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


def _written(graph: Graph, parts: _Parts, *, stays: bool) -> tuple[list[str], dict[int, int]]:
    """Write the function; return its lines, and by number of a line the region it runs."""
    locals_: dict[str, str] = {}

    def row(values: Iterable[str]) -> str:
        return "".join(f"{locals_.setdefault(value, f'v{len(locals_)}')}, " for value in values)

    region_of_line = {}
    lines = ["def run(inputs, buffers):\n"]
    if graph.inputs:
        lines.append(f"    {row(graph.inputs)}= inputs\n")
    drops = last_uses([subgraph for subgraph, _ in parts], graph.outputs)
    for index, ((subgraph, operator), gone) in enumerate(zip(parts, drops, strict=True)):
        indent = "    "
        if not operator.traits.thread_safe:
            lines.append(f"{indent}with lock{index}:\n")
            indent *= 2
        arguments = f"({row(subgraph.inputs)}), {_buffers(graph, subgraph, stays=stays)}"
        lines.append(f"{indent}{row(subgraph.outputs)}= run{index}({arguments})\n")
        region_of_line[len(lines)] = index
        if gone:
            lines.append(f"    del {row(gone)}\n")
    lines.append(f"    return ({row(graph.outputs)})\n")
    return lines, region_of_line


def _buffers(graph: Graph, subgraph: Subgraph, *, stays: bool) -> str:
    """Return where a region's outputs go: those of the whole where the caller wants them."""
    inner = "ON_DEVICE" if stays else "None"
    place_of = {name: place for place, name in enumerate(graph.outputs)}
    if place_of.keys().isdisjoint(subgraph.outputs):
        return f"({', '.join([inner] * len(subgraph.outputs))},)" if stays else "None"
    wanted = [f"buffers[{place_of[n]}]" if n in place_of else inner for n in subgraph.outputs]
    unwanted = ["None" if name in place_of else inner for name in subgraph.outputs]
    otherwise = f"({', '.join(unwanted)},)" if stays else "None"
    return f"{otherwise} if buffers is None else ({', '.join(wanted)},)"
