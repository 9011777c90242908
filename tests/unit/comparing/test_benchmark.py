"""What a benchmark says of itself: in a line, as a page and for a notebook."""

from html import unescape

import pytest

from subgraphkit.comparing import Benchmark, Difference, Measured, Schedule, Share


def _measured(name: str, *turns: float, **facts: object) -> Measured:
    shares = (Share(f"{name}_0", name, 7, turns[0] * 0.9, 0.9),)
    return Measured(name, turns * 3, turns, 0.5, turns[0], 3 << 20, shares, **facts)  # type: ignore[arg-type]


_TURNS = [0.02 + 0.0001 * at for at in range(10)]


@pytest.fixture
def found() -> Benchmark:
    slow = _measured("slow", *(turn * 3 for turn in _TURNS))
    quick = _measured("quick", *_TURNS)
    near = _measured("near", *reversed(_TURNS))
    out = Measured("out<b>", code="SGK104", kind="BackendUnavailableError", text="no device")
    return Benchmark("m.onnx", Schedule(), (slow, quick, near, out))


def test_a_benchmark_is_one_line_with_a_time_or_a_code_for_everybody(found: Benchmark) -> None:
    times = "slow 61.4 ms, quick 20.5 ms, near 20.5 ms, out<b> SGK104"
    assert repr(found) == f"Benchmark('m.onnx', 10 turns: {times})"


def test_its_page_says_who_won_and_who_may_have(found: Benchmark) -> None:
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


def test_who_computes_something_else_does_not_win() -> None:
    wrong = Difference("y", stage="dtype", problem="it has another dtype")
    cheat = _measured("cheat", *(turn / 9 for turn in _TURNS), differences=(wrong,))
    honest = _measured("honest", *_TURNS)
    found = Benchmark("m.onnx", Schedule(), (honest, cheat))
    assert found.fastest is honest
    assert "cheat does not count: its results differ" in unescape(found.to_html())


def test_nobody_wins_if_nobody_ran() -> None:
    out = Measured("out", code="SGK104", kind="BackendUnavailableError", text="no device")
    found = Benchmark("", Schedule(), (out,))
    assert found.fastest is None
    assert "Nobody: no candidate ran" in found.to_html()
