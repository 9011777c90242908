"""How far a build is, on a terminal and elsewhere, and how it is stopped."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

from backends.tensorrt.tests.tensorrt_models import (
    blocks,
    bound,
    cut,
    needs_rtx,
    options,
    rtx,
    whole,
)
from subgraphkit.testing.light_models import light_model_path
from subgraphkit_tensorrt.building import build, progress
from subgraphkit_tensorrt.building.build import build_engine
from subgraphkit_tensorrt.building.progress import Progress, bar, monitor_for, showing
from tests.interrupting import heard

RANGES = {"batch": (1, 8, 32), "seq": (16, 128, 512)}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _half_way() -> Progress:
    told = Progress()
    told.start("Building engine", None, 4)
    told.step("Building engine", 0)
    told.start("Optimizing graph", "Building engine", 2)
    told.step("Optimizing graph", 0)
    return told


def test_a_phase_counts_for_the_step_of_its_parent_that_it_is() -> None:
    told = _half_way()
    assert told.fraction == pytest.approx((1 + 0.5) / 4)
    assert told.phase == "Optimizing graph"
    told.finish("Optimizing graph")
    told.step("Building engine", 1)
    assert told.fraction == pytest.approx(0.5)
    told.finish("Building engine")
    assert told.fraction == 1.0


def test_progress_never_falls() -> None:
    told = _half_way()
    told.finish("Optimizing graph")
    told.step("Building engine", 0)
    assert told.fraction == pytest.approx(1.5 / 4)


def test_the_rest_is_estimated_once_something_is_done() -> None:
    told = Progress()
    assert told.seconds_left() is None
    told = _half_way()
    told.started -= 30
    assert told.seconds_left() == pytest.approx(50, abs=1)
    assert re.fullmatch(
        r"x \[#{9}-{15}\] 38%, Optimizing graph, 0:30, about 0:(49|50) left", bar(told, "x")
    )


def test_on_a_terminal_there_is_a_bar_that_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REDRAW", 0.01)
    terminal = Terminal()
    with showing(_half_way(), "building", logging.getLogger("test"), stream=terminal):
        time.sleep(0.1)
    shown = terminal.getvalue()
    assert "\rbuilding [#########---" in shown
    assert shown.endswith("\r\x1b[K")


def test_elsewhere_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_HEARTBEAT", 0.02)
    with (
        caplog.at_level(logging.INFO, "test"),
        showing(_half_way(), "building", logging.getLogger("test"), stream=io.StringIO()),
    ):
        time.sleep(0.2)
    assert "building: 38%, Optimizing graph" in caplog.text


@needs_rtx
def test_a_real_build_reports_all_of_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    made: list[Progress] = []

    class Watched(Progress):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def step(self, name: str, step: int) -> None:
            super().step(name, step)
            seen.append(self.fraction)

    monkeypatch.setattr(build, "Progress", Watched)
    build_engine(cut(bound(blocks((5,))), 0), options(dims=RANGES), rtx())
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert made[0].fraction == 1.0


@needs_rtx
def test_an_error_in_a_callback_stops_the_build_and_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Progress):
        def step(self, name: str, step: int) -> None:
            raise MemoryError("in the callback")

    monkeypatch.setattr(build, "Progress", Failing)
    with pytest.raises(MemoryError, match="in the callback"):
        build_engine(cut(bound(blocks((6,))), 0), options(dims=RANGES), rtx())


@needs_rtx
def test_ctrl_c_stops_a_build_and_leaves_the_process_usable() -> None:
    subgraph = whole_model("densenet121")
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    with heard():
        timer.start()
        started = time.monotonic()
        try:
            with pytest.raises(KeyboardInterrupt):
                build_engine(subgraph, options(), rtx())
        finally:
            timer.cancel()
        assert time.monotonic() - started < 60
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert build_engine(cut(bound(blocks((7,))), 0), options(dims=RANGES), rtx()).data


def whole_model(name: str) -> Any:
    return whole(onnx.load(light_model_path(name)))


@needs_rtx
def test_a_monitor_goes_on_until_it_is_told_to_stop() -> None:
    told = _half_way()
    monitor = monitor_for(rtx().trt, told)
    assert monitor.step_complete("Optimizing graph", 1) is True
    told.cancel()
    assert monitor.step_complete("Building engine", 1) is False
    assert told.cancelled_by is None
    assert "stopping" in bar(told, "x")


@needs_rtx
def test_a_build_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(
        "import subgraphkit as sk, sys\n"
        "from subgraphkit.ir import make_subgraph\n"
        "from subgraphkit.testing.light_models import light_model_path\n"
        "from subgraphkit_tensorrt.building.build import build_engine\n"
        "from subgraphkit_tensorrt.library.flavours import find\n"
        "from subgraphkit_tensorrt.backend_options import Options\n"
        "graph = sk.bind(sk.load(light_model_path('densenet121')), backend='none')\n"
        "subgraph = make_subgraph(graph, list(graph.order), 'tensorrt')\n"
        "print('building', flush=True)\n"
        "build_engine(subgraph, Options(), find('tensorrt_rtx').library)\n"
    )
    cache = tmp_path / "cache"
    environment = {**os.environ, "SUBGRAPH_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path)}
    packages = Path(build.__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(packages), *sys.path])
    before = set(tmp_path.rglob("*"))
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "building\n"
        time.sleep(0.5)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert set(tmp_path.rglob("*")) - before <= {cache, *cache.rglob("*")}
    assert not [path for path in cache.rglob("*") if path.suffix in {".part", ".engine"}]
