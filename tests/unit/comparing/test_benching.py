"""Backends measured side by side, each in a process of its own."""

from html import unescape

import numpy as np
import onnx
import pytest

from subgraphkit.backend import Progress, ProgressEvent
from subgraphkit.comparing import Benchmark, Difference, Measured, Schedule, Share, bench
from subgraphkit.errors import CallerError, ConfigError
from tests.models import CHAIN, parsed

pytestmark = pytest.mark.usefixtures("misbehaving", "ready_children")

FEEDS = {"x": np.array([[1, -2, 3, -4]], np.float32)}
SHORT = Schedule(rounds=1, warmup=0, timeout_seconds=60)


def _bench(*backends, schedule=SHORT, **settings):
    return bench(parsed(CHAIN), FEEDS, backends, schedule=schedule, **settings)


def test_everybody_takes_turns_and_the_first_is_what_others_are_compared_with():
    said: list[ProgressEvent] = []
    schedule = Schedule(rounds=2, warmup=1)
    found = _bench("numpy", "slow", schedule=schedule, progress=Progress(said.append))
    assert said[::2] == [
        ProgressEvent("binding", 0, 2, "numpy"),
        ProgressEvent("first run", 0, 2, "numpy"),
        ProgressEvent("measuring", 0, 2),
    ]
    numpy, slow = found.measured
    assert found.model == "model.onnx"
    assert (numpy.ran, slow.ran, found.agrees) == (True, True, True)
    assert (found.ratio(numpy), slow.largest_difference) == (1.0, 0.0)
    ratio = found.ratio(slow)
    assert ratio is not None
    assert ratio > 5
    assert len(slow.seconds) >= 2 * 3
    assert slow.median >= 0.04
    assert slow.median <= slow.percentile(90) <= slow.percentile(99) <= max(slow.seconds)
    assert slow.throughput == pytest.approx(1 / np.mean(slow.seconds))
    assert slow.bind_seconds > 0
    assert slow.first_seconds >= 0.04


def test_a_run_of_a_file_is_shared_out_between_subgraphs_and_backends(tmp_path):
    onnx.save(parsed(CHAIN), tmp_path / "chain.onnx")
    found = bench(tmp_path / "chain.onnx", FEEDS, ["slow"], schedule=SHORT)
    assert found.model == "chain.onnx"
    (slow,) = found.measured
    assert [(one.subgraph, one.backend, one.nodes) for one in slow.shares] == [
        ("slow_0", "slow", 1),
        ("numpy_1", "numpy", 1),
        ("slow_2", "slow", 1),
    ]
    assert slow.part_of("slow") > 0.9
    assert slow.part_of("slow") + slow.part_of("numpy") <= 1
    assert min(slow.shares[0].seconds, slow.shares[2].seconds) >= 0.02


def test_memory_is_that_of_the_candidate_and_not_of_us(tmp_path):
    ours = np.ones(30_000_000)  # 240 MB in this process
    model = parsed("g (float[4000, 2000] x) => (float[4000, 2000] y) { a = Neg(x)  y = Exp(a) }")
    small, large = (
        bench(one, feeds, ["numpy"], schedule=SHORT).measured[0].memory_bytes
        for one, feeds in (
            (parsed(CHAIN), FEEDS),
            (model, {"x": np.zeros((4000, 2000), np.float32)}),
        )
    )
    assert ours.sum() == ours.size
    if small is None or large is None:
        pytest.skip("the system does not tell how much memory a process uses")
    assert large - small > 60_000_000  # the input and the output are 32 MB each
    assert small < 150_000_000


def test_who_cannot_run_says_why_and_stops_nobody():
    found = _bench("no_such", "crashing", "failing", "numpy", "crashing_later")
    codes = {one.selection: one.code for one in found.measured}
    assert codes == {
        "no_such": "SGK102",
        "crashing": "SGK320",
        "failing": "SGK131",
        "numpy": "",
        "crashing_later": "SGK320",
    }
    by_name = {one.selection: one for one in found.measured}
    assert "while running for the first time: signal SIGSEGV" in by_name["crashing"].text
    assert by_name["crashing"].printed == "the last that was heard"
    assert "while running: signal SIGSEGV" in by_name["crashing_later"].text
    assert "ValueError: out of luck" in by_name["failing"].text
    assert by_name["failing"].kind == "ExecutionError"
    assert by_name["numpy"].ran
    assert found.ratio(by_name["numpy"]) is None


