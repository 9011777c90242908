"""The pytest plugin of this tree: options, fixed seeds, and a cache and a key of the tests' own.

``pyproject.toml`` has it loaded (``-p tests.suite``), because a conftest that pytest finds late can
add no options. The cache holds for every test and for every process that a test starts; the user's
is left alone.
"""

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.golden_support", "tests.run_examples")

_FOLDER = tempfile.mkdtemp(prefix="own-cache-")
os.environ["XDG_CACHE_HOME"] = os.path.join(_FOLDER, "cache")  # noqa: PTH118 (a string is needed)
os.environ["XDG_STATE_HOME"] = os.path.join(_FOLDER, "state")  # noqa: PTH118 (a string is needed)

# Property tests are the same on every run: fixed seeds, no deadline, no stored examples.
# --hypothesis-profile=explore looks for new examples instead.
settings.register_profile(
    "steady",
    database=None,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is not a wrong result
)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which checks that are sampled in every run are made in full."""
    parser.addoption(
        "--cuts-per-model",
        type=int,
        default=4,
        help="random partitionings of each real model that are compared with the whole (112 is "
        "the full check: 1,008 in all)",
    )
    parser.addoption(
        "--random-graphs",
        type=int,
        default=2000,
        help="random graphs that are partitioned by random backends (10000 is the full check)",
    )
    parser.addoption(
        "--folded-graphs",
        type=int,
        default=80,
        help="random graphs that are run folded and unfolded (10000 is the full check)",
    )
    parser.addoption(
        "--interrupted-builds",
        type=int,
        default=1,
        help="random instants at which a build is interrupted, and as many time limits, for each "
        "backend (200 is the full check, on a larger network)",
    )
    parser.addoption(
        "--fused-combinations",
        type=int,
        default=40,
        help="random chains of operators that each library fuses, with fixed and with open shapes, "
        "and that are held against the reference (2000 is the full check)",
    )
    parser.addoption(
        "--mixed-models",
        type=int,
        default=2,
        help="real models that are run on several libraries in one session (9 is all)",
    )
    parser.addoption(
        "--large-networks",
        action="store_true",
        help="vgg19 and zfnet512 are run by oneDNN and cut at random, too, as the seven others are",
    )
    parser.addoption(
        "--claimed-cases",
        type=int,
        default=120,
        help="official node cases that TensorRT's parser and builder are asked about (2000 is all)",
    )
    parser.addoption(
        "--followed-cases",
        type=int,
        default=1,
        help="nodes of each version of each operator that are bound with ordinary operators behind "
        "them (100 is all)",
    )
    parser.addoption(
        "--planted-faults",
        type=int,
        default=2,
        help="nodes that are made wrong, one at a time, in each model that is bisected (20 is the "
        "full check: more than 100 in all)",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
