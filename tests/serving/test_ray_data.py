"""Ray Data runs a session over the rows of a dataset: each exactly once, whatever is killed."""

import os
import signal
import threading
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from tests.scripts import EXAMPLES, load_script
from tests.serving.ray_processes import ray_processes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray warns of settings of its own
    pytest.importorskip("ray.data", reason="Ray is not installed: make serving")

from subgraphkit.serving.ray_data import map_batches

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns of settings of its own


_PER_KILL = 40
"""Rows, so that there is work left when an actor that is killed has been replaced."""


@pytest.fixture(scope="module")
def dataset(ray):
    """Make a dataset of rows with a key, in blocks."""
    ray.data.DataContext.get_current().enable_progress_bars = False

    def made(count, blocks=4):
        x = np.random.default_rng(0).random((count, 4), np.float32)
        rows = [{"id": place, "x": one} for place, one in enumerate(x)]
        return ray.data.from_items(rows, override_num_blocks=min(blocks, count))

    return made


def spec(models, name):
    return sk.SessionSpec.of(models / f"{name}.onnx", backend="numpy", threads=1)


def test_rows_come_back_bit_for_bit_with_their_keys(models, dataset):
    given = dataset(53)
    x = np.stack([row["x"] for row in given.take_all()])
    y, z = spec(models, "negation").open().run(None, {"x": x})
    found = map_batches(
        given, spec(models, "negation"), keep=["id"], batch_size=8, replicas=(1, 2)
    ).take_all()
    assert sorted(row["id"] for row in found) == list(range(53))
    assert all(np.array_equal(row["y"], y[row["id"]]) for row in found)
    assert all(np.array_equal(row["z"], z[row["id"]]) for row in found)


def test_a_model_for_eight_rows_takes_a_dataset_of_any_length(models, dataset):
    words = {"columns": {"x": "x"}, "outputs": {"y": "negative"}, "keep": ["id", "x"]}
    found = map_batches(dataset(21), spec(models, "eight"), batch_size=16, **words).take_all()
    assert sorted(row["id"] for row in found) == list(range(21))
    assert all(np.array_equal(row["negative"], -row["x"]) for row in found)


def test_a_dataset_without_rows_has_none_afterwards(ray, models):
    import pyarrow as pa  # noqa: PLC0415 (it comes with Ray)

    rows = pa.table({"x": pa.array([], pa.list_(pa.float32(), 4))})
    assert map_batches(ray.data.from_arrow(rows), spec(models, "negation")).take_all() == []


def test_the_driver_gets_class_and_code_of_an_error(models, dataset):
    with pytest.raises(InputError) as caught:
        map_batches(dataset(5), spec(models, "negation"), columns={"x": "id"}).take_all()
    error: Any = caught.value
    assert error.code == error.cause.code == "SGK141"
    assert isinstance(error.cause, InputError)
    assert error.cause.fault == "caller"


def test_a_model_that_was_exchanged_is_refused(models, dataset, tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes((models / "negation.onnx").read_bytes())
    before = sk.SessionSpec.of(file, backend="numpy")
    file.write_bytes((models / "doubling.onnx").read_bytes())
    with pytest.raises(sk.SubgraphkitError, match="SGK194"):
        map_batches(dataset(5), before).take_all()


def test_the_example_writes_an_answer_for_each_row(ray, models, tmp_path):
    rows = [{"id": place, "x": np.full(4, place, np.float32)} for place in range(30)]
    ray.data.from_items(rows).write_parquet(str(tmp_path / "in"))
    example = load_script(EXAMPLES / "serving" / "ray_rows.py")
    example.main(str(models / "doubling.onnx"), str(tmp_path / "in"), str(tmp_path / "out"))
    found = ray.data.read_parquet(str(tmp_path / "out")).take_all()
    assert sorted(row["id"] for row in found) == list(range(30))
    assert all(np.array_equal(row["y"], np.full(4, 2 * row["id"])) for row in found)


def test_actors_that_are_killed_lose_nothing_and_double_nothing(models, dataset, request):
    kills = request.config.getoption("--killed-actors")
    given = dataset(_PER_KILL * kills, blocks=10 * kills)
    killed: list[int] = []
    over = threading.Event()
    killer = threading.Thread(target=_kill, args=(kills, killed, over), daemon=True)
    killer.start()
    try:
        found = map_batches(
            given, spec(models, "long"), keep=["id", "x"], batch_size=4, replicas=2
        ).take_all()
    finally:
        over.set()
        killer.join()
    assert Counter(row["id"] for row in found) == Counter(range(_PER_KILL * kills))
    assert all(np.array_equal(row["x"], row["y"]) for row in found)
    assert len(killed) == kills


def _kill(kills, killed, over):
    """Kill actors of this process's Ray, each a moment after it was first seen at work."""
    while len(killed) < kills and not over.wait(0.2):
        for pid in ray_processes("ray::MapWorker", ".submit"):
            if pid not in killed and len(killed) < kills:
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
