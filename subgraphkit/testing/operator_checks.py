"""Checks of one operator of the backend under test, taken out of its session, with feeds for it.

A session's locks, checks and copies around an operator would hide its faults. Each check is given a
workbench with a new operator on it, and raises ``Stopped`` where a run fails.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.footprint import SAME_MEMORY
from subgraphkit.backend.operator import InnerTime, SubgraphOperator
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.errors import SubgraphkitError
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.testing.cases import PASSED, Finding, Outcome, Stopped, breach
from subgraphkit.testing.claimed import model_taken
from subgraphkit.testing.comparison import find_shared_memory, watch_feeds
from subgraphkit.testing.small_models import SmallModel
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.variants import LAYOUTS

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Workbench:
    """An operator with its surroundings."""

    subject: Subject
    model: SmallModel
    partitioning: Partitioning
    subgraph: Subgraph
    operator: SubgraphOperator

    @property
    def claim(self) -> Claim:
        """The property and the instance of the backend that compiled it."""
        return self.partitioning.claim_of(self.subgraph)

    def with_weights(self, weights: Mapping[str, _Array]) -> "Workbench":
        """Return the same with other weights in the model, for the expected results."""
        proto = deepcopy(self.model.proto)
        for tensor in proto.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
        return replace(self, model=SmallModel(proto))

    def check(self, seed: int = 0, remark: str = "") -> None:
        """Run once and compare; Stopped if it fails, or is wrong."""
        self.require_right(self.run(self.inputs(seed)), seed, remark)

    def inputs(self, seed: int = 0) -> list[_Array]:
        """Return the operator's inputs, new arrays each time."""
        return self._values(self.subgraph.inputs, seed)

    def expected_outputs(self, seed: int = 0) -> list[_Array]:
        """Return the expected results for them."""
        return self._values(self.subgraph.outputs, seed)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[_Array]:
        """Call the operator; Stopped if it raises, or returns no list of arrays."""
        try:
            results: Any = self.operator.run(inputs, outputs)
        except Exception as error:
            text = f"the operator raised {type(error).__name__}: {error}"
            raise Stopped(Outcome.FAIL_RUN, text) from error
        expected = len(self.subgraph.outputs)
        if not isinstance(results, Sequence) or len(results) != expected:
            text = f"run() returned {type(results).__name__}, expected a sequence of {expected}"
            raise Stopped(Outcome.FAIL_RUN, text)
        for name, value in zip(self.subgraph.outputs, results, strict=True):
            if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__"):
                text = f"run() returned a {type(value).__name__} for {name!r}, expected an array"
                raise Stopped(Outcome.FAIL_RUN, text)
        return [one if isinstance(one, np.ndarray) else np.from_dlpack(one) for one in results]

    def require_right(self, results: Sequence[Any], seed: int = 0, remark: str = "") -> None:
        """Compare results with expected ones; Stopped if they differ."""
        found = self.subject.judge.difference(self.expected_outputs(seed), results)
        if found is not None:
            raise Stopped(found.outcome, found.about(remark).detail)

    def _values(self, names: Sequence[str], seed: int) -> list[_Array]:
        feeds = self.model.feeds(seed)
        evaluator = ReferenceEvaluator(self.model.proto)
        inner: Any = evaluator.run(None, dict(feeds), intermediate=True)
        values = {**feeds, **inner}
        return [np.array(values[name]) for name in names]


@contextmanager
def workbench(subject: Subject, model: SmallModel | None = None) -> Iterator[Workbench]:
    """Compile the backend's part of a small model, close it at the end; Stopped if it fails."""
    model = model or model_taken(subject)
    partitioning = subject.partition(subject.bind(model.proto))
    try:
        compiled = compile_subgraphs(partitioning)
    except SubgraphkitError as error:
        raise Stopped(Outcome.FAIL_COMPILE, str(error)) from error
    try:
        pairs = zip(compiled.partitioning.subgraphs, compiled, strict=True)
        mine = [(one, operator) for one, operator in pairs if one.backend == subject.name]
        if not mine:
            raise Stopped(Outcome.UNCLAIMED, f"it gave all nodes of model {model.name!r} back")
        yield Workbench(subject, model, compiled.partitioning, *mine[0])
    finally:
        compiled.close()


_GARBAGE: Final = 77


def repeated_runs(bench: Workbench) -> Finding:
    """It computes as the nodes of its subgraph, after any other run."""
    for seed in (0, 1, 0):
        bench.check(seed, f"run {seed}")
    return PASSED


def inputs_left_alone(bench: Workbench) -> Finding:
    """It does not write to its inputs."""
    inputs = bench.inputs()
    with watch_feeds(dict(zip(bench.subgraph.inputs, inputs, strict=True))):
        bench.run(inputs)
    return PASSED


