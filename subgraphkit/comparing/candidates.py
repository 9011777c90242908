"""A candidate of a benchmark, measured in a process of its own: started, asked, survived."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final, Self

from subgraphkit.backend.messages import PLACEMENT_LOG
from subgraphkit.binding import bind
from subgraphkit.comparing.benchmark import Schedule
from subgraphkit.comparing.messages import crashed_child, hung_child
from subgraphkit.comparing.stored_values import restore_values, store_values
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.opening import result_tolerances
from subgraphkit.planning import plan
from subgraphkit.processes import Child, NoAnswer
from subgraphkit.processes.memory import peak_bytes, resident_bytes
from subgraphkit.running import Session
from subgraphkit.types import DataType

_MOST_RUNS: Final = 1000


class MeasuredCandidate:
    """A model that is bound on a selection of backends, and measured.

    ``job``: The ``model`` and the folders of its ``feeds`` and ``results``; the ``selection``, the
    ``threads`` and other ``settings``.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        PLACEMENT_LOG.disabled = True  # its message is in the answer
        self._results = Path(job["results"])
        self._before = resident_bytes()
        self._feeds = restore_values(Path(job["feeds"]))
        # another backend's time in its place is not its own
        settings = {"threads": job["threads"], **job["settings"], "on_run_error": "raise"}
        started = time.perf_counter()
        self._plan = plan(bind(job["model"], backend=job["selection"], **settings))
        self._session = Session(self._plan)
        self._bind_seconds = time.perf_counter() - started

    def facts(self) -> dict[str, Any]:
        """Return the facts before the first run."""
        graph = self._plan.graph
        shortfall = self._plan.partitioning.shortfall()
        allowed = result_tolerances(self._plan.partitioning.backends, graph, graph.settings)
        return {
            "model": graph.name,
            "selection": ",".join(map(str, graph.settings.backends)) or "none",
            "tolerances": {one.label: astuple(allowed(one)) for one in DataType},
            "max_error": graph.settings.max_error,
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
        """Return the peak of resident memory, less the memory at the start."""
        peak, before = peak_bytes(), self._before
        return {"bytes": None if peak is None or before is None else max(0, peak - before)}

    def close(self) -> None:
        """Close the session."""
        self._session.close()


_VARIABLES: Final = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "TVM")]
"""Variables that tell libraries how many threads to use, before they start any."""

_PATIENCE_AT_THE_END: Final = 10.0


class BenchEntry:
    """A child process that binds a model on a selection of backends, with the facts on it.

    ``selection``: Its backends; None for the configured ones.
    ``schedule``: The number of threads for libraries, and how long an answer may take.
    ``failed``: Why it is out, in the words of ``Measured``; empty unless it is.

    Thread-safety: used by one thread.
    """

    def __init__(
        self, selection: str | None, job: Mapping[str, Any], folder: Path, schedule: Schedule
    ) -> None:
        self.results = folder / "results"
        self.facts: dict[str, Any] = {}
        self.turns: list[dict[str, Any]] = []
        self.failed: dict[str, Any] = {}
        self._called = selection or "as configured"
        self._selection, self._seconds = selection, schedule.timeout_seconds
        folder.mkdir()
        self._job = {**job, "selection": selection, "results": os.fspath(self.results)}
        threads = schedule.threads
        variables = {} if threads is None else dict.fromkeys(_VARIABLES, str(threads))
        self._process = Child(variables)

    @property
    def label(self) -> str:
        """Its backends, as given or, where nothing was, as it has told."""
        return self._selection or str(self.facts.get("selection", self._called))

    def bind(self) -> None:
        """Bind the model, and learn the facts before the first run."""
        self.ask(MeasuredCandidate, self._job, doing="binding the model")
        self.facts |= self.ask(MeasuredCandidate.facts, doing="binding the model")

    def ask(self, function: Callable[..., Any], *plain: Any, doing: str) -> dict[str, Any]:
        """Call a method of the candidate in its process; return its result."""
        if self.failed:
            return {}
        error: SubgraphkitError
        try:
            return self._process.call(function, *plain, timeout=self._seconds) or {}
        except NoAnswer as gone:
            error = hung_child(self._called, doing, self._seconds)
            if gone.code is not None:
                error = crashed_child(self._called, doing, gone.code)
        except SubgraphkitError as failure:
            error = failure
        failed = {"code": error.code, "kind": type(error).__name__, "text": str(error)}
        self.failed = {**failed, "printed": self._process.printed()}
        return {}

    def __enter__(self) -> Self:
        """Return the candidate, which is stopped on leaving."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the session, and see the process off."""
        if kind is None and not self.failed:
            with suppress(NoAnswer, SubgraphkitError):  # it is measured
                self._process.call(MeasuredCandidate.close, timeout=_PATIENCE_AT_THE_END)
        self._process.stop(_PATIENCE_AT_THE_END if kind is None else 0)
