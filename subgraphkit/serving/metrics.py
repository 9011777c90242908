"""Counts of a server, in the format of Prometheus, by its own client library."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from subgraphkit.backend.hookspecs import StepEvent, hookimpl
from subgraphkit.serving.live_model import LiveModel

_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


class Metrics:
    """Requests by model and status, errors by code, and the counts of sessions.

    An extension, if registered before sessions are opened; then it knows the time of regions.

    Thread-safety: safe.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._steps: dict[tuple[int, str, str], float] = {}
        self._lock = threading.Lock()
        made: dict[str, Any] = {"namespace": "subgraphkit", "registry": self._registry}
        self._requests = Counter(
            "requests", "Requests, by HTTP status.", ["model", "status"], **made
        )
        self._errors = Counter(
            "errors", "Requests that failed, by code.", ["model", "code"], **made
        )
        self._seconds = Histogram(
            "request_seconds", "Time of requests that were answered.", ["model"], **made,
            buckets=_SECONDS,
        )  # fmt: skip

    def count(self, model: str, status: int, seconds: float, code: str = "") -> None:
        """Count a request that is over."""
        self._requests.labels(model, status).inc()
        if code:
            self._errors.labels(model, code).inc()
        else:
            self._seconds.labels(model).observe(seconds)

    @hookimpl
    def subgraphkit_step(self, event: StepEvent) -> None:
        """Add the time of a region."""
        with self._lock:
            place = event.session, event.backend, event.subgraph
            self._steps[place] = self._steps.get(place, 0.0) + event.seconds

    def text(self, models: Iterable[tuple[str, LiveModel]]) -> bytes:
        """Return all counts, with those of sessions as they are now."""
        now, listed = CollectorRegistry(), list(models)
        names = {model.session.number: name for name, model in listed}
        with self._lock:
            for key in [one for one in self._steps if one[0] not in names]:
                del self._steps[key]
            steps = {(names[one], *rest): s for (one, *rest), s in self._steps.items()}
        now.register(_Sessions(listed, steps))
        return generate_latest(self._registry) + generate_latest(now)


class _Sessions:
    def __init__(self, models: list[tuple[str, LiveModel]], steps: dict[Any, float]) -> None:
        self._models, self._steps = models, steps

    def collect(self) -> Iterator[Metric]:
        """Read the sessions, as Prometheus' library asks for it."""
        info = GaugeMetricFamily("subgraphkit_model", "Models served.", labels=["model", "version"])
        busy = GaugeMetricFamily("subgraphkit_requests_open", "In work.", labels=["model"])
        waiting = GaugeMetricFamily("subgraphkit_runs_waiting", "For a turn.", labels=["model"])
        runs = CounterMetricFamily("subgraphkit_runs", "Runs of a session.", labels=["model"])
        seconds = CounterMetricFamily("subgraphkit_run_seconds", "Their time.", labels=["model"])
        for name, model in self._models:
            stats = model.session.stats()
            info.add_metric([name, model.version], 1)
            busy.add_metric([name], model.busy)
            waiting.add_metric([name], model.session.waiting)
            runs.add_metric([name], stats.runs)
            seconds.add_metric([name], stats.seconds)
        where = ["model", "backend", "region"]
        steps = CounterMetricFamily("subgraphkit_region_seconds", "Time of regions.", labels=where)
        for labels, took in self._steps.items():
            steps.add_metric(labels, took)
        yield from (info, busy, waiting, runs, seconds, steps)
