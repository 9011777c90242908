"""The pytest plugin of this tree: options, fixed seeds, and a cache and a key of the tests' own.

``pyproject.toml`` has it loaded (``-p tests.suite``), because a conftest that pytest finds late can
add no options. The cache holds for every test and for every process that a test starts, and no
setting of the user's does. The user's cache is left alone.
"""

import contextlib
import gc
import importlib.util
import os
import shutil
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subgraphkit.processes import calling
from tests import ready

# Whoever runs some folder alone needs pytest, and only what that folder imports beside it.
_HAS_SYBIL = importlib.util.find_spec("sybil") is not None
pytest_plugins = ("tests.golden_support", *(["tests.run_examples"] if _HAS_SYBIL else []))

LISTED = 20
"""How many of the slowest files are listed at the end of a run of more."""

_FOLDER = tempfile.mkdtemp(prefix="own-cache-")
for _name in [name for name in os.environ if name.startswith("SUBGRAPH_")]:
    if not _name.endswith(("_LIBRARY", "_FLAVOUR")):  # these say where a library is
        del os.environ[_name]
os.environ["XDG_CACHE_HOME"] = os.path.join(_FOLDER, "cache")  # noqa: PTH118 (a string is needed)
os.environ["XDG_STATE_HOME"] = os.path.join(_FOLDER, "state")  # noqa: PTH118 (a string is needed)

# Property tests are the same on every run: fixed seeds, no deadline, no stored examples.
# --hypothesis-profile=explore looks for new examples instead.
with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, settings

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


SAMPLED = {
    "cuts-per-model": (2, 112, "random partitionings of each real model, held against the whole"),
    "random-graphs": (400, 10_000, "random graphs, partitioned by random backends"),
    "chained-nodes": (200_000, 1_000_000, "nodes of the longest chain that is partitioned"),
    "folded-graphs": (40, 10_000, "random graphs that are run folded and unfolded"),
    "interrupted-builds": (1, 100, "instants at which a build of each backend is interrupted"),
    "valid-graphs": (300, 20_000, "valid graphs of all operators, a share on each backend"),
    "mixed-models": (2, 9, "real models that are run on several libraries in one session"),
    "claimed-cases": (120, 2000, "official cases that TensorRT's parser is asked about"),
    "followed-cases": (1, 100, "nodes of each version of operators, bound with others behind"),
    "planted-faults": (2, 20, "nodes that are made wrong in each model that is bisected"),
    "killed-actors": (3, 20, "actors of Ray Data that are killed while they run a model"),
    "served-updates": (2, 10, "exchanges of a model that Ray Serve serves, under load"),
    "stream-schedules": (1, 50, "orders in which the streams of a double of a GPU get on"),
}
"""What is tried of a long check in every run, and what is all of it."""

WHOLE = {
    "large-networks": "bvlc_alexnet, vgg19 and zfnet512 are run: by oneDNN, cut, and in int8",
    "foreign-operators": "a new backend's own test runs official cases that it leaves alone, too",
    "all-cases": "no case of a test with many is left out, and NumPy runs them in all sizes, alone",
}
"""Long checks that are left out of a run."""

LONG = (
    "numpy/tests/test_element_types.py::test_an_operator", "test_microsoft_quantized.py::",
    "test_onednn_operator.py::test_whatever", "test_onnx_backend.py", "test_optimized_models.py::",
    "test_openvino_conformance.py::test_a_sample", "test_openvino_conformance.py::test_conformance",
    "test_ort_claims.py::test_any_axes", "test_ort_conformance.py::test_a_sample",
    "test_tensorrt_sessions.py::test_official_cases", "road/test_bundles.py::test_a_network_on",
    "test_conforming.py::test_operators_of_a_backend_do_as_the_contract_says[tvm",
    "road/test_pipelines.py::", "road/test_precision.py::test_a_network", "test_real_models.py::",
    "test_shipped_models.py::test_text", "test_shipped_models.py::test_voice",
    "test_benchmarks.py::test_a_benchmark_prints", "test_choosy_backends.py::test_a_choosy",
    "test_faulty_backends.py::test_the_kit_catches", "test_pass_linear.py::test_the_families",
)  # fmt: skip
"""Tests of which one case in three is run, unless all are asked for or one by its name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which checks that are sampled in every run are made in full."""
    for name, (default, full, text) in SAMPLED.items():
        told = f"{text} ({full} is the full check)"
        parser.addoption(f"--{name}", type=int, default=default, help=told)
    for name, text in WHOLE.items():
        parser.addoption(f"--{name}", action="store_true", help=text)


