"""Kernels that TensorRT for RTX compiles are kept, so that the next process finds them."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.tensorrt.tests.double_road import GROWING, PICKED, Opened, X, summed
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit_tensorrt.running import contexts as keeping
from subgraphkit_tensorrt.running.regions import restore

RTX = pytest.mark.parametrize("double", ["rtx-1.7.1"], indirect=True)
DIMS: Any = {"dims": {"n": (1, 4, 8)}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept" / "backends" / "tensorrt"


def run(opened: Any, *sizes: int) -> None:
    for n in sizes:
        x = np.full((n, 3), n, np.float32)
        np.testing.assert_array_equal(opened.run([x])[0], summed(x))


def again(opened: Opened, double: Double, blob: bytes | None = None) -> Any:
    """Load the same plan as another process would."""
    blob = blob or opened.operator.serialize()
    assert blob is not None
    return restore(blob, opened.subgraph, double.library, opened.context)


def stored(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernels"))


@RTX
def test_another_process_does_not_compile_again(double: Double, folder: Path) -> None:
    opened = Opened(GROWING, double, **DIMS)
    run(opened.operator, 2, 4, 2)
    assert double.compiled == 2
    blob = opened.operator.serialize()
    opened.operator._engines.current()[0][1].contexts.close()  # as at the end of a process
    assert len(stored(folder)) == 1
    assert stored(folder)[0].stat().st_mode & 0o077 == 0
    run(again(opened, double, blob), 4, 2)
    assert double.compiled == 2


@RTX
def test_a_library_that_does_not_hand_its_kernels_out_runs_all_the_same(
    double: Double, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(double.trt.IRuntimeCache, "serialize", lambda _: None)
    run(Opened(GROWING, double, **DIMS).operator, 2)
    assert stored(folder) == []


@RTX
def test_kernels_are_kept_after_the_first_run_already(double: Double, folder: Path) -> None:
    opened = Opened(GROWING, double, **DIMS)
    run(opened.operator, 2)
    run(again(opened, double), 2)  # as if the first process had been killed
    assert double.compiled == 1


@RTX
def test_kernels_are_not_written_at_every_new_shape(
    double: Double, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(GROWING, double, **DIMS)
    run(opened.operator, 1)
    before = stored(folder)[0].read_bytes()
    run(opened.operator, 2, 3)
    assert stored(folder)[0].read_bytes() == before
    monkeypatch.setattr(keeping, "_PAUSE", 0.0)
    run(opened.operator, 4)
    assert stored(folder)[0].read_bytes() != before


@RTX
def test_kernels_are_found_again_when_the_plan_was_built_again(
    double: Double, folder: Path
) -> None:
    for _ in range(2):
        run(Opened(GROWING, double, **DIMS).operator, 2)
    assert double.compiled == 1
    assert len(stored(folder)) == 1
    run(Opened(GROWING, double, dims={"n": (1, 4, 9)}).operator, 2)  # another range
    run(Opened(GROWING, double, tf32=False, **DIMS).operator, 2)
    assert len(stored(folder)) == 3


@RTX
def test_each_engine_has_its_own(double: Double, folder: Path) -> None:
    one, other = Opened(GROWING, double, **DIMS), Opened(PICKED, double, **DIMS)
    run(one.operator, 2)
    other(np.ones(3, np.float32))
    assert len(stored(folder)) == 2


@RTX
def test_kernels_of_another_device_are_compiled_again(
    double: Double, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(GROWING, double, **DIMS)
    run(opened.operator, 2)
    double.device = "other"
    with caplog.at_level(logging.INFO, "subgraphkit.tensorrt"):
        run(again(opened, double), 2)
    assert "do not fit here" in caplog.text
    assert double.compiled == 2


@RTX
def test_nothing_is_kept_where_nothing_is_to_be_kept(
    double: Double, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE", "0")
    opened = Opened(GROWING, double, **DIMS)
    run(opened.operator, 2)
    opened.operator.close()
    assert not folder.exists()


def test_other_libraries_compile_nothing_at_run_time(double: Double, folder: Path) -> None:
    opened = Opened(GROWING, double, **DIMS)
    opened(X)
    opened.operator.close()
    assert stored(folder) == []
