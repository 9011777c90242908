"""Profiles: what is measured, what adds up, what is named, and what stays as it was."""

import json
import threading
import time

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import InnerTime
from subgraphkit.compiling.composition import ComposedOperator
from subgraphkit.errors import CallerError, ExecutionError
from tests.fakes import ReferenceOperator, claiming
from tests.models import CHAIN, parsed

FEEDS = {"x": np.array([[1, -2, 3, -4]], np.float32)}
WEIGHTED = """
g (float[1, 4] x) => (float[1, 4] y)
<float[4] w = {1, 2, 3, 4}>
{ a = Relu(x)  b = Mul(a, w)  y = Neg(b) }
"""


class Telling(ReferenceOperator):
    """Records what it is told to: in ``run``, or when it is closed."""

    late = False
    inner: tuple[InnerTime, ...] = ()

    def profiled(self, record):
        twin = type(self)(self.subgraph)
        twin.record = record
        twin.begun = []
        return twin

    def run(self, inputs, outputs=None):
        results = super().run(inputs, outputs)
        if not self.late and hasattr(self, "record"):
            for one in self.inner:
                self.record(one)
        return results

    def close(self):
        super().close()
        for one in self.inner if self.late and hasattr(self, "record") else ():
            self.record(one)


class Refusing(ReferenceOperator):
    def profiled(self, record):
        raise OSError("no counters here")


def opened(text, *backends, **settings):
    sizes = {"N": 1} if text is CHAIN else {}
    return sk.InferenceSession(parsed(text), list(backends), sizes, **settings)


def leaves(profile):
    """Return the rows that are to add up: all but subgraphs that are looked into."""
    looked_into = {row.subgraph for row in profile.rows if row.kind == "unattributed"}
    return [r for r in profile.rows if r.kind != "subgraph" or r.subgraph not in looked_into]


def profiled(text, *backends, runs=3):
    with opened(text, *backends) as session, session.profile(runs) as profile:
        profile.run(FEEDS)
    return profile


def test_rows_add_up_to_the_runs_that_were_measured():
    class Two(Telling):
        inner = (InnerTime("one", 1e-7), InnerTime("two", 2e-7))

    profile = profiled(CHAIN, claiming(["Neg"], "two", make=Two), "numpy")
    assert len(profile.walls) == 3
    wall = sum(profile.walls) / 3
    assert sum(row.seconds for row in leaves(profile)) == pytest.approx(wall, rel=1e-9)
    assert sum(row.part for row in leaves(profile)) == pytest.approx(1, rel=1e-9)
    kinds = [(row.kind, row.subgraph, row.calls) for row in profile.rows if row.subgraph]
    assert kinds == [
        ("subgraph", "numpy_0", 1),
        ("inside", "numpy_0", 1),
        ("unattributed", "numpy_0", 1),
        ("subgraph", "two_1", 1),
        ("inside", "two_1", 1),
        ("inside", "two_1", 1),
        ("unattributed", "two_1", 1),
        ("subgraph", "numpy_2", 1),
        ("inside", "numpy_2", 1),
        ("unattributed", "numpy_2", 1),
    ]
    around = [row.name for row in profile.rows if row.kind == "hand-over"]
    assert around == [
        "inputs -> numpy_0",
        "numpy_0 -> two_1",
        "two_1 -> numpy_2",
        "numpy_2 -> outputs",
    ]
    assert profile.overhead is not None
    assert profile.subgraph_seconds.keys() == {"numpy_0", "two_1", "numpy_2"}


def test_every_row_inside_names_nodes_or_says_that_the_name_is_the_librarys():
    class Odd(Telling):
        inner = (InnerTime("kernel 7", 1e-7), InnerTime("fused", 1e-7, (0, 1)))

    profile = profiled(CHAIN, claiming(["Relu", "Neg"], "odd", make=Odd))
    inside = [row for row in profile.rows if row.kind == "inside"]
    assert [(row.name, row.label, row.numbers) for row in inside] == [
        ("kernel 7", "odd: kernel 7", ()),
        ("fused", "#0 Relu + #1 Neg", (0, 1)),
    ]


def test_the_users_own_runs_are_measured_from_any_thread_until_there_are_enough():
    with opened(CHAIN, "numpy") as session:
        with session.profile(2) as profile:
            thread = threading.Thread(target=session.run, args=(None, FEEDS))
            thread.start()
            thread.join()
            for _ in range(3):
                session.run(None, FEEDS)
        session.run(None, FEEDS)
    assert len(profile.walls) == 2
    assert profile.overhead is None
    assert profile.rows[0].calls == 1


def test_a_run_that_fails_does_not_count():
    class Failing(ReferenceOperator):
        def run(self, inputs, outputs=None):
            if inputs[0].max() > 5:
                raise ValueError("too much")
            return super().run(inputs, outputs)

    backend = claiming(["Relu"], "one", make=Failing)
    with opened(CHAIN, backend) as session, session.profile(2) as profile:
        with pytest.raises(ExecutionError):
            session.run(None, {"x": np.full((1, 4), 9, np.float32)})
        session.run(None, FEEDS)
    assert len(profile.walls) == 1
    assert "1 run of" in profile.table()


