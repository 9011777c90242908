"""Counts of the official conformance suite at the end of a test run."""

from typing import Any

_PARTS = {
    "test_onnx_case[": "compared",
    "test_onnx_case_draws_with_the_right_statistics[": "checked by statistics",
    "test_onnx_case_is_refused[": "refused",
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many official cases passed, failed and were skipped."""
    counts: dict[str, int] = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            how = next((how for part, how in _PARTS.items() if part in report.nodeid), None)
            if how is not None and (outcome != "passed" or report.when == "call"):
                key = how if outcome == "passed" else outcome
                counts[key] = counts.get(key, 0) + 1
    if counts:
        total = sum(counts.values())
        parts = ", ".join(f"{count} {what}" for what, count in counts.items())
        terminalreporter.write_line(f"ONNX conformance: {total} cases: {parts}")
