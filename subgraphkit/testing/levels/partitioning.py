"""Level 2, partitioning: graphs that are easily divided wrongly, or run wrongly once divided.

Each is partitioned twice, with the same outcome. The subgraphs must be able to run in their order,
with the results of onnx's own implementation.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from subgraphkit.errors import SubgraphkitError
from subgraphkit.partitioning import Partitioning
from subgraphkit.testing.cases import PASSED, Case, Finding, Outcome, Stopped
from subgraphkit.testing.claimed import Substitution, substitution_of
from subgraphkit.testing.foreign import DOMAIN, beside_foreign, is_own
from subgraphkit.testing.small_models import SmallModel, graphs_of, model_of
from subgraphkit.testing.subject import Subject

_OPSET: Final = 17
_SHARED: Final = "weights_shared_by_two_subgraphs"


@dataclass(frozen=True, eq=False)
class EdgeCase:
    """One graph, in onnx's text form if that can say it.

    ``expected``: The results, where onnx's own implementation cannot run the model.
    """

    name: str
    text: str = ""
    finish: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda model: model
    needs: tuple[str, ...] = ()
    expected: Callable[[Mapping[str, Any]], list[Any]] | None = None

    def build(self) -> onnx.ModelProto:
        """Make the model as it is."""
        return self.finish(model_of(self.text, _header(_OPSET)) if self.text else onnx.ModelProto())

    def with_substitution(self, substitution: Substitution) -> onnx.ModelProto | None:
        """Make the model with other operators; None if it means nothing with them."""
        text = substitution.of(self.text, shares=self.name == _SHARED)
        return self.finish(model_of(text, _header(substitution.opset))) if text else None

    def feeds(self, model: onnx.ModelProto) -> dict[str, Any]:
        """Return positive numbers, so that an operator may have nothing to do."""
        fed = SmallModel(model).feeds()
        return {n: abs(one) + 1 if one.dtype.kind in "fi" else one for n, one in fed.items()}


def edge_cases() -> Iterator[EdgeCase]:
    """Return every edge case, the same each time."""
    needs = {"dimension_that_is_not_known": ("dynamic_shapes",)}
    for name, text in graphs_of("edge cases").items():
        yield EdgeCase(name, f"g {text}", needs=needs.get(name, ()))
    for name, text in graphs_of("edge cases with bodies").items():
        yield EdgeCase(name, f"g {text}", needs=("control_flow",))
    text = "g (float[4] x) => (float[4] y) { y = Mul(x, w) }"
    yield EdgeCase("sparse_initializer", text, _with_sparse_w, expected=_sparse_results)
    yield EdgeCase("chain_of_a_thousand", finish=lambda _: chain(1000))


def _header(opset: int) -> str:
    return f'<ir_version: 10, opset_import: ["" : {opset}, "{DOMAIN}" : 1, "local" : 1]>'


def chain(length: int, substitution: Substitution | None = None) -> onnx.ModelProto:
    """Return a chain of nodes: cheap ones, or those of a substitution."""
    operators = ("Relu", "Sigmoid", "Tanh")
    names = ["x", *(f"v{place}" for place in range(1, length)), "y"]
    pairs = itertools.pairwise(names)
    nodes = [f"{to} = {operators[n % 3]}({of})" for n, (of, to) in enumerate(pairs)]
    text = f"g (float[4] x) => (float[4] y) {{ {' '.join(nodes)} }}"
    if substitution is None:
        return model_of(text, _header(_OPSET))
    return model_of(substitution.of(text), _header(substitution.opset))


def _with_sparse_w(model: onnx.ModelProto) -> onnx.ModelProto:
    values = onnx.numpy_helper.from_array(np.array([2, 5], np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 2], np.int64), "w_places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    return model


def _sparse_results(feeds: Mapping[str, Any]) -> list[Any]:
    return [feeds["x"] * np.array([2, 0, 5, 0], np.float32)]


_SHORT, _LONG = 250, 2000
_SHORTER: Final = 10
"""How many times shorter chains are of nodes that have weights."""
_MOST_TIMES_SLOWER: Final = 32.0
"""Eight times the nodes; the rest is for machines that do other things as well."""
_SLACK_SECONDS: Final = 0.5


def cases(_: Subject) -> Iterator[Case]:
    """Build the cases of this level."""
    for edge_case in edge_cases():
        run = partial(_run_edge_case, edge_case)
        yield Case(f"L2/{edge_case.name}", run, needs=edge_case.needs)
    yield Case("L2/time_is_linear", _time, timeout_factor=2.0)


def _run_edge_case(edge_case: EdgeCase, subject: Subject) -> Finding:
    """Run an edge case as it is, and with operators that the backend takes, if they differ.

    If a backend took the cheap nodes of an edge case, its own come only between foreign ones, where
    they have a boundary.
    """
    model = edge_case.build()
    found = _run_graph(edge_case, model, subject)
    if found.is_wrong or (found.outcome is Outcome.RIGHT and not _is_foreign(model)):
        return found
    substitution = substitution_of(subject)
    other = edge_case.with_substitution(substitution) if substitution else None
    if substitution is None or other is None:
        return found
    again = _run_graph(edge_case, other, subject)
    usable = again.is_wrong or again.outcome is Outcome.RIGHT
    return again.about(f"with {substitution.name} in its place") if usable else found


def _is_foreign(model: Any) -> bool:
    return any(node.domain for node in model.graph.node if not model.functions)


def _run_graph(edge_case: EdgeCase, model: Any, subject: Subject) -> Finding:
    feeds = edge_case.feeds(model)
    road = beside_foreign(subject.choice) if _is_foreign(model) else {}
    if (found := _find_division_fault(subject, model, road)) is not None:
        return found
    compute = edge_case.expected or SmallModel(model).expected_outputs
    found = subject.check_model(model, [(feeds, compute(feeds))], of=is_own, **road)
    if not model.graph.node and found.outcome is Outcome.UNCLAIMED:
        return PASSED
    return found


def _find_division_fault(subject: Subject, model: Any, road: Mapping[str, Any]) -> Finding | None:
    """Partition twice; return the fault, if any."""
    try:
        first, second = (subject.partition(subject.bind(model, **road)) for _ in range(2))
    except SubgraphkitError as error:
        return Finding(Outcome.REFUSED, str(error))
    except Stopped as stop:
        return stop.finding
    fault = order_fault(first)
    took, then = ([(one.backend, one.nodes) for one in p.subgraphs] for p in (first, second))
    if not fault and took != then:
        fault = f"asked twice about the same graph, it took {took} and then {then}"
    return Finding(Outcome.FAIL_SELECT, fault) if fault else None


def order_fault(partitioning: Partitioning) -> str:
    """Return the fault of a partitioning, by a test of its own; empty if there is none.

    Every node is in one subgraph. Each reads only inputs of the graph and results of earlier ones.
    Then each is convex and all can run one after the other.
    """
    graph = partitioning.graph
    ready = {*graph.inputs, *graph.defaults}
    homes: list[int] = []
    for subgraph in partitioning.subgraphs:
        if missing := [name for name in subgraph.inputs if name not in ready]:
            return f"subgraph {subgraph.id!r} reads {missing[0]!r} before anything has made it"
        homes += subgraph.nodes
        ready.update(subgraph.outputs)
    if sorted(homes) != sorted(graph.order):
        return "not every node is at home in one subgraph and one only"
    lost = [name for name in graph.outputs if name not in ready and name not in graph.constants]
    return f"output {lost[0]!r} of the graph is handed out by no subgraph" if lost else ""


def _time(subject: Subject) -> Finding:
    """Eight times the nodes take about eight times as long."""
    found = _time_chains(subject, None)
    if found.outcome is not Outcome.UNCLAIMED:
        return found
    substitution = substitution_of(subject)
    return _time_chains(subject, substitution) if substitution else found


def _time_chains(subject: Subject, substitution: Substitution | None) -> Finding:
    seconds: list[float] = []
    taken: tuple[str, ...] = ()
    lengths = (_SHORT, _LONG) if substitution is None else (_SHORT // _SHORTER, _LONG // _SHORTER)
    for length in lengths:
        bound = subject.bind(chain(length, substitution))
        started = time.process_time()
        partitioning = subject.partition(bound)
        seconds.append(time.process_time() - started)
        taken = subject.operators_taken(partitioning)
    short, long = seconds
    if long > _MOST_TIMES_SLOWER * short + _SLACK_SECONDS:
        text = (
            f"a chain of {lengths[0]} nodes takes {short:.2f} s to divide, one of {lengths[1]} "
            f"{long:.2f} s; expected about eight times as long"
        )
        return Finding(Outcome.FAIL_SELECT, text, taken)
    return Finding(Outcome.RIGHT if taken else Outcome.UNCLAIMED, taken=taken)
