"""Spans of OpenTelemetry for what sessions do; needs ``pip install opentelemetry-sdk``.

``python opentelemetry_spans.py MODEL`` runs a model once and prints the spans. Your application
calls ``register_extension(Tracing())``, and exports these spans with its own.
"""

import sys
import time
from typing import Any, Final, NamedTuple

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import subgraphkit
from subgraphkit.backend.hookspecs import (
    CompileEvent,
    Event,
    FallbackEvent,
    RunEvent,
    StepEvent,
    hookimpl,
)
from subgraphkit.comparing import make_feeds

_ATTRIBUTES: Final = (
    "model",
    "session",
    "run",
    "subgraph",
    "backend",
    "node_count",
    "from_cache",
    "level",
    "target",
    "code",
    "reason",
)


class _OpenRun(NamedTuple):
    span: trace.Span
    attached: Any
    epoch: int


class Tracing:
    """An extension that makes a span of each run, with its steps as children.

    A run's span is a child of whatever span is current where ``run`` is called, and is current
    itself until the run ends. Each subgraph compiled is a span, and so is each fallback, of no
    length. Attributes are those of the events: ``subgraphkit.model``, ``subgraphkit.session``,
    ``subgraphkit.subgraph``, ``subgraphkit.backend`` and so on. What failed has the status of an
    error, and an event ``exception`` with type and message.

    Args:
        tracer: Makes the spans; the application's own if not given.

    Thread-safety: safe; each run is known by its session and its number.
    """

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("subgraphkit", subgraphkit.__version__)
        self._runs: dict[tuple[int, int], _OpenRun] = {}

    @hookimpl
    def subgraphkit_run_start(self, event: RunEvent) -> None:
        """Begin the span of a run."""
        epoch = time.time_ns() - time.perf_counter_ns()
        span = self._begun("subgraphkit.run", event, epoch + _nanoseconds(event.start))
        attached = context.attach(trace.set_span_in_context(span))
        self._runs[event.session, event.run] = _OpenRun(span, attached, epoch)

    @hookimpl
    def subgraphkit_step(self, event: StepEvent) -> None:
        """Add the span of a step to that of its run."""
        open_run = self._runs[event.session, event.run]
        inside = trace.set_span_in_context(open_run.span)
        start = open_run.epoch + _nanoseconds(event.start)
        step = self._begun("subgraphkit.step", event, start, inside)
        _end(step, start + _nanoseconds(event.seconds), event.error)

    @hookimpl
    def subgraphkit_run_end(self, event: RunEvent) -> None:
        """End the span of a run."""
        span, attached, epoch = self._runs.pop((event.session, event.run))
        context.detach(attached)
        span.set_attributes(_attributes(event))  # by now it is known which subgraph failed
        _end(span, epoch + _nanoseconds(event.start + (event.seconds or 0.0)), event.error)

    @hookimpl
    def subgraphkit_compiled(self, event: CompileEvent) -> None:
        """Make the span of a subgraph that was compiled or restored just now."""
        now = time.time_ns()
        self._begun("subgraphkit.compile", event, now - _nanoseconds(event.seconds)).end(now)

    @hookimpl
    def subgraphkit_fallback(self, event: FallbackEvent) -> None:
        """Make a span of no length of nodes that run elsewhere."""
        now = time.time_ns()
        self._begun("subgraphkit.fallback", event, now).end(now)

    def _begun(
        self, name: str, event: Event, start: int, parent: context.Context | None = None
    ) -> trace.Span:
        attributes = _attributes(event)
        return self._tracer.start_span(name, parent, attributes=attributes, start_time=start)


def _attributes(event: Event) -> dict[str, str | int]:
    known = ((name, getattr(event, name, "")) for name in _ATTRIBUTES)
    return {f"subgraphkit.{name}": value for name, value in known if value != ""}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _end(span: trace.Span, end: int, error: str | None) -> None:
    if error is not None:
        kind, _, message = error.partition(": ")
        described = {"exception.type": kind, "exception.message": message}
        span.add_event("exception", described, timestamp=end)
        span.set_attribute("error.type", kind)
        span.set_status(trace.StatusCode.ERROR, error)
    span.end(end)


def main(model: str) -> None:
    """Run a model once below a span of the application's, and print all spans."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    tracer = provider.get_tracer("the application")
    subgraphkit.register_extension(Tracing(tracer))
    with subgraphkit.InferenceSession(model) as session:
        feeds = make_feeds(session.plan.graph, {}, 0)
        with tracer.start_as_current_span("answer a request"):
            session.run(None, {name: feed.array for name, feed in feeds.items()})
    subgraphkit.unregister_extension("Tracing")


if __name__ == "__main__":
    main(*sys.argv[1:])
