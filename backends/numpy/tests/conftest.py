"""Counts of the conformance kit at the end of a test run."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many cases of each level were as they should be."""
    counts: dict[str, int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            _, found, case = report.nodeid.partition("test_conformance[")
            if found and report.when == "call":
                key = f"{case.partition('/')[0]} {outcome}"
                counts[key] = counts.get(key, 0) + 1
    if counts:
        parts = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"conformance of the NumPy backend: {parts}")
