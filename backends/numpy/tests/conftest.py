"""The same numbers for a test wherever it runs, and counts of the conformance kit at the end."""

import re

import numpy as np
import pytest

from backends.numpy.tests.comparing import RNG


@pytest.fixture(autouse=True)
def _same_numbers():
    RNG.bit_generator.state = np.random.default_rng(7).bit_generator.state


def pytest_terminal_summary(terminalreporter):
    """Print how many cases of each level were as they should be."""
    counts: dict[str, int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            found = re.search(
                r"::test_(?:conformance|operators)\[(L\d)/.*?(\+\d+)?\]", report.nodeid
            )
            if found and report.when == "call":
                key = f"{found[1]} {outcome}"
                counts[key] = counts.get(key, 0) + 1 + int(found[2] or 0)
    if counts:
        parts = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"conformance of the NumPy backend: {parts}")
