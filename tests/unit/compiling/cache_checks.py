"""What several tests of the cache do."""

from pathlib import Path

import numpy as np
import pytest

from subgraphkit.errors import SubgraphkitWarning
from tests.storing import storing
from tests.unit.compiling.conftest import LINEAR, run

EXPECTED = np.maximum(
    (np.arange(6, dtype=np.float32).reshape(3, 2) - 2) @ np.array([[1, 2], [3, 4]], np.float32)
    + np.array([10, -20], np.float32),
    0,
)
"""What the model of ``run`` computes."""

OTHER = LINEAR.replace("{10, -20}", "{1, 2}")
"""The same model with other weights."""


def the_entry(engines: Path) -> tuple[Path, Path]:
    (engine,), (description,) = engines.glob("*.engine"), engines.glob("*.json")
    return engine, description


def assert_compiled_again(engines: Path) -> None:
    """Run once with what is on disk now, and once more with what has replaced it."""
    backend = storing()
    _, results = run(backend)
    assert (backend.compilations, backend.restorations) == (1, 1)  # the one for the proof
    np.testing.assert_array_equal(results[0], EXPECTED)
    _, results = run(backend)
    assert (backend.compilations, backend.restorations) == (1, 2)
    np.testing.assert_array_equal(results[0], EXPECTED)


def refused(text: str) -> None:
    """Run with a cache that cannot be trusted: one warning, nothing restored, the right result."""
    backend = storing()
    with pytest.warns(SubgraphkitWarning, match=text) as heard:
        _, results = run(backend)
    assert len(heard) == 1
    assert backend.compilations == 1
    np.testing.assert_array_equal(results[0], EXPECTED)
