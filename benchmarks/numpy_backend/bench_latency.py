"""Latency of networks exported from PyTorch, beside ONNX Runtime, OpenVINO and onnx.reference.

Usage: ``python benchmarks/numpy_backend/bench_latency.py [--models A,B] [--spread] [--markdown]``

All runtimes are in one process and take turns, with two threads each; ``OPENBLAS_NUM_THREADS``
sets another number for all. Threads that wait for work by spinning would slow down whoever is next:
those of OpenBLAS spin for some tens of milliseconds after a product, those of ONNX Runtime, where
it is told to, after a run. So a turn is a short pause, one run that is not counted, which wakes the
runtime's own threads and puts its weights in the caches, and a block of counted runs.

ONNX Runtime is measured with threads that spin (its default) and with threads that sleep, as if
they were two runtimes, and what counts is the faster of the two for the network: with turns as
above, whoever spins harms nobody but itself.

A turn during which other processes kept a tenth of a CPU busy is taken again, as long as
``--patience`` lasts; networks for which it did not are marked, and their ratios mean little.

A ratio is the time of subgraphkit by that of the other: less than 1 is faster.
"""

import argparse
import functools
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measuring import Table, base_parser, limit_threads, milliseconds, show, without

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
import onnx  # noqa: E402 (imports NumPy)
from architectures import ARCHITECTURES, seeded_feeds  # noqa: E402 (imports NumPy)
from exporting import ensure_exports  # noqa: E402 (imports NumPy)
from quiet import Quiet, threads  # noqa: E402 (beside the others)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)

BLOCK: Final = 3
"""Counted runs of a turn."""

PAUSE: Final = 0.1
"""Seconds between turns, after which no thread spins any more."""

OURS: Final = "subgraphkit"
ORT: Final = "onnxruntime"
OPENVINO: Final = "openvino"
REFERENCE: Final = "onnx.reference"
_SLEEPING: Final = f"{ORT}, sleeping threads"

Run = Callable[[], Any]


@dataclass
class Result:
    """What was measured of one network.

    Attributes:
        model: Its name.
        nodes: Its number of nodes.
        seconds: Counted runs by runtime.
        error: Largest difference from ONNX Runtime's output, by the largest output.
        failed: Runtimes that could not run it.
        disturbed: Turns that count although the machine was busy.
    """

    model: str
    nodes: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    error: float = math.nan
    failed: set[str] = field(default_factory=set)
    disturbed: int = 0

    def median(self, runtime: str) -> float | None:
        """Return the median in seconds; None if it was not measured."""
        taken = self.seconds.get(runtime)
        return statistics.median(taken) if taken else None

    def ratio(self, other: str) -> float | None:
        """Return how many times as long as ``other`` subgraphkit takes."""
        ours, theirs = self.median(OURS), self.median(other)
        return None if ours is None or theirs is None else ours / theirs


def main() -> None:
    """Measure every network and print the table."""
    parser = base_parser("Latency of networks exported from PyTorch.", repeat=9)
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="separated by commas")
    parser.add_argument(
        "--reference-runs", type=int, default=1, help="runs of onnx.reference; 0 leaves it out"
    )
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds per network to wait for a quiet machine"
    )
    parser.add_argument("--spread", action="store_true", help="10th and 90th percentiles too")
    arguments = parser.parse_args()
    results = []
    for name, path in ensure_exports(parser, arguments.models).items():
        print(f"measuring {name}", file=sys.stderr)
        results.append(_measure(name, path, arguments))
        medians = {one: milliseconds(results[-1].median(one)) for one in results[-1].seconds}
        print("  " + ", ".join(f"{one} {cell}" for one, cell in medians.items()), file=sys.stderr)
    present = {runtime for result in results for runtime in (*result.seconds, *result.failed)}
    others = [other for other in (ORT, OPENVINO, REFERENCE) if other in present]
    columns = ["model", "nodes", OURS, *(cell for other in others for cell in (other, "ratio"))]
    repeat = math.ceil(arguments.repeat / BLOCK) * BLOCK
    rows = [_row(result, others, spread=arguments.spread) for result in results]
    means = [cell for other in others for cell in ("", _geometric_mean(results, other))]
    rows.append(["geometric mean", "", "", *means, ""])
    notes = [
        f"Medians of {repeat} runs, taking turns in one process, {threads()} threads each.",
        "ratio: subgraphkit's time by the other's, less than 1 is faster.",
        f"error: largest difference from {ORT}, by the largest output.",
    ]
    if arguments.spread:
        notes.append("In brackets the 10th and the 90th percentile.")
    if any(result.disturbed for result in results):
        notes.append("* measured while other processes were busy: says little.")
    notes += [without(package) for package in (ORT, OPENVINO) if package not in present]
    table = Table("Networks exported from PyTorch", [*columns, "error"], rows, notes)
    show(table, markdown=arguments.markdown)