def test_without_runs_there_is_nothing_and_it_says_so(tmp_path):
    with opened(CHAIN, "numpy") as session, session.profile() as profile:
        pass
    assert profile.rows == ()
    assert "no run was measured" in profile.table()
    assert profile.to_dict()["seconds"] is None
    profile.to_chrome(tmp_path / "empty.json")
    assert "no run was measured" in profile.to_html()


def test_the_session_is_afterwards_what_it_was():
    made: list[Telling] = []

    class Counted(Telling):
        def __init__(self, subgraph):
            super().__init__(subgraph)
            made.append(self)

    with opened(CHAIN, claiming(["Neg"], "two", make=Counted)) as session:
        before = session._variants.plain.source, session.plan
        with session.profile() as profile:
            profile.run(FEEDS)
        assert (session._variants.plain.source, session.plan) == before
        assert session._execute.__name__ == "execute"
        assert [one.closed for one in made] == [0, 1]
        runs = made[0].runs
        session.run(None, FEEDS)
        assert made[0].runs == runs + 1


def test_new_weights_end_the_times_inside_and_are_what_is_computed_with():
    with opened(WEIGHTED, "numpy") as session, session.profile() as profile:
        session.run(None, FEEDS)
        session.update_weights({"w": np.zeros(4, np.float32)})
        (result,) = session.run(None, FEEDS)
    assert not result.any()
    assert len(profile.walls) == 2
    assert profile.notes == ("weights or operators changed; no times from inside after that",)
    assert {row.calls for row in profile.rows if row.kind == "inside"} == {0.5}
    assert sum(row.part for row in leaves(profile)) == pytest.approx(1, rel=1e-9)


def test_a_library_that_cannot_be_looked_into_says_why():
    profile = profiled(CHAIN, claiming(["Neg"], "two", make=Refusing))
    assert profile.notes == ("two_1: no times from inside: OSError: no counters here",)
    assert "note: two_1: no times from inside" in profile.table()


def test_two_profiles_at_once_and_one_of_a_closed_session_are_refused():
    session = opened(CHAIN, "numpy")
    with session.profile():
        with pytest.raises(CallerError, match="SGK146"), session.profile():
            pass
        session.run(None, FEEDS)
        session.close()
    with pytest.raises(CallerError, match="SGK144"), session.profile():
        pass


def test_a_trace_has_tracks_on_which_nothing_overlaps(tmp_path):
    class Unknown(Telling):
        inner = (InnerTime("long", 10.0, (1,)), InnerTime("longer", 30.0))

    class Beside(Telling):
        def run(self, inputs, outputs=None):
            now = time.perf_counter()
            self.inner = (InnerTime("a", 1e-3, (), now), InnerTime("b", 1e-3, (), now + 1e-4))
            return super().run(inputs, outputs)

    backends = claiming(["Neg"], "two", make=Unknown), claiming(["Relu"], "one", make=Beside)
    with opened(CHAIN, *backends) as session, session.profile(2) as profile:
        profile.run(FEEDS)
    path = tmp_path / "trace.json"
    profile.to_chrome(path)
    events = json.loads(path.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["ph"] for event in events} == {"X", "M"}
    assert {event["tid"] for event in spans} <= {e["tid"] for e in events if e["ph"] == "M"}
    assert [e["name"] for e in spans if e["name"].startswith("run ")] != []
    for track in {event["tid"] for event in spans}:
        open_until: list[float] = []
        for one in sorted(
            (event for event in spans if event["tid"] == track),
            key=lambda event: (event["ts"], -event["dur"]),
        ):
            assert one["ts"] >= 0
            assert one["dur"] >= 0
            while open_until and open_until[-1] <= one["ts"] + 1e-3:
                open_until.pop()
            assert not open_until or one["ts"] + one["dur"] <= open_until[-1] + 1e-3
            open_until.append(one["ts"] + one["dur"])
    (longest,) = {e["args"]["seconds"] for e in spans if e["name"] == "longer"}
    assert longest == 30.0
    assert {e["args"]["start"] for e in spans if e["name"] == "longer"} == {"unknown"}


def test_what_is_composed_is_looked_into_and_the_rest_of_it_is_one_thing():
    with opened(CHAIN, claiming(["Neg"], "plain"), "numpy") as session:
        steps = session.plan.steps
        whole = ComposedOperator(session.graph, [(s.subgraph, s.operator) for s in steps])
        told: list[InnerTime] = []
        twin = whole.profiled(told.append)
        np.testing.assert_array_equal(twin.run([FEEDS["x"]])[0], whole.run([FEEDS["x"]])[0])
        assert [one.nodes for one in told] == [(0,), (1,), (2,)]
        assert [one.name for one in told][1] == "plain_1"
        twin.close()
        session.run(None, FEEDS)  # what was closed is the twin's alone
