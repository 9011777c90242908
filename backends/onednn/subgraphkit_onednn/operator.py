"""The operator: a region compiled by oneDNN, and how the session calls it."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import InnerTime, SubgraphOperator, Traits, Unsupported, fill_buffers
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Node, Subgraph
from subgraphkit.types import DataType
from subgraphkit_onednn.compiling import CompiledRegion, compile_region
from subgraphkit_onednn.contexts import RunContext, StepError, scratch_plan
from subgraphkit_onednn.edge import Edge, find_ports
from subgraphkit_onednn.handles import DnnlEngine
from subgraphkit_onednn.lowering import GraphDraft, lower
from subgraphkit_onednn.lowering.draft import RefusedError
from subgraphkit_onednn.threads import Threads


class OnednnOperator(SubgraphOperator):
    """A region as partitions compiled by oneDNN.

    Raises:
        Unsupported: For nodes that oneDNN cannot run.

    Thread-safety: any number of threads may be inside ``run``; each uses scratch memory of its own,
    which the next caller takes over.
    """

    traits = Traits(thread_safe=True, minds_memory=True)
    _record: Callable[[InnerTime], object] | None = None

    def __init__(
        self, subgraph: Subgraph, engine: DnnlEngine, dtypes: frozenset[DataType], threads: Threads
    ) -> None:
        self._subgraph = subgraph
        self._engine = engine
        self._threads = threads
        draft = _draft_of(subgraph, dtypes)
        self._ports = find_ports(subgraph, draft)
        self._edge = Edge(subgraph)
        self._region = threads.call(compile_region, engine, draft, self._ports.made, self._data)
        self._plan = scratch_plan(engine, self._region, self._ports.numbers)
        self._contexts: list[RunContext] = [self._context()]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs.

        Raises:
            ExecutionError: A partition failed; the message names its nodes (SGK131).
            ValueError: An input or a buffer does not fit; the message names it.
        """
        dense = self._edge.dense_arrays(inputs)
        results = self._edge.destinations(dense, outputs)
        context = self._borrow()
        try:
            self._threads.call(context.run, _addresses(dense), _addresses(results))
        except StepError as error:
            raise self._failure_of(error) from error
        finally:
            self._contexts.append(context)
        for one in self._ports.copies:
            np.copyto(results[one.output], one.elements(dense, results, self._data))
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def info(self) -> Mapping[str, Any]:
        """Return the partitions, each as the operations fused in it, and memory for one caller."""
        return {
            "library": self._engine.library.version,
            "threads": self._threads.count,
            "partitions": [" + ".join(step.operations) for step in self._region.steps],
            "scratch_bytes": self._plan[1],
        }

    def profiled(self, record: Callable[[InnerTime], object]) -> "OnednnOperator":
        """Return the same partitions with a clock around each of them."""
        twin = copy(self)
        twin._record, twin._contexts = record, []  # noqa: SLF001 (its own)
        return twin

    def close(self) -> None:
        """Release compiled partitions, constants and scratch memory."""
        self._contexts.clear()
        self._region = CompiledRegion((), {}, {}, {})

    def _context(self) -> RunContext:
        context = RunContext(self._engine, self._region, self._ports, self._plan)
        if self._record is not None:
            context.clock(self._region.steps, self._record)
        return context

    def _borrow(self) -> RunContext:
        """Return a context nobody uses; ``list.pop`` is atomic."""
        try:
            return self._contexts.pop()
        except IndexError:
            return self._context()

    def _data(self, name: str) -> npt.NDArray[Any]:
        return self._subgraph.constants[name].array()

    def _failure_of(self, error: StepError) -> ExecutionError:
        graph = self._subgraph.graph
        labels = [Node(graph, node).label for node in self._region.steps[error.step].nodes]
        return ExecutionError(
            "SGK131",
            f"node {' + '.join(labels)} failed while running: {error}",
            backend=self._subgraph.backend,
            subgraph=self._subgraph.id,
            nodes=tuple(labels),
        )


def _addresses(arrays: Sequence[npt.NDArray[Any]]) -> list[int]:
    return [array.__array_interface__["data"][0] for array in arrays]


def _draft_of(subgraph: Subgraph, dtypes: frozenset[DataType]) -> GraphDraft:
    draft = GraphDraft(subgraph.graph, dtypes)
    for node in subgraph.members:
        try:
            lower(draft, node)
        except RefusedError as error:
            refusal = error.refusal
            raise Unsupported(refusal.text, nodes=(node.id,), code=refusal.code) from error
    return draft
