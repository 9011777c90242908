"""A measuring beside a running session, in a child process, whose result the session takes over."""

import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.benching import file_of
from subgraphkit.comparing.stored_values import restore_values
from subgraphkit.configuration.config import plain_options, plain_settings, plain_value
from subgraphkit.configuration.selection import AUTO
from subgraphkit.errors import CallerError, describe_exception
from subgraphkit.logs import logger_of
from subgraphkit.onnx_io import Model
from subgraphkit.partitioning import Constraints, Partitioning, partition
from subgraphkit.partitioning.constraints import all_demands
from subgraphkit.partitioning.placements import find_placement
from subgraphkit.partitioning.plan_files import Placement, placement_of
from subgraphkit.placing.tuning import tune
from subgraphkit.planning import plan
from subgraphkit.processes import Child, NoAnswer
from subgraphkit.running import Session

_logger: Final = logger_of("placement")

# Settings that are not handed to the child, or not as they are.
_OWN: Final = frozenset({"backend", "tune", "verbose", "plugins"})

_OPENING_SECONDS: Final = 1800.0
_NICENESS: Final = 10


def wanted_tuning(bound: BoundModel, constraints: Constraints | None) -> str:
    """Return when a session is to measure: ``"first"``, ``"background"``, or ``"off"``.

    It is off for named backends, pinned nodes and required shares, and once a measuring was
    complete.
    """
    settings = bound.settings
    is_open = settings.auto is not None and settings.auto.plan is None
    if not is_open or settings.require or all_demands(settings, constraints) is not None:
        _logger.info("tune=%r measures for backend='auto' without demands alone", settings.tune)
        return "off"
    found = find_placement(bound, settings)
    is_known = found is not None and found.figures.get("complete", True)
    return "off" if is_known else settings.tune


def tune_in_child(bound: BoundModel, progress: Progress | None) -> Partitioning:
    """Measure here and now, and return the partitioning that won.

    Where no arrays can be made up for the inputs nothing is measured, with a warning. The best so
    far is kept in the cache when KeyboardInterrupt stops it.
    """
    try:
        found = tune(bound, seconds=bound.settings.tune_seconds, progress=progress).placement
    except CallerError as error:
        _logger.warning("nothing was measured: %s", error.message)
        return partition(bound)
    if not found.figures.get("complete", True):
        raise KeyboardInterrupt
    return partition(bound, found)


class BackgroundTuning:
    """Measures the model of a session in a child process, then gives the session the winner.

    The session goes on as it is if anything fails.

    Thread-safety: all methods may be called from any thread.
    """

    def __init__(
        self, session: Session, source: Any, shapes: Any, before: Callable[[], object] | None = None
    ) -> None:
        self._session = weakref.ref(session)
        self._before = before
        self.state = "measuring"
        self._job = {
            "shapes": plain_value(shapes),
            "options": plain_options(session.graph.settings),
            "settings": plain_settings(session.graph.settings, _OWN),
        }
        self._folder = tempfile.TemporaryDirectory(prefix="subgraphkit-tune-")
        self._child: Child | None = None
        self._lock = threading.RLock()  # the session may be collected inside, which stops it
        self._thread = threading.Thread(target=self._work, args=(source,), daemon=True)
        # also when the session is forgotten, or the interpreter ends
        self._end = weakref.finalize(session, self._stop)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; return whether it has."""
        self._thread.join(seconds)
        return self.ready

    def stop(self) -> None:
        """End the child; only findings so far are kept."""
        self._end()

    def _stop(self) -> None:
        with self._lock:
            if self.state == "measuring":
                self.state = "stopped"
            child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _work(self, source: Any) -> None:
        try:
            with self._folder as folder:
                state = self._improve(self._measure_in_child(source, Path(folder)))
        except NoAnswer as gone:
            state = self._note_failure(f"its process ended with status {gone.code}")
        except Exception as error:  # noqa: BLE001 (the session runs on in any case)
            state = self._note_failure(describe_exception(error))
        with self._lock:
            if self.state == "measuring":
                self.state = state
        self._stop()

    def _note_failure(self, why: str) -> str:
        if self.state == "measuring":
            _logger.warning("measuring in the background failed, the session stays: %s", why)
        return "failed"

    def _measure_in_child(self, source: Any, folder: Path) -> Placement:
        """Let a child process measure and return the winner."""
        if isinstance(source, Model):
            if source.path is None and source.taken_out:
                raise RuntimeError("the model is in no file that another process could read")
            source = source.path or source.proto
        job = {**self._job, "model": file_of(source, folder)}
        with self._lock:
            if self.state != "measuring":
                raise NoAnswer(None)
            child = self._child = Child()
        return placement_of(child.call(measure_placement, job, timeout=_OPENING_SECONDS))

    def _improve(self, placement: Placement) -> str:
        if self._before is not None:
            self._before()
        session = self._session()
        if session is None or self.state != "measuring":
            return "stopped"
        partitioning = partition(session.graph, placement)
        if partitioning == session.partitioning:
            return "kept"
        session.exchange(plan(partitioning))
        backends = ", ".join(partitioning.backends)
        _logger.info("measured in the background: runs on %s from now on", backends)
        return "exchanged"


def measure_placement(job: Mapping[str, Any]) -> Any:
    """Measure a model beside the run of others; return the placement, as JSON has it.

    ``job``: The ``model``, its ``shapes``, ``options`` and ``settings``; a benchmark adds the
    folder of its ``feeds``.
    """
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    told = {**job["settings"], "backend": AUTO, "options": job["options"]}
    bound = bind(job["model"], job["shapes"], **told)
    feeds = restore_values(Path(job["feeds"])) if "feeds" in job else None
    return tune(bound, seconds=bound.settings.tune_seconds, feeds=feeds).placement.to_json()
