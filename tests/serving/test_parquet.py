"""``subgraphkit batch`` writes a table in parts, and goes on where it was stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.cli import main
from subgraphkit.cli.parquet import Job
from subgraphkit.errors import InputError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make serving")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: make serving")

from subgraphkit.cli.parquet_child import Parts  # noqa: E402 (it needs pyarrow)

ROWS, PART = 50, 8
MANIFEST = "_subgraphkit.json"


@pytest.fixture
def batch(models: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Write a table, and return the words that run a model over it."""

    def made(model: str = "negation", rows: int = ROWS, *more: str) -> list[str]:
        x = np.random.default_rng(0).random(rows * 4, np.float32)
        lists = pa.FixedSizeListArray.from_arrays(x, 4)
        table = pa.table({"id": pa.array(range(rows)), "x": lists})
        pq.write_table(table, tmp_path / f"in{rows}.parquet", row_group_size=20)
        words = ["--part-rows", str(PART), "--batch-size", "3", "--keep", "id"]
        places = [str(tmp_path / f"in{rows}.parquet"), str(tmp_path / "out.parquet")]
        spec = ["--spec", str(models / f"{model}.onnx"), "--backend", "numpy"]
        return ["batch", *places, *spec, *words, *more]

    return made


def read(folder: Path) -> dict[str, Any]:
    """Read the parts as any reader does."""
    table = pq.read_table(folder)
    tensors = {
        name: table[name].combine_chunks().to_numpy_ndarray()
        for name in table.column_names
        if name != "id"
    }
    return {"id": table["id"].to_pylist(), **tensors}


def times(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mtime_ns for one in folder.glob("part-*")}


