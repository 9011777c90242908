"""Models too large for one protobuf message."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from tests.models import parsed

ROWS, WIDTH = 9_000_000, 64
NBYTES = ROWS * WIDTH * 4
COUNTERS = Path("/proc/self/io")


def bytes_read():
    """Return how many bytes this process has read through system calls."""
    lines = COUNTERS.read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar:")))


@pytest.fixture
def large(tmp_path):
    """A table of more than 2 GiB in a sparse file, of which one row is not zero."""
    assert NBYTES > 2**31
    table = tmp_path / "table.bin"
    with table.open("wb") as file:
        file.truncate(NBYTES)
        file.seek(7 * WIDTH * 4)
        file.write(np.arange(WIDTH, dtype=np.float32).tobytes())
    proto = parsed(f"g (int64[n] i) => (float[n, {WIDTH}] y) {{ y = Gather(table, i) }}")
    tensor = proto.graph.initializer.add(name="table", data_type=1, dims=[ROWS, WIDTH])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=table.name)
    path = tmp_path / "large.onnx"
    path.write_bytes(proto.SerializeToString())
    yield path
    table.unlink()


@pytest.mark.skipif(not COUNTERS.exists(), reason="bytes are counted through /proc")
def test_weights_beyond_two_gigabytes_are_read_once_and_late(large):
    start = bytes_read()
    bound = sk.bind(sk.load(large), backend="numpy")
    partitioning = sk.partition(bound)
    assert bytes_read() - start < 2**24
    session = sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))
    (rows,) = session.run(None, {"i": np.array([7, 8])})
    np.testing.assert_array_equal(rows, [np.arange(WIDTH), np.zeros(WIDTH)])
    assert NBYTES <= bytes_read() - start < 1.01 * NBYTES
