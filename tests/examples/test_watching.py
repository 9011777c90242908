"""Sessions that are watched through the packages of OpenTelemetry and Prometheus themselves."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer
from prometheus_client import CollectorRegistry, generate_latest

import subgraphkit as sk
from subgraphkit.backend import Traits
from tests.fakes import ReferenceOperator, claiming, extended
from tests.models import CHAIN, parsed
from tests.scripts import EXAMPLES, load_script, run_python

SPANS = EXAMPLES / "watching" / "opentelemetry_spans.py"
METRICS = EXAMPLES / "watching" / "prometheus_metrics.py"


class Watched:
    """What the two libraries collected; opens the sessions that they watch."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer: Tracer = provider.get_tracer("the application")
        self.registry = CollectorRegistry()

    def spans(self, name, session=None):
        return [
            span
            for span in self.exporter.get_finished_spans()
            if span.name == f"subgraphkit.{name}"
            and (session is None or facts(span)["session"] == session)
        ]

    def sample(self, name, **labels):
        return self.registry.get_sample_value(f"subgraphkit_{name}", labels) or 0.0


def facts(span):
    given = span.attributes or {}
    return {name.removeprefix("subgraphkit."): value for name, value in given.items()}


def children(watched, run):
    mine = [one for one in watched.spans("step") if one.parent == run.context]
    return sorted(mine, key=lambda one: one.start_time or 0)


@pytest.fixture
def watched():
    found = Watched()
    tracing = extended(load_script(SPANS).Tracing(found.tracer), "Tracing")
    with tracing, extended(load_script(METRICS).Metrics(found.registry), "Metrics"):
        yield found


class Failing(ReferenceOperator):
    """Fails on what is negative."""

    traits = Traits(thread_safe=True)

    def run(self, inputs, outputs=None):
        if (inputs[0] < 0).any():
            raise ZeroDivisionError("a kernel divided by zero")
        return super().run(inputs, outputs)


def feeds(value):
    return {"x": np.full((2, 4), value, np.float32)}


def test_a_run_is_a_span_below_that_of_its_caller_and_above_its_steps(watched):
    session = sk.InferenceSession(parsed(CHAIN), [claiming(["Neg"], "one")])
    with watched.tracer.start_as_current_span("a request"):
        session.run(None, feeds(1))
    session.run(None, feeds(1))
    request = next(one for one in watched.exporter.get_finished_spans() if one.name == "a request")
    first, second = watched.spans("run")
    assert (first.parent, second.parent) == (request.context, None)
    assert facts(first) == {"model": "chain", "session": session.number, "run": 0}
    for run in (first, second):
        steps = children(watched, run)
        assert [facts(one)["subgraph"] for one in steps] == ["numpy_0", "one_1", "numpy_2"]
        assert [facts(one)["backend"] for one in steps] == ["numpy", "one", "numpy"]
        times = [
            run.start_time,
            *(t for s in steps for t in (s.start_time, s.end_time)),
            run.end_time,
        ]
        assert all(before <= after for before, after in pairwise(t or 0 for t in times))
    compiled = watched.spans("compile", session.number)
    assert [facts(one)["subgraph"] for one in compiled] == ["numpy_0", "one_1", "numpy_2"]
    assert (
        facts(compiled[1]).items()
        >= {"backend": "one", "node_count": 1, "from_cache": False}.items()
    )
    assert watched.sample("run_seconds_count", model="chain") == 2
    assert watched.sample("step_seconds_count", model="chain", subgraph="one_1", backend="one") == 2
    assert (
        watched.sample("compile_seconds_count", model="chain", backend="numpy", from_cache="false")
        == 2
    )
    assert b'subgraphkit_run_seconds_bucket{le="10.0",model="chain"} 2.0' in generate_latest(
        watched.registry
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [(SPANS, '"name": "subgraphkit.step"'), (METRICS, "subgraphkit_run_seconds_count{model=")],
    ids=["spans", "metrics"],
)
def test_each_example_is_a_program_that_shows_a_run(script, words, tmp_path):
    onnx.save(parsed(CHAIN), tmp_path / "model.onnx")
    shown = run_python(str(script), "model.onnx", site=tmp_path, folder=tmp_path).stdout
    assert words in shown
