"""What a process of its own adds to a step, by the bytes that pass, and to opening and ending."""

import os
import time
from statistics import median, quantiles
from typing import Any

from measuring import Table, base_parser, limit_threads, show

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
from onnx import TensorProto, helper  # noqa: E402 (imports NumPy)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.errors import ExecutionError  # noqa: E402 (imports NumPy)

SIZES = (4, 1 << 10, 1 << 14, 1 << 18, 1 << 22)
"""Elements of float32 that go in, and as many come out."""


def main() -> None:
    """Measure and print the tables."""
    arguments = base_parser(__doc__, repeat=200).parse_args()
    model = _negation()
    opened, sessions = {}, {}
    for isolate in ("none", "process"):
        started = time.perf_counter()
        sessions[isolate] = sk.InferenceSession(model, "numpy", isolate=isolate)
        opened[isolate] = time.perf_counter() - started
    rows = [_row(size, sessions, arguments.repeat) for size in SIZES]
    columns = ["in and out", "in this process", "in its own", "first tenth", "added", "copying"]
    ended, again = _ended(sessions["process"]), _again(sessions["process"])
    notes = [
        f"Neg of float32 on NumPy; medians of {arguments.repeat}, taken in turns. The first tenth:",
        "of the runs in its own process. Copying: np.copyto there and back.",
        f"Opening: {opened['none']:.2f} s in this process, {opened['process']:.2f} s in its own.",
        f"Killed, it was an error within {ended:.0f} ms; the run after it took {again:.2f} s.",
    ]
    show(Table("A step in a process of its own", columns, rows, notes), markdown=arguments.markdown)


def _negation() -> bytes:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in ("x", "y")]
    node = helper.make_node("Neg", ["x"], ["y"])
    graph = helper.make_graph([node], "negation", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def _row(size: int, sessions: dict[str, Any], repeat: int) -> list[str]:
    feeds = {"x": np.ones(size, np.float32)}
    there, back = np.empty_like(feeds["x"]), np.empty_like(feeds["x"])
    times: dict[str, list[float]] = {"none": [], "process": [], "copying": []}
    for _ in range(repeat + 5):
        for name, session in sessions.items():
            started = time.perf_counter()
            session.run(None, feeds)
            times[name].append(time.perf_counter() - started)
        started = time.perf_counter()
        np.copyto(there, feeds["x"])
        np.copyto(back, there)
        times["copying"].append(time.perf_counter() - started)
    here, apart, copying = (median(times[name][5:]) * 1e6 for name in times)
    quick = quantiles(times["process"][5:], n=10)[0] * 1e6
    label = f"{size * 4:,} B" if size < SIZES[2] else f"{size * 4 >> 10:,} KiB"
    figures = (here, apart, quick, apart - here, copying)
    return [label, *(f"{one:,.0f} us" for one in figures)]


def _ended(session: Any) -> float:
    """Return the milliseconds until a run says that its process was killed."""
    os.kill(_process(session), 9)
    started = time.perf_counter()
    try:
        session.run(None, {"x": np.ones(4, np.float32)})
    except ExecutionError:
        return (time.perf_counter() - started) * 1e3
    raise RuntimeError("the process was not the one at work")


def _process(session: Any) -> int:
    number: int = session.graph.process.number
    return number


def _again(session: Any) -> float:
    started = time.perf_counter()
    session.run(None, {"x": np.ones(4, np.float32)})
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
