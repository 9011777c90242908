"""Children that carry out many cases: whichever ends badly, no other is lost."""

import os

import pytest

from subgraphkit.processes.child_process import crowd
from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.cases import Stopped
from subgraphkit.testing.children import Pool, Task
from subgraphkit.testing.process_checks import call_in_subprocess
from tests.unit.testing.troubled import stop

SECONDS = 40.0
HANGING_SECONDS = 1.5
MEMORY = 400 << 20
ORDER = (
    "one_node",
    "chain",
    "no_nodes",
    "diamond",
    "two_roots",
    "no_axes",
    "inner_value_is_an_output",
    "float64",
    "same_input_twice",
    "many_dtypes",
)


def carried_out(pool, names):
    listed = {one.case.case: one.case for one in pool.list_cases(2, SECONDS)}
    hanging = {"same_input_twice": HANGING_SECONDS}
    tasks = [Task(listed[f"L2/{name}"], hanging.get(name, SECONDS)) for name in names]
    return list(pool.findings([task] for task in tasks))


def test_a_case_that_ends_a_shared_process_is_found_and_no_other_is_lost():
    pool = Pool({"target": "tests.unit.testing.troubled:Troubled"}, 1, MEMORY)
    try:
        findings = carried_out(pool, ORDER)
    finally:
        pool.close()
    last = {one.case.removeprefix("L2/"): one for one in findings}
    assert last.keys() == set(ORDER)
    assert {name: one.outcome.value for name, one in last.items() if one.is_wrong} == {
        "chain": "CRASH",
        "two_roots": "CRASH",
        "inner_value_is_an_output": "CRASH",
        "same_input_twice": "HANG",
    }
    assert last["chain"].detail == "the process ended: signal SIGSEGV"
    assert last["two_roots"].detail == "the process ended: signal SIGABRT"
    assert "took more than 0.4 GiB of memory" in last["inner_value_is_an_output"].detail
    assert last["same_input_twice"].detail == "no answer within 1.5 s"
    assert last["same_input_twice"].seconds >= HANGING_SECONDS


@pytest.mark.parametrize(("load", "expected"), [(0.5, 1.0), (6.0, 3.0), (40.0, 4.0)])
def test_limits_of_wall_time_are_longer_where_many_want_processors(monkeypatch, load, expected):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert crowd() == expected


def test_what_ends_a_function_in_a_process_of_its_own_ends_its_case():
    with pytest.raises(Stopped, match="numpy takes nothing here") as caught:
        call_in_subprocess(stop, Subject("numpy"), SECONDS, what="stops")
    assert (caught.value.finding.outcome, caught.value.finding.taken) == (
        Outcome.UNCLAIMED,
        ("Relu",),
    )