@pytest.fixture(scope="module")
def ready_children() -> Iterator[None]:
    """Have children of our own interpreter forked from a process that has done the imports.

    For files that look at what children answer, and not at how they start, are numbered or stopped.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calling, "child_command", ready.child_command)
        yield


def pytest_report_header() -> str:
    """Say what the plugins of this tree are for."""
    return (
        "tests.suite: options of long checks, fixed seeds, a cache of the tests' own; it brings "
        "tests.golden_support (--update-golden) and tests.run_examples (examples in pages)"
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget at the end of a file what it measured, which decides what ``auto`` answers.

    So are variables that its imports set: they tell children, and have them be no forks.
    """
    if nextitem is None or nextitem.path != item.path:
        os.environ.clear()
        os.environ.update(_VARIABLES)
        measured = Path(os.environ["XDG_CACHE_HOME"]) / "subgraphkit" / "backends" / "auto"
        shutil.rmtree(measured, ignore_errors=True)


_SPENT = [0.0]
_VARIABLES: dict[str, str] = {}
_LEFT_OUT: set[pytest.Item] = set()


def _seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Note how long the processors worked since the last report."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if getattr(error, "code", "") == "SGK101":  # the tests' backends are named after packages
        _skip_without(f"subgraphkit_{error.context.get('backend')}", report, item)
    now = _seconds()
    report.cpu_seconds, _SPENT[0] = now - _SPENT[0], now
    report.left_out = len(_LEFT_OUT)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """Skip a file that needs what is not installed, where files or folders were asked for.

    A run of everything has to have everything, and fails.
    """
    report = yield
    raised = getattr(getattr(report, "call", None), "excinfo", None)
    cause = raised.value.__cause__ if raised is not None else None
    if isinstance(cause, ModuleNotFoundError):
        _skip_without((cause.name or "").partition(".")[0], report, collector)
    return report


def _skip_without(package: str, report: Any, asked: pytest.Item | pytest.Collector) -> None:
    """Skip what needs a package that is not installed, unless everything is run."""
    named = asked.config.args_source is pytest.Config.ArgsSource.ARGS
    _, ours, backend = package.partition("subgraphkit_")
    known = not ours or (asked.config.rootpath / "backends" / backend).is_dir()
    if named and known and package and importlib.util.find_spec(package) is None:
        provider = f"-e backends/{backend}" if ours else "-e '.[test]'"
        report.outcome = "skipped"
        reason = f"Skipped: {package} is not installed; pip install {provider} has it"
        report.longrepr = (str(asked.path), None, reason)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases out: always the same ones, by hashes of their names, and never all of a test."""
    if config.getoption("--all-cases") or any("::" in named for named in config.args):
        return
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if any(one in item.nodeid for one in LONG):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        found.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        _LEFT_OUT.update(found[-(-len(found) // 3) :])
    config.hook.pytest_deselected(items=list(_LEFT_OUT))
    items[:] = [item for item in items if item not in _LEFT_OUT]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Look for no garbage meanwhile: nearly all that is made now stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Never look at all that again, and leave out of the first file what the collection took."""
    gc.freeze()
    gc.enable()
    _VARIABLES.update(os.environ)
    _SPENT[0] = _seconds()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the files that took longest, where many were run, and say how much was not run."""
    spent: Counter[str] = Counter()
    left_out = {0}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[report.nodeid.partition("::")[0]] += report.__dict__.get("cpu_seconds", 0.0)
                left_out.add(report.__dict__.get("left_out", 0))
    if max(left_out):
        terminalreporter.line(f"{max(left_out)} cases of long tests were left out: --all-cases")
    if len(spent) > LISTED:
        terminalreporter.section(f"the {LISTED} slowest of {len(spent)} files, in CPU seconds")
        for file, seconds in spent.most_common(LISTED):
            terminalreporter.line(f"{seconds:8.1f}  {file}")
        terminalreporter.line(f"{spent.total():8.1f}  all files")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
