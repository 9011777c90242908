"""Counters and histograms of Prometheus for what sessions do; needs ``prometheus-client``.

``python prometheus_metrics.py MODEL`` runs a model once and prints the metrics. Your application
calls ``register_extension(Metrics())``, and serves these metrics with its own.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    generate_latest,
)

import subgraphkit
from subgraphkit.backend.hookspecs import CompileEvent, FallbackEvent, RunEvent, StepEvent, hookimpl
from subgraphkit.comparing import make_feeds

_SECONDS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_Metric = TypeVar("_Metric")


class Metrics:
    """An extension that counts and times runs, steps, compiling and fallbacks.

    The names are ``subgraphkit_run_seconds`` (a histogram), ``subgraphkit_runs_in_progress``,
    ``subgraphkit_run_errors_total``, ``subgraphkit_step_seconds``, ``subgraphkit_compile_seconds``
    and ``subgraphkit_fallbacks_total``. The number of a session is no label, since a process that
    opens sessions for ever would have ever more time series; sessions of one model add up.

    Args:
        registry: Where they are kept. One registry takes one ``Metrics``.

    Thread-safety: safe.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def made(
            kind: Callable[..., _Metric], name: str, labels: str, words: str, **how: Any
        ) -> _Metric:
            return kind(f"subgraphkit_{name}", words, labels.split(), registry=registry, **how)

        self._runs = made(
            Histogram,
            "run_seconds",
            "model",
            "How long runs took, those that failed included",
            buckets=_SECONDS,
        )
        self._under_way = made(Gauge, "runs_in_progress", "model", "Runs under way")
        self._errors = made(
            Counter,
            "run_errors",
            "model subgraph error",
            "Runs that failed, by the subgraph that did, if one did, and the type of the error",
        )
        where = "model subgraph backend"
        self._steps = made(Summary, "step_seconds", where, "How long subgraphs took in runs")
        self._compiled = made(
            Summary,
            "compile_seconds",
            "model backend from_cache",
            "How long subgraphs took to compile, or to restore from the cache",
        )
        self._fallbacks = made(
            Counter,
            "fallbacks",
            "model backend target level code",
            "How often something ran, or was to run, elsewhere than asked",
        )

    @hookimpl
    def subgraphkit_run_start(self, event: RunEvent) -> None:
        """Count a run that is under way."""
        self._under_way.labels(event.model).inc()

    @hookimpl
    def subgraphkit_step(self, event: StepEvent) -> None:
        """Add a step."""
        self._steps.labels(event.model, event.subgraph, event.backend).observe(event.seconds)

    @hookimpl
    def subgraphkit_run_end(self, event: RunEvent) -> None:
        """Add a run, and its error if it has one."""
        self._under_way.labels(event.model).dec()
        self._runs.labels(event.model).observe(event.seconds or 0.0)
        if event.error is not None:
            kind = event.error.partition(":")[0]
            self._errors.labels(event.model, event.subgraph, kind).inc()

    @hookimpl
    def subgraphkit_compiled(self, event: CompileEvent) -> None:
        """Add a subgraph that was compiled or restored."""
        from_cache = str(event.from_cache).lower()
        self._compiled.labels(event.model, event.backend, from_cache).observe(event.seconds)

    @hookimpl
    def subgraphkit_fallback(self, event: FallbackEvent) -> None:
        """Count a fallback."""
        asked = (event.model, event.backend, event.target, event.level, event.code)
        self._fallbacks.labels(*asked).inc()


def main(model: str) -> None:
    """Run a model once, and print what Prometheus would fetch."""
    subgraphkit.register_extension(Metrics())
    with subgraphkit.InferenceSession(model) as session:
        feeds = make_feeds(session.plan.graph, {}, 0)
        session.run(None, {name: feed.array for name, feed in feeds.items()})
    subgraphkit.unregister_extension("Metrics")
    sys.stdout.write(generate_latest().decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