def strided_inputs(bench: Workbench) -> Finding:
    """It takes read-only arrays, and arrays that are not contiguous."""
    for layout in ("read_only", "not_contiguous", "columns_first"):
        inputs = map(LAYOUTS[layout], bench.inputs())
        bench.require_right(bench.run(list(inputs)), remark=f"inputs that are {layout}")
    return PASSED


def no_shared_memory(bench: Workbench) -> Finding:
    """Its results share no memory with inputs, constants or one another."""
    inputs, constants = bench.inputs(), bench.subgraph.constants.items()
    feeds = dict(zip(bench.subgraph.inputs, inputs, strict=True))
    feeds |= {f"constant {name}": stored.array() for name, stored in constants}
    return find_shared_memory(feeds, bench.run(inputs)) or PASSED


def results_are_given_away(bench: Workbench) -> Finding:
    """It neither writes to earlier results, nor reads them."""
    kept = bench.run(bench.inputs())
    copies = [array.copy() for array in kept]
    bench.run(bench.inputs(1))
    for now, then in zip(kept, copies, strict=True):
        if now.tobytes() != then.tobytes():
            return Finding(Outcome.FAIL_ALIAS, "a second run changed what the first had returned")
    for array in kept:
        if array.flags.writeable:
            array[...] = _GARBAGE
    found = bench.subject.judge.difference(bench.expected_outputs(2), bench.run(bench.inputs(2)))
    if found is None:
        return PASSED
    text = f"writing to a result changed later ones: {found.detail}"
    return Finding(Outcome.FAIL_ALIAS, text)


def buffers(bench: Workbench) -> Finding:
    """It takes buffers for its results, and may use them or not."""
    buffers = [np.full_like(array, _GARBAGE) for array in bench.expected_outputs()]
    bench.require_right(bench.run(bench.inputs(), buffers), remark="with buffers for the results")
    results = bench.run(bench.inputs(), [None] * len(buffers))
    bench.require_right(results, remark="with None for buffers")
    return PASSED


def information(bench: Workbench) -> Finding:
    """Its facts on itself can be written as JSON."""
    try:
        json.dumps(dict(bench.operator.info()), allow_nan=False)
    except (TypeError, ValueError) as error:
        return breach(f"info() is not JSON-able: {error}")
    return PASSED if repr(bench.operator) else breach("repr() of the operator is empty")


def times_inside(bench: Workbench) -> Finding:
    """Its profiled twin computes the same, and names nodes that it has."""
    found: list[InnerTime] = []
    twin: Any = bench.operator.profiled(found.append)
    if twin is None:
        return Finding(Outcome.SKIP, "it takes no times inside")
    try:
        replace(bench, operator=twin).check(0, "profiled")
    finally:
        twin.close()
    bench.check(1, "after a profile")
    if not found and {node.op_type for node in bench.subgraph.members} <= SAME_MEMORY:
        return Finding(Outcome.SKIP, "its nodes compute nothing that could take time")
    for one in found:
        if one.seconds < 0 or not set(one.nodes) <= set(bench.subgraph.nodes):
            return breach(f"profiled() recorded {one!r}, expected nodes {bench.subgraph.nodes}")
    return PASSED if found else breach("profiled() recorded nothing of a run")


def new_weights(bench: Workbench) -> Finding:
    """It takes new weights and computes with them, or says that it cannot."""
    floats = {
        name: stored.array()
        for name, stored in bench.subgraph.constants.items()
        if stored.array().dtype.kind == "f"
    }
    doubled = {name: (array * 2).astype(array.dtype) for name, array in floats.items()}
    changed = bench.with_weights(doubled)
    if bench.subject.judge.difference(bench.expected_outputs(), changed.expected_outputs()) is None:
        text = f"model {bench.model.name!r} has no weights that make a difference"
        return Finding(Outcome.SKIP, text)
    answer: Any = bench.operator.update_weights(doubled)
    if not isinstance(answer, bool):
        return breach(f"update_weights() returned {answer!r:.80}, expected True or False")
    results = bench.run(bench.inputs())
    if not answer:
        return PASSED
    if bench.subject.judge.difference(bench.expected_outputs(), results) is None:
        return Finding(Outcome.FAIL_VALUE, "update_weights() said True, and changed nothing")
    changed.require_right(results, remark="with new weights")
    if not bench.operator.update_weights(floats):
        return breach("update_weights() took new weights once, and then no more")
    bench.check(0, "after the old weights were put back")
    return PASSED


def closing_twice(bench: Workbench) -> Finding:
    """It may be closed more than once, and leaves others alone."""
    with workbench(bench.subject) as other:
        bench.operator.close()
        bench.operator.close()
        other.check(0, "after another operator was closed")
    return PASSED


OPERATOR_CHECKS: Final[tuple[Callable[[Workbench], Finding], ...]] = (
    repeated_runs, inputs_left_alone, strided_inputs, no_shared_memory, results_are_given_away,
    buffers, information, times_inside, new_weights, closing_twice,
)  # fmt: skip
