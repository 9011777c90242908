"""``check_backend``: naming what is to be tested, and children that end badly."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subgraphkit.errors import ConfigError
from subgraphkit.finding.registry import registered
from subgraphkit.testing import Outcome, check_backend, checking
from subgraphkit.testing.children import Pool
from tests.faulty import SleepsInRun, WrongDtype
from tests.faulty.wrapping import WrappingBackend
from tests.house.tree import ROOT
from tests.interrupting import heard

pytestmark = pytest.mark.usefixtures("ready_children")

FAULTY = "tests.faulty"


@pytest.mark.parametrize(("backend", "options"), [
    ("numpy:max_loop_iterations=9", None),
    ("numpy@subgraphkit-numpy", {"max_loop_iterations": 9}),
    ("loopback", None),
    (WrappingBackend, None),
    ("tests.faulty.wrapping:WrappingBackend", None),
])  # fmt: skip
def test_a_backend_may_be_named_in_several_ways(backend, options):
    (finding,) = check_backend(backend, 2, options=options, only="L2/chain")  # type: ignore[arg-type]
    assert finding.outcome is Outcome.RIGHT


def test_a_backend_registered_by_a_call_is_found_by_the_children():
    with registered(WrongDtype):
        (finding,) = check_backend("faulty", 2, only="L2/one_node")
    assert finding.outcome is Outcome.FAIL_DTYPE


def test_a_wrong_dtype_is_caught_at_the_boundary_with_its_code_and_subgraph():
    (finding,) = check_backend(WrongDtype, 2, only="L2/one_node")
    assert finding.detail.startswith("[SGK132] subgraph 'faulty_0' on backend 'faulty' returned")
    assert "dtype float64 for 'y', expected float32" in finding.detail


def test_a_class_that_no_process_can_import_is_an_error_at_once():
    class Local(WrappingBackend):
        pass

    with pytest.raises(ConfigError, match="cannot be imported by a process of its own"):
        check_backend(Local)


@pytest.mark.parametrize("level", [-1, 8])
def test_a_level_that_does_not_exist_is_an_error_at_once(level):
    with pytest.raises(ConfigError, match=f"no level {level}"):
        check_backend("numpy", level)


def test_nothing_is_tried_on_a_backend_that_cannot_be_probed(monkeypatch):
    monkeypatch.setattr(checking, "_MOST_CHILDREN", 1)
    target = "tests.faulty:RaisesInProbe"
    levels = {finding.level for finding in check_backend(target, 2)}
    assert levels == {0}


@pytest.fixture
def pool():
    made = Pool({"target": f"{FAULTY}:{SleepsInRun.__name__}"}, 1)
    yield made
    made.close()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for children in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_ended_stops_its_children_and_keeps_what_it_found(number, tmp_path):
    asked = ("tests.unit.testing.troubled:Troubled", "--only", "L2/*", "--json")
    with heard():
        running = _started(tmp_path, *asked)
    try:
        assert running.stderr is not None
        assert running.stderr.readline()  # which names the first that is wrong
        children = _children_of(running.pid)
        running.send_signal(number)
        printed, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130
    assert said.splitlines()[-1].startswith("error: ")
    assert children
    assert not [pid for pid in children if _is_alive(pid)]
    found = json.loads(printed)["data"]
    assert (found["passed"], found["cut_short"]) == (False, "interrupted")
    assert "cut short: interrupted" in found["headline"]
    assert found["findings"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for children in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_kit_that_is_stopped_leaves_no_process_behind(number, tmp_path):
    """Not even the process that a case has started, in which the backend never returns."""
    running = _started(tmp_path, "tests.faulty:SleepsInRun", "--only", "L1/keeps_to_one_thread")
    try:
        started = _grandchildren_of(running.pid)
        running.send_signal(number)
        running.communicate(timeout=30)
    finally:
        running.kill()
    assert started
    deadline = time.monotonic() + 10
    while any(map(_is_alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in started if _is_alive(pid)]


def _started(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "subgraphkit", "author", "test", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SUBGRAPH_CACHE_DIR": str(folder / "c")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _grandchildren_of(pid):
    """Wait for the children of children, and return all of both."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = _children_of(pid)
        if others := [other for one in children for other in _children_of(one)]:
            return [*children, *others]
        time.sleep(0.05)
    return []


def _children_of(pid):
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in listed for child in one.read_text(encoding="ascii").split()]


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