def test_a_table_is_computed_in_order_and_only_once(
    batch: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.parquet"
    assert main([*batch("negation"), "--replicas", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["parts_computed"] == 7
    x = np.stack(pq.read_table(tmp_path / f"in{ROWS}.parquet")["x"].to_numpy())
    found = read(out)
    assert found["id"] == list(range(ROWS))
    assert np.array_equal(found["y"], -x)
    assert np.array_equal(found["z"], -x.reshape(-1, 2, 2))

    before = times(out)
    (out / "part-000003.parquet").unlink()
    (out / ".subgraphkit-0.part").write_bytes(b"half")
    assert main([*batch("negation"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["parts_computed"] == 1
    after = times(out)
    assert [name for name in before if before[name] != after[name]] == ["part-000003.parquet"]
    assert np.array_equal(read(out)["y"], -x)


def test_parts_of_something_else_are_refused(
    batch: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(batch("negation", 9)) == 0
    before = times(tmp_path / "out.parquet")
    for words, what in (
        (batch("doubling", 9), "spec"),
        (batch("negation", 10), "input and rows"),
        ([*batch("negation", 9), "--result", "y"], "outputs"),
    ):
        capsys.readouterr()
        assert main(words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"[SGK342] {str(tmp_path / 'out.parquet')!r} cannot take the parts" in said
        assert f"another {what}" in said
    assert times(tmp_path / "out.parquet") == before
    (tmp_path / "out.parquet" / MANIFEST).unlink()
    assert main(batch("negation", 9)) == 2


def test_a_run_goes_on_that_was_killed_before_it_had_a_manifest(
    batch: Callable[..., list[str]], tmp_path: Path
) -> None:
    left_over = tmp_path / "out.parquet" / f".subgraphkit-{'0' * 16}.part"
    left_over.parent.mkdir()
    left_over.write_bytes(b"half")
    assert main(batch("negation", 9)) == 0
    assert {one.name for one in left_over.parent.iterdir()} >= {MANIFEST, "part-000001.parquet"}
    assert not left_over.exists()


@pytest.fixture
def parts(models: Path, tmp_path: Path) -> Callable[..., Any]:
    """Compute a column in parts of three rows and batches of two, and return the table."""

    def computed(model: str, x: Any) -> Any:
        folder = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        pq.write_table(pa.table({"x": x}), folder.with_suffix(".parquet"), row_group_size=4)
        spec = sk.SessionSpec.of(models / f"{model}.onnx", backend="numpy").to_json()
        job = Job(str(folder.with_suffix(".parquet")), str(folder), spec, {}, {}, (), 2, 3, 1)
        made = Parts(job)
        for number in range(max(1, -(-len(x) // 3))):
            made.write(number)
        return pq.read_table(folder)["y"]

    return computed


def test_columns_of_tensors_and_of_lists_of_text_come_and_go(parts: Callable[..., Any]) -> None:
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(rows)
    assert parts("negation", tensors).to_pylist() == (-rows).tolist()
    assert parts("negation", tensors[:0]).to_pylist() == []
    assert parts("words", pa.array([["a", "b"]] * 4)).to_pylist() == [["a", "b"]] * 4
    assert parts("words", pa.array([], pa.list_(pa.string()))).type == pa.list_(pa.string())


@pytest.mark.parametrize(
    "x",
    [
        pa.array([[1, 2, 3, 4], None], pa.list_(pa.float32())),
        pa.array([[1, None, 3, 4]], pa.list_(pa.float32(), 4)),
        pa.array([1, None], pa.float32()),
        pa.array(["one", None]),
    ],
    ids=["row", "element", "number", "text"],
)
def test_null_is_a_gap_and_never_a_number(parts: Callable[..., Any], x: Any) -> None:
    with pytest.raises(InputError, match="column 'x' has gaps") as caught:
        parts("negation", x)
    assert caught.value.code == "SGK340"


def test_rows_of_other_shapes_than_those_before_are_refused(parts: Callable[..., Any]) -> None:
    for count in (1, 3):  # within a part, and in the next one
        ones = [[1.0] * 4] * count + [[0.0, 0, 0, 1]] * 3
        with pytest.raises(InputError, match=r"'y' would be .* in one place and .* in another"):
            parts("sized", pa.array(ones, pa.list_(pa.float32())))


def test_a_table_without_rows_is_one_afterwards(
    batch: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert main(batch("negation", 0)) == 0
    found = read(tmp_path / "out.parquet")
    assert found["id"] == []
    assert found["z"].shape == (0, 2, 2)


def test_an_error_of_a_row_has_its_code_and_its_exit_code(
    batch: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*batch("negation"), "--column", "x=id", "--replicas", "2"]) == 2
    assert "[SGK141] input 'x'" in capsys.readouterr().err
    assert main([*batch("negation"), "--column", "x=nothing"]) == 2
    assert main(["batch", str(tmp_path / "no"), "out", "--spec", "model.onnx"]) == 4
    assert times(tmp_path / "out.parquet") == {}


def test_whoever_is_killed_loses_a_part_at_most(
    batch: Callable[..., list[str]], tmp_path: Path
) -> None:
    words = batch("long", 24, "--replicas", "2")
    command = [sys.executable, "-m", "subgraphkit", *words]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    children = awaited(lambda: len(found := child_processes(running.pid)) == 2 and found)
    os.kill(children[0], signal.SIGKILL)  # its part is tried again, in a new process
    awaited(lambda: set(child_processes(running.pid)) - set(children))
    awaited(lambda: len(times(tmp_path / "out.parquet")) > 0)
    children = child_processes(running.pid)
    running.kill()
    running.wait()
    awaited(lambda: not any(map(runs, children)))
    before = times(tmp_path / "out.parquet")
    assert main(words) == 0
    assert read(tmp_path / "out.parquet")["id"] == list(range(24))
    assert before.items() <= times(tmp_path / "out.parquet").items()


def awaited(condition: Callable[[], Any]) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def runs(pid: int) -> bool:
    """Say whether a process has not ended; one that nobody asked how it did is still there."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return not stat.rpartition(")")[2].lstrip().startswith(("Z", "X"))


def child_processes(pid: int) -> list[int]:
    """Return the children of a process."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            if place.read_text(encoding="utf-8").rpartition(")")[2].split()[1] == str(pid):
                found.append(int(place.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found
