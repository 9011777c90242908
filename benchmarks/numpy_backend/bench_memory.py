"""Peak memory above the weights, beside ONNX Runtime, and whether repeated runs grow.

Usage: ``python benchmarks/numpy_backend/bench_memory.py [--models A,B] [--repeat N] [--markdown]``

Every runtime and network has a process of its own. The process first runs a network of one node
with the runtime, so that all it imports is there, and takes its resident memory as the baseline.
Then it loads the network, sets the kernel's record of the peak back, and runs. What is reported:

- loading: the peak while loading, less the baseline and the bytes of the weights;
- running: the peak of the runs after it, less the same;
- growth: resident memory after the last run, less that after the fifth.

Resident memory counts what is touched, so a runtime that maps its weights from the file and one
that copies them are measured alike; one that keeps a second, packed copy pays for it. Where the
record cannot be set back (not Linux), the columns of loading and running show the same peak.
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measuring import Table, base_parser, limit_threads, show, without

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
from architectures import ARCHITECTURES, seeded_feeds  # noqa: E402 (imports NumPy)
from exporting import ensure_exports  # noqa: E402 (imports NumPy)
from onnx import TensorProto, helper, numpy_helper  # noqa: E402 (imports NumPy)
from quiet import threads  # noqa: E402 (beside the others)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)

OURS: Final = "subgraphkit"
ORT: Final = "onnxruntime"
SETTLED: Final = 5
"""Runs after which memory is to stay as it is."""

_MEBIBYTE: Final = 2**20
_PROC: Final = Path("/proc/self")

Run = Callable[[], Any]


def main() -> None:
    """Measure every network with every runtime and print the table."""
    parser = base_parser("Peak memory above the weights.", repeat=50)
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="separated by commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        runtime, path, name = json.loads(arguments.child)
        print(json.dumps(_measure(runtime, path, name, arguments.repeat)))
        return
    has_peer = importlib.util.find_spec("onnxruntime") is not None
    rows, ratios = [], []
    for name, path in ensure_exports(parser, arguments.models).items():
        print(f"measuring {name}", file=sys.stderr)
        row, ratio = _row(name, path, arguments.repeat, has_peer=has_peer)
        rows.append(row)
        ratios += [] if ratio is None else [ratio]
    mean = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
    rows.append(["geometric mean", "", "", "", "", "", mean, "", ""])
    columns = ["model", "weights"]
    columns += [f"{part}, {one}" for part in ("loading", "running") for one in ("ours", "ORT")]
    columns = [*columns, "ratio", "growth, ours", "growth, ORT"]
    notes = [
        "MiB above the baseline and the weights; ratio: of running, ours by ONNX Runtime's.",
        f"growth: from run {SETTLED} to run {arguments.repeat}; {threads()} threads.",
    ]
    notes += [] if has_peer else [without("onnxruntime")]
    show(Table("Peak memory above the weights", columns, rows, notes), markdown=arguments.markdown)


def _row(name: str, path: Path, repeat: int, *, has_peer: bool) -> tuple[list[str], float | None]:
    ours = _in_child(OURS, path, name, repeat)
    peer = _in_child(ORT, path, name, repeat) if has_peer else {}
    ratio = ours["running"] / peer["running"] if peer.get("running", 0) > 0 else None

    def cell(measured: dict[str, float], key: str) -> str:
        return f"{measured[key] / _MEBIBYTE:.1f}" if key in measured else "-"

    cells = [name, cell(ours, "weights")]
    cells += [cell(one, part) for part in ("loading", "running") for one in (ours, peer)]
    cells.append("-" if ratio is None else f"{ratio:.2f}")
    return [*cells, cell(ours, "growth"), cell(peer, "growth")], ratio


def _in_child(runtime: str, path: Path, name: str, repeat: int) -> dict[str, float]:
    told = json.dumps([runtime, os.fspath(path), name])
    command = [sys.executable, __file__, "--child", told, "--repeat", str(repeat)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _measure(runtime: str, path: str, name: str, repeat: int) -> dict[str, float]:
    make = _RUNTIMES[runtime]
    weights = _weight_bytes(path)
    feeds = seeded_feeds(name)
    tiny, tiny_feeds = _tiny_model()
    make(tiny, tiny_feeds)()
    _forget_peak()
    baseline = _resident()
    run = make(path, feeds)
    loading = _peak()
    _forget_peak()
    settled = 0
    for count in range(1, repeat + 1):
        run()
        if count == min(SETTLED, repeat):
            settled = _resident()
    return {
        "weights": weights,
        "loading": loading - baseline - weights,
        "running": _peak() - baseline - weights,
        "growth": _resident() - settled,
    }


def _ours(model: str | bytes, feeds: dict[str, Any]) -> Run:
    session = sk.InferenceSession(model, backend="numpy")
    return lambda: session.run(None, feeds)


def _onnxruntime(model: str | bytes, feeds: dict[str, Any]) -> Run:
    import onnxruntime as ort  # noqa: PLC0415 (optional)

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


_RUNTIMES: Final = {OURS: _ours, ORT: _onnxruntime}


def _tiny_model() -> tuple[bytes, dict[str, Any]]:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    weight = numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "tiny", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data, {"x": np.ones((2, 2), np.float32)}


def _weight_bytes(path: str) -> int:
    """Return the bytes of all weights, without keeping them."""
    told = subprocess.run(
        [sys.executable, "-c", _COUNT, path], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(told.stdout)


_COUNT: Final = """
import math, sys, onnx
tensors = onnx.load(sys.argv[1], load_external_data=False).graph.initializer
size = lambda tensor: onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
print(sum(math.prod(tensor.dims) * size(tensor) for tensor in tensors))
"""


def _resident() -> int:
    """Return the bytes that are resident now."""
    statm = _PROC / "statm"
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return _peak()


def _peak() -> int:
    """Return the most bytes that were resident since the record was last set back."""
    status = _PROC / "status"
    if status.exists():
        (line,) = (one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _forget_peak() -> None:
    """Set the record of the peak back to what is resident now."""
    record = _PROC / "clear_refs"
    if record.exists():
        record.write_text("5")


if __name__ == "__main__":
    main()
