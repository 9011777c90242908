"""Nine real networks with seeded weights: latency beside ONNX Runtime and onnx.reference."""

import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from measuring import THREADS, Table, base_parser, limit_threads, milliseconds, show, without

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.testing.light_models import (  # noqa: E402 (imports NumPy)
    LIGHT_MODELS,
    REFERENCE_OPSET,
    reference_evaluator,
    seeded_feeds,
    seeded_model,
)

Run = Callable[[], Sequence[Any]]


@dataclass
class Result:
    """What was measured of one model; seconds by runtime."""

    model: str
    nodes: int
    seconds: dict[str, float] = field(default_factory=dict)
    error: float = math.nan

    def ratio(self, other: str) -> float | None:
        """Return how many times as long as ``other`` subgraphkit takes."""
        taken = self.seconds.get(other)
        return None if taken is None else self.seconds["subgraphkit"] / taken


def main() -> None:
    """Measure every model and print the table."""
    parser = base_parser(__doc__, repeat=7)
    parser.add_argument(
        "--models", default=",".join(LIGHT_MODELS), help="names, separated by commas"
    )
    parser.add_argument(
        "--reference-runs", type=int, default=1, help="runs of onnx.reference; 0 leaves it out"
    )
    arguments = parser.parse_args()
    results = [
        _measure(name, arguments.repeat, arguments.reference_runs)
        for name in arguments.models.split(",")
    ]
    columns = ["model", "nodes", "subgraphkit", "onnxruntime", "ratio", "onnx.reference", "ratio"]
    rows = [_row(result) for result in results]
    means = [_geometric_mean(results, other) for other in ("onnxruntime", "onnx.reference")]
    rows.append(["geometric mean", "", "", "", means[0], "", means[1], ""])
    notes = [
        f"Medians of {arguments.repeat} runs, taking turns in one process, {THREADS} threads each.",
        "ratio: subgraphkit's time by the other's, less than 1 is faster.",
        "error: against the last runtime of the row, by the largest output.",
    ]
    if importlib.util.find_spec("onnxruntime") is None:
        notes.append(without("onnxruntime"))
    show(Table("Nine real models", [*columns, "error"], rows, notes), markdown=arguments.markdown)


def _measure(name: str, repeat: int, reference_runs: int) -> Result:
    print(f"measuring {name}", file=sys.stderr)
    model = seeded_model(name)
    feeds = seeded_feeds(model)
    data = model.SerializeToString()
    result = Result(name, len(model.graph.node))
    session = sk.InferenceSession(data, backend="numpy")
    runs: dict[str, Run] = {"subgraphkit": lambda: session.run(None, feeds)}
    runs |= _onnxruntime(data, feeds)
    answers = {runtime: run()[0] for runtime, run in runs.items()}
    times: dict[str, list[float]] = {runtime: [] for runtime in runs}
    for _ in range(repeat):
        for runtime, run in runs.items():
            times[runtime].append(_seconds(run))
    if reference_runs:
        evaluator = reference_evaluator(seeded_model(name, opset=REFERENCE_OPSET))
        run = _Keeping(lambda: evaluator.run(None, feeds))
        times["onnx.reference"] = [_seconds(run) for _ in range(reference_runs)]
        answers["onnx.reference"] = run.kept[0]
    result.seconds = {runtime: statistics.median(taken) for runtime, taken in times.items()}
    *_, expected = answers.values()
    result.error = float(np.abs(answers["subgraphkit"] - expected).max() / np.abs(expected).max())
    session.close()
    return result


class _Keeping:
    """Calls a function and keeps what it returned last."""

    def __init__(self, call: Run) -> None:
        self._call = call
        self.kept: Sequence[Any] = ()

    def __call__(self) -> Sequence[Any]:
        self.kept = self._call()
        return self.kept


def _onnxruntime(data: bytes, feeds: dict[str, Any]) -> dict[str, Run]:
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    import onnxruntime as ort  # noqa: PLC0415 (optional)

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    # Threads that wait by spinning would slow down the runtime whose turn it is.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return {"onnxruntime": lambda: session.run(None, feeds)}


def _seconds(run: Run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _row(result: Result) -> list[str]:
    cells = [result.model, str(result.nodes), milliseconds(result.seconds["subgraphkit"])]
    for other in ("onnxruntime", "onnx.reference"):
        ratio = result.ratio(other)
        cells += [
            milliseconds(result.seconds.get(other)),
            "-" if ratio is None else f"{ratio:.3f}",
        ]
    return [*cells, f"{result.error:.1e}"]


def _geometric_mean(results: Sequence[Result], other: str) -> str:
    ratios = [ratio for result in results if (ratio := result.ratio(other)) is not None]
    return f"{statistics.geometric_mean(ratios):.3f}" if ratios else "-"


if __name__ == "__main__":
    main()