def _measure(name: str, path: Path, arguments: argparse.Namespace) -> Result:
    feeds = seeded_feeds(name)
    result = Result(name, len(onnx.load(path, load_external_data=False).graph.node))
    session = sk.InferenceSession(str(path), backend="numpy")
    runs: dict[str, Run] = {OURS: lambda: session.run(None, feeds)[0]}
    runs |= _onnxruntime(path, feeds) | _openvino(path, feeds, result)
    answers = {runtime: np.array(run()) for runtime, run in runs.items()}
    quiet = Quiet(arguments.patience)
    result.seconds = _in_turns(runs, arguments.repeat, quiet)
    result.disturbed = quiet.disturbed
    _take_faster(result.seconds)
    if arguments.reference_runs:
        _measure_reference(result, path, feeds, arguments.reference_runs)
    if ORT in answers:
        expected = answers[ORT]
        result.error = float(np.abs(answers[OURS] - expected).max() / np.abs(expected).max())
    session.close()
    return result


def _in_turns(runs: dict[str, Run], repeat: int, quiet: Quiet) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {runtime: [] for runtime in runs}
    for _ in range(math.ceil(repeat / BLOCK)):
        for runtime, run in runs.items():
            times[runtime] += quiet.measure(functools.partial(_turn, run))
    return times


def _turn(run: Run) -> list[float]:
    time.sleep(PAUSE)
    run()
    return [_seconds(run) for _ in range(BLOCK)]


def _take_faster(times: dict[str, list[float]]) -> None:
    """Keep the faster of ONNX Runtime's two ways to wait."""
    if ORT in times:
        times[ORT] = min(times[ORT], times.pop(_SLEEPING), key=statistics.median)


def _onnxruntime(path: Path, feeds: dict[str, Any]) -> dict[str, Run]:
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    import onnxruntime as ort  # noqa: PLC0415 (optional)

    def run_of(spinning: str) -> Run:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)[0]

    return {ORT: run_of("1"), _SLEEPING: run_of("0")}


def _openvino(path: Path, feeds: dict[str, Any], result: Result) -> dict[str, Run]:
    if importlib.util.find_spec("openvino") is None:
        return {}
    import openvino  # noqa: PLC0415 (optional)

    settings = {
        "INFERENCE_NUM_THREADS": threads(),
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    try:
        compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    except RuntimeError as error:
        _note_failure(result, OPENVINO, error)
        return {}
    request = compiled.create_infer_request()
    return {OPENVINO: lambda: request.infer(feeds)[compiled.output(0)]}


def _measure_reference(result: Result, path: Path, feeds: dict[str, Any], repeat: int) -> None:
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (on demand)

    time.sleep(PAUSE)
    try:
        evaluator = ReferenceEvaluator(str(path))
        result.seconds[REFERENCE] = [
            _seconds(lambda: evaluator.run(None, feeds)) for _ in range(repeat)
        ]
    except Exception as error:  # noqa: BLE001 (whatever it cannot do is a fact to be shown)
        _note_failure(result, REFERENCE, error)


def _note_failure(result: Result, runtime: str, error: Exception) -> None:
    message = str(error).strip().partition("\n")[0]
    print(f"{runtime} fails: {type(error).__name__}: {message}", file=sys.stderr)
    result.failed.add(runtime)


def _seconds(run: Run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _row(result: Result, others: Sequence[str], *, spread: bool) -> list[str]:
    name = f"{result.model} *" if result.disturbed else result.model
    cells = [name, str(result.nodes), _cell(result, OURS, spread=spread)]
    for other in others:
        ratio = result.ratio(other)
        cells += [
            _cell(result, other, spread=spread),
            "-" if ratio is None else f"{ratio:.3f}",
        ]
    return [*cells, f"{result.error:.1e}"]


def _cell(result: Result, runtime: str, *, spread: bool) -> str:
    if runtime in result.failed:
        return "fails"
    cell = milliseconds(result.median(runtime))
    taken = result.seconds.get(runtime, [])
    if not spread or len(taken) < BLOCK:
        return cell
    low, high = np.percentile(taken, [10, 90]) * 1e3
    return f"{cell} ({low:.1f}-{high:.1f})"


def _geometric_mean(results: Sequence[Result], other: str) -> str:
    ratios = [ratio for result in results if (ratio := result.ratio(other)) is not None]
    return f"{statistics.geometric_mean(ratios):.3f}" if ratios else "-"


if __name__ == "__main__":
    main()
