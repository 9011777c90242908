"""How many threads are worth starting: affinity, quota and OpenMP's variable, the least of them."""

import os

import pytest

from subgraphkit.configuration import layers
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.layers import thread_limit

CPUS = 8


@pytest.fixture(autouse=True)
def _machine(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(CPUS), raising=False)
    monkeypatch.setattr(layers, "_PROC", str(tmp_path / "own"))
    monkeypatch.setattr(layers, "_GROUPS", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_the_affinity_of_the_process_limits_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    assert thread_limit({}) == (3, "the CPU affinity of the process")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1), ("900000 100000", None)],
)
def test_the_quota_of_a_control_group_counts_in_whole_cpus(text, cpus, tmp_path):
    (tmp_path / "cpu.max").write_text(text)
    assert thread_limit({})[0] == cpus


def test_the_quotas_of_all_groups_around_the_process_count(tmp_path):
    inner = tmp_path / "pods" / "one"
    inner.mkdir(parents=True)
    (tmp_path / "own").write_text("12:cpu:/else\n0::/pods/one\n")
    (inner / "cpu.max").write_text("max 100000")
    (inner.parent / "cpu.max").write_text("300000 100000")
    assert thread_limit({}) == (3, "the CPU quota of the control group")


@pytest.mark.parametrize(("given", "count"), [("1", 1), ("3,2", 3), ("0", None), ("many", None)])
def test_the_variable_of_openmp_limits_threads(given, count):
    assert thread_limit({"OMP_NUM_THREADS": given})[0] == count


def test_the_origin_of_the_default_is_what_limits(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    resolved = resolve()
    assert resolved.threads == 2
    assert resolved.sources["threads"] == ("default", "environment variable OMP_NUM_THREADS='2'")


def test_what_is_said_wins_over_what_limits(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert resolve(threads=5).threads == 5
    monkeypatch.setenv("SUBGRAPH_THREADS", "4")
    assert resolve().sources["threads"][0] == "environment"
