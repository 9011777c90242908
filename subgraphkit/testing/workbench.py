"""One operator of the backend under test, taken out of its session, with feeds for it.

What a session does around an operator (locks, checks, copies) would hide what the operator does.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.operator import InnerTime, SubgraphOperator
from subgraphkit.comparing.small_models import SmallModel
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.errors import SubgraphkitError
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.testing.cases import Outcome, Stopped
from subgraphkit.testing.small_models import model_taken
from subgraphkit.testing.subject import Subject

__all__ = ["Workbench", "workbench"]

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Workbench:
    """An operator with its surroundings.

    Attributes:
        subject: The backend under test.
        model: The model its subgraph is part of.
        partitioning: The partitioning of the model.
        subgraph: The subgraph.
        operator: What the backend made of it.
    """

    subject: Subject
    model: SmallModel
    partitioning: Partitioning
    subgraph: Subgraph
    operator: SubgraphOperator

    @property
    def claim(self) -> Claim:
        """The property and the instance of the backend that compiled it."""
        return self.partitioning.claim_of(self.subgraph)

    def with_operator(self, operator: SubgraphOperator) -> "Workbench":
        """Return the same with another operator of the same subgraph."""
        return replace(self, operator=operator)

    def with_weights(self, weights: Mapping[str, _Array]) -> "Workbench":
        """Return the same with other weights in the model, which is what is expected then."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.model.proto)
        for tensor in proto.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
        return replace(self, model=SmallModel(proto))

    def check(self, seed: int = 0, remark: str = "") -> None:
        """Run once and compare.

        Raises:
            Stopped: It fails, or is wrong.
        """
        self.require_right(self.run(self.inputs(seed)), seed, remark)

    def inputs(self, seed: int = 0) -> list[_Array]:
        """Return what the operator is to be fed, new arrays each time."""
        return self._values(self.subgraph.inputs, seed)

    def expected(self, seed: int = 0) -> list[_Array]:
        """Return what it must return for them."""
        return self._values(self.subgraph.outputs, seed)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[_Array]:
        """Call the operator.

        Raises:
            Stopped: It raised, or returned something that is no list of arrays.
        """
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
        return [
            value if isinstance(value, np.ndarray) else np.from_dlpack(value) for value in results
        ]

    def require_right(self, results: Sequence[Any], seed: int = 0, remark: str = "") -> None:
        """Compare results with what they must be.

        Raises:
            Stopped: They are something else.
        """
        found = self.subject.judge.difference(self.expected(seed), results)
        if found is not None:
            raise Stopped(found.outcome, f"{remark}: {found.detail}" if remark else found.detail)

    def times_inside(self) -> list[InnerTime] | None:
        """Have the operator that is run for a profile compute the same, and see what it records.

        Returns:
            What it recorded in a run; None if the backend has no such operator.

        Raises:
            Stopped: It fails, or is wrong, or spoils this one.
        """
        told: list[InnerTime] = []
        twin: Any = self.operator.profiled(told.append)
        if twin is None:
            return None
        try:
            self.with_operator(twin).check(0, "profiled")
        finally:
            twin.close()
        self.check(1, "after a profile")
        return told

    def _values(self, names: Sequence[str], seed: int) -> list[_Array]:
        feeds = self.model.feeds(seed)
        evaluator = ReferenceEvaluator(self.model.proto)
        made: Any = evaluator.run(None, dict(feeds), intermediate=True)
        return [np.array({**feeds, **made}[name]) for name in names]


@contextmanager
def workbench(subject: Subject, model: SmallModel | None = None) -> Iterator[Workbench]:
    """Compile a subgraph of a small model that the backend takes; close it at the end.

    Args:
        subject: The backend.
        model: The model; by default the first of which the backend takes a node.

    Raises:
        Stopped: It takes none, or fails on the way.
    """
    model = model or model_taken(subject)
    partitioning = subject.partitioned(subject.bound(model.proto))
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