def test_who_does_not_return_is_stopped():
    found = _bench("hanging", "numpy", schedule=Schedule(1, 0, timeout_seconds=5))
    assert [one.code for one in found.measured] == ["SGK321", ""]
    assert "did not return from running for the first time within 5 s" in found.measured[0].text


def test_results_that_are_wrong_or_of_another_type_are_told():
    found = _bench("numpy", "wrong", "double", checked=False)
    assert not found.agrees
    assert [one.agrees for one in found.measured] == [True, False, False]
    assert found.measured[1].largest_difference > 0.1
    assert found.measured[2].largest_difference == np.inf
    model, tens = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }"), np.full(2, 10, "f4")
    names, lenient = ["numpy", "wrong", "double"], {"max_error": 0.2, "checked": False}
    allowed = bench(model, {"x": tens}, names, schedule=SHORT, **lenient)
    assert [one.agrees for one in allowed.measured] == [True, True, False]


def test_libraries_are_told_how_many_threads_to_use():
    # what the backend returns is 100 * OMP_NUM_THREADS + its option `threads`, or the setting
    model = parsed("g (float[1] x) => (float[1] y) { y = Relu(x) }")

    def told(*selections, **settings):
        found = bench(
            model,
            {"x": np.ones(1, np.float32)},
            ["numpy", *selections],
            schedule=Schedule(1, 0, threads=2),
            **settings,
        )
        return [one.differences[0].got for one in found.measured[1:]]

    assert told("threads", "threads:threads=3") == [202, 203]
    assert told("threads", options={"threads": {"threads": 4}}) == [204]


def test_nonsense_is_refused_before_anything_is_started():
    with pytest.raises(CallerError, match="there are no backends"):
        _bench()
    with pytest.raises(CallerError, match="0 rounds"):
        Schedule(rounds=0)
    with pytest.raises(ConfigError, match="SGK107"):
        _bench("numpy;slow")


def test_a_benchmark_that_is_cancelled_stops_before_its_next_step():
    progress = Progress(lambda event: progress.cancel() if event.phase == "first run" else None)
    with pytest.raises(KeyboardInterrupt):
        _bench("numpy", progress=progress)


def _measured(name, *turns, **facts):
    shares = (Share(f"{name}_0", name, 7, turns[0] * 0.9, 0.9),)
    return Measured(name, turns * 3, turns, 0.5, turns[0], 3 << 20, shares, **facts)  # type: ignore[arg-type]


_TURNS = [0.02 + 0.0001 * at for at in range(10)]


@pytest.fixture
def found():
    slow = _measured("slow", *(turn * 3 for turn in _TURNS))
    quick = _measured("quick", *_TURNS)
    near = _measured("near", *reversed(_TURNS))
    out = Measured("out<b>", code="SGK104", kind="BackendUnavailableError", text="no device")
    return Benchmark("m.onnx", Schedule(), (slow, quick, near, out))


def test_a_benchmark_is_one_line_with_a_time_or_a_code_for_everybody(found):
    times = "slow 61.4 ms, quick 20.5 ms, near 20.5 ms, out<b> SGK104"
    assert repr(found) == f"Benchmark('m.onnx', 10 turns: {times})"


def test_its_page_says_who_won_and_who_may_have(found):
    page = unescape(found.to_html())
    assert "quick is fastest: 20.5 ms a run." in page
    assert "near may be as fast: it takes 1.00 times (0.97 to 1.03) as long" in page
    assert "slow takes 3.00 times (3.00 to 3.00) as long." in page
    for words in ("Out of the race", "no device", "ratio to slow", "quick_0"):
        assert words in page
    assert "out<b>" not in found.to_html()
    notebook = found._repr_html_()
    assert "quick is fastest" in notebook
    assert "<script" not in notebook


def test_who_computes_something_else_does_not_win():
    wrong = Difference("y", stage="dtype", problem="it has another dtype")
    cheat = _measured("cheat", *(turn / 9 for turn in _TURNS), differences=(wrong,))
    honest = _measured("honest", *_TURNS)
    found = Benchmark("m.onnx", Schedule(), (honest, cheat))
    assert found.fastest is honest
    assert "cheat does not count: its results differ" in unescape(found.to_html())


def test_nobody_wins_if_nobody_ran():
    out = Measured("out", code="SGK104", kind="BackendUnavailableError", text="no device")
    found = Benchmark("", Schedule(), (out,))
    assert found.fastest is None
    assert "Nobody: no candidate ran" in found.to_html()
