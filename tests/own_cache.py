"""Give the tests an empty engine cache and a key of their own, and leave the user's alone.

Loaded as a plugin (``-p tests.own_cache``), so that it holds for every test and for every process
that a test starts.
"""

import os
import shutil
import tempfile

import pytest

_FOLDER = tempfile.mkdtemp(prefix="own-cache-")
os.environ["XDG_CACHE_HOME"] = os.path.join(_FOLDER, "cache")  # noqa: PTH118 (a string is needed)
os.environ["XDG_STATE_HOME"] = os.path.join(_FOLDER, "state")  # noqa: PTH118 (a string is needed)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
