"""Arranging loops by measurement, with TVM's MetaSchedule, and remembering what was found."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import BindContext, option_out_of_range
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.logs import logger_of
from subgraphkit_tvm.backend_options import Options
from subgraphkit_tvm.library import tvm

_logger = logger_of("backend")

_NEEDED: Final = ("cloudpickle", "psutil", "xgboost")
"""What MetaSchedule imports, and apache-tvm does not install: worker processes, cost model."""

_JSON_CHECK: Final = """
import tvm
from tvm import te
x = te.placeholder((4,), name="x")
y = te.compute((4,), lambda i: x[i] + 1.0)
tvm.ir.save_json(tvm.IRModule({"main": te.create_prim_func([x, y])}))
"""
"""apache-tvm 0.27.0.post1 was built against apache-tvm-ffi 0.1.14 and crashes here with 0.1.15."""

_PER_ROUND: Final = 16
_PATIENCE: Final = 300
"""Seconds a worker process has for a trial, the first of which imports TVM."""

_META_SCHEDULE: Final = "s_tir.meta_schedule"

Tune = Callable[[Any, Any], Any]
"""From a fused module and a target to the module with loops arranged by measurement."""


def require_tunable(backend: str, options: Options) -> None:
    """Refuse tuning without libraries (SGK104) or a directory (OptionError, SGK112)."""
    if options.tuning == "none":
        return
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise BackendUnavailableError(
            "SGK104",
            f"backend {backend!r} cannot tune: {', '.join(missing)} not installed, expected for "
            "tuning='metaschedule'",
            backend=backend,
            hint="pip install 'subgraphkit-tvm[tuning]', or leave the option tuning at 'none'.",
        )
    if options.tuning_dir is None:
        wanted = "a directory with tuning='metaschedule'"
        raise option_out_of_range(backend, "tuning_dir", "not given", wanted)


def make_tuner(context: BindContext[Options]) -> Tune | None:
    """Return what tunes, None if not to; BackendUnavailableError (SGK104) if it cannot record."""
    options = context.options
    folder = options.tuning_dir
    if options.tuning == "none" or folder is None:
        return None
    _require_json()
    return partial(_tune, folder=folder, trials=options.tuning_trials, context=context)


@cache
def _json_works() -> bool:
    done = subprocess.run(  # noqa: S603 (the interpreter itself, on a text of ours)
        [sys.executable, "-c", _JSON_CHECK], capture_output=True, check=False, timeout=600
    )
    return done.returncode == 0


def _require_json() -> None:
    """Try in a child process what records are written with, since a failure ends the process."""
    if not _json_works():
        raise BackendUnavailableError(
            "SGK104",
            f"backend 'tvm' cannot tune: TVM {tvm().__version__} breaks down when it writes "
            f"records with apache-tvm-ffi {version('apache-tvm-ffi')}",
            backend="tvm",
            hint="pip install 'apache-tvm-ffi<0.1.15', or leave the option tuning at 'none'.",
        )


def _tune(
    module: Any, target: Any, folder: Path, trials: int, context: BindContext[Options]
) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    schedules = tvm(_META_SCHEDULE)
    database = schedules.database.JSONDatabase(work_dir=str(folder))
    extracted = schedules.relax_integration.extract_tasks(module, target)
    if tasks := _untuned_tasks(extracted, target, database):
        _logger.info("tvm: tuning %d kernels, %d trials each", len(tasks), trials)
        _measure(tasks, folder, database, trials, context)
        if failed := len(_untuned_tasks(tasks, target, database)):
            told = "tvm: %d of %d kernels stay untuned, since no trial of theirs ran; see %s"
            _logger.warning(told, failed, len(tasks), folder / "logs")
    with target, database:
        return tvm("relax.transform").MetaScheduleApplyDatabase()(module)


def _untuned_tasks(tasks: Iterable[Any], target: Any, database: Any) -> list[Any]:
    """Find the kernels of which the database has no trial that ran."""
    record = database.query_tuning_record
    return [one for one in tasks if record(one.dispatched[0], target, one.task_name) is None]


def _measure(
    tasks: Any, folder: Path, database: Any, trials: int, context: BindContext[Options]
) -> None:
    schedules = tvm(_META_SCHEDULE)
    contexts, weights = schedules.relax_integration.extracted_tasks_to_tune_contexts(
        tasks, work_dir=str(folder)
    )
    callbacks = schedules.measure_callback.MeasureCallback.create("default")
    schedules.tune_tasks(
        tasks=contexts,
        task_weights=weights,
        work_dir=str(folder),
        max_trials_global=len(contexts) * trials,
        max_trials_per_task=trials,
        num_trials_per_iter=min(trials, _PER_ROUND),
        builder=schedules.builder.LocalBuilder(timeout_sec=_PATIENCE),
        runner=schedules.runner.LocalRunner(timeout_sec=_PATIENCE),
        database=database,
        measure_callbacks=[*callbacks, _counting(context, len(tasks) * trials)],
    )


def _counting(context: BindContext[Options], total: int) -> Any:
    """Make a callback of MetaSchedule that counts measurements."""
    callbacks, done = tvm(f"{_META_SCHEDULE}.measure_callback"), 0

    class Counting(callbacks.PyMeasureCallback):  # type: ignore[misc, name-defined, unused-ignore]  # late
        def apply(
            self, scheduler: Any, task: int, candidates: Any, builds: Any, found: Any
        ) -> None:
            nonlocal done
            del scheduler, task, candidates, builds
            done += len(found)
            context.progress("tuning", done, total)

    return tvm("ir.utils").derived_object(Counting)()
