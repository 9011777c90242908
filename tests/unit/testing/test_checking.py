"""``check_backend``: naming what is to be tested, and children that end badly."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from subgraphkit.errors import BackendNotFoundError, ConfigError
from subgraphkit.finding.registry import registered
from subgraphkit.testing import Outcome, check_backend
from subgraphkit.testing.children import Ended, Pool
from subgraphkit.testing.faulty.computing import SleepsInRun, WrongDtype
from subgraphkit.testing.faulty.wrapping import WrappingBackend
from tests.interrupting import heard

FAULTY = "subgraphkit.testing.faulty.computing"


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("numpy:fusion=off", None),
        ("numpy@subgraphkit-numpy", {"fusion": False}),
        ("loopback", None),
        (WrappingBackend, None),
        ("subgraphkit.testing.faulty.wrapping:WrappingBackend", None),
    ],
)
def test_a_backend_may_be_named_in_several_ways(backend: object, options: object) -> None:
    findings = list(check_backend(backend, 2, options=options, only="L2/c*"))  # type: ignore[arg-type]
    assert [finding.case for finding in findings if finding.outcome is not Outcome.RIGHT] == []
    assert len(findings) == 3


def test_a_backend_registered_by_a_call_is_found_by_the_children() -> None:
    with registered(WrongDtype):
        (finding,) = check_backend("faulty", 2, only="L2/one_node")
    assert finding.outcome is Outcome.FAIL_DTYPE


def test_a_wrong_dtype_is_caught_at_the_boundary_with_its_code_and_subgraph() -> None:
    (finding,) = check_backend(WrongDtype, 2, only="L2/one_node")
    assert finding.detail.startswith("[SGK132] subgraph 'faulty_0' on backend 'faulty' returned")
    assert "dtype float64 for 'y', expected float32" in finding.detail


def test_a_backend_that_is_not_installed_is_an_error_at_once() -> None:
    with pytest.raises(BackendNotFoundError):
        check_backend("nope")


def test_a_class_that_no_process_can_import_is_an_error_at_once() -> None:
    class Local(WrappingBackend):
        pass

    with pytest.raises(ConfigError, match="cannot be imported by a process of its own"):
        check_backend(Local)


@pytest.mark.parametrize("backend", [3, "numpy,numpy"])
def test_what_names_no_backend_is_an_error_at_once(backend: object) -> None:
    with pytest.raises(ConfigError):
        check_backend(backend)


@pytest.mark.parametrize("level", [-1, 8])
def test_a_level_that_does_not_exist_is_an_error_at_once(level: int) -> None:
    with pytest.raises(ConfigError, match=f"no level {level}"):
        check_backend("numpy", level)


def test_nothing_is_tried_on_a_backend_that_cannot_be_probed() -> None:
    target = "subgraphkit.testing.faulty.choosing:RaisesInProbe"
    levels = {finding.level for finding in check_backend(target, 2)}
    assert levels == {0}


def test_a_class_that_does_not_exist_is_a_finding() -> None:
    (finding,) = check_backend(f"{FAULTY}:NoSuchClass", 0, only="L0/import")
    assert finding.outcome is Outcome.FAIL_PROBE
    assert "NoSuchClass" in finding.detail


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool({"target": f"{FAULTY}:{SleepsInRun.__name__}"}, 1)
    yield made
    made.close()


def test_a_closed_pool_starts_no_more_children(pool: Pool) -> None:
    pool.close()
    with pytest.raises(Ended):
        pool.listed(0)


def test_giving_up_half_way_stops_the_children() -> None:
    findings = check_backend("numpy", 2)
    next(findings)
    before = threading.active_count()
    findings.close()
    assert threading.active_count() <= before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for children in /proc")
def test_an_interrupted_command_stops_its_children_and_says_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "subgraphkit", "test", f"{FAULTY}:SleepsInRun"]
    with heard():
        running = subprocess.Popen(
            [*command, "--only", "L2/*"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        children = _children_of(running.pid)
        running.send_signal(signal.SIGINT)
        _, printed = running.communicate(timeout=30)
    finally:
        running.kill()
    assert (running.returncode, printed) == (130, "error: interrupted\n")
    assert children
    assert not [pid for pid in children if _is_alive(pid)]


def _children_of(pid: int) -> list[int]:
    deadline = time.monotonic() + 30
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    while time.monotonic() < deadline:
        found = [
            int(child)
            for task in listed.parents[1].glob("*/children")
            for child in task.read_text(encoding="ascii").split()
        ]
        if found:
            time.sleep(1.0)  # for the child to be in the middle of something
            return found
        time.sleep(0.05)
    return []


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
