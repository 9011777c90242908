"""One candidate of a benchmark, in a process of its own, which takes a turn when it is called.

Memory is that of this process, and a backend that crashes ends this process alone.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.notices import PLACEMENT_LOG
from subgraphkit.binding import bind
from subgraphkit.comparing.stored_values import restore_values, store_values
from subgraphkit.comparing.verification import planned
from subgraphkit.finding.opening import declared_tolerances
from subgraphkit.loading import load
from subgraphkit.planning import Plan
from subgraphkit.processes.memory import peak_bytes, resident_bytes
from subgraphkit.running import Session

_MOST_RUNS: Final = 1000


class MeasuredContender:
    """A model that is bound on a selection of backends, and measured.

    ``job``: The ``model`` and the folders of its ``feeds`` and ``results``; the ``selection``, the
    ``threads`` and other ``settings``.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        PLACEMENT_LOG.disabled = True  # what it would say is in the answer
        self._results = Path(job["results"])
        self._before = resident_bytes()
        self._feeds = restore_values(Path(job["feeds"]))
        started = time.perf_counter()
        self._plan = _planned(job)
        self._session = Session(self._plan)
        self._bind_seconds = time.perf_counter() - started

    def facts(self) -> dict[str, Any]:
        """Return what is known before the first run."""
        settings = self._plan.graph.settings
        shortfall = self._plan.partitioning.shortfall()
        declared = declared_tolerances(self._plan.partitioning.backends, settings)
        return {
            "model": self._plan.graph.name,
            "selection": ",".join(map(str, settings.backends)) or "none",
            "tolerances": declared.tolerances,
            "bind_seconds": self._bind_seconds,
            "warning": "" if shortfall is None else str(shortfall),
            "subgraphs": [
                {"id": one.id, "backend": one.backend, "nodes": len(one.nodes)}
                for one in (step.subgraph for step in self._plan.steps)
            ],
        }

    def first(self, warmup: int) -> dict[str, Any]:
        """Run for the first time and keep the results; then warm up."""
        started = time.perf_counter()
        results = self._session.run(None, self._feeds)
        seconds = time.perf_counter() - started
        names = self._plan.graph.outputs
        store_values(dict(zip(names, results, strict=True)), self._results)
        del results
        for _ in range(warmup):
            self._session.run(None, self._feeds)
        return {"first_seconds": seconds}

    def turn(self, runs: int, seconds: float) -> dict[str, Any]:
        """Run once to wake up, some counted times, and once with clocks around the operators."""
        run, feeds = self._session.run, self._feeds
        run(None, feeds)
        taken: list[float] = []
        began = time.perf_counter()
        while len(taken) < runs or time.perf_counter() - began < seconds:
            started = time.perf_counter()
            results = run(None, feeds)
            taken.append(time.perf_counter() - started)
            del results
            if len(taken) >= _MOST_RUNS:
                break
        with self._session.profile(1, inside=False) as profile:
            run(None, feeds)
        whole, inside = profile.walls[0], profile.subgraph_seconds
        return {"seconds": taken, "clocked": whole, "subgraphs": inside}

    def memory(self) -> dict[str, Any]:
        """Return by how much the peak of resident memory is above what was there at first."""
        peak = peak_bytes()
        known = peak is not None and self._before is not None
        return {"bytes": max(0, (peak or 0) - (self._before or 0)) if known else None}

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def _planned(job: Mapping[str, Any]) -> Plan:
    settings = {"threads": job["threads"], **job["settings"]}
    model = load(job["model"], data_roots=settings.get("data_roots"))
    # what another backend has computed in its place is not its own time
    return planned(bind(model, backend=job["selection"], **settings | {"on_run_error": "raise"}))
