"""Run a real ResNet-50 graph on the chosen backends and hold it against onnx.reference.

The graph comes with the onnx wheel, 415 nodes of which 239 stand for weights; those are filled with
seeded random values (``subgraphkit.testing.light_models``). ``SUBGRAPH_BACKEND`` says who runs it.
"""

import argparse
import importlib
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.light_models import (
    REFERENCE_OPSET,
    light_model_path,
    reference_evaluator,
    seeded_feeds,
    seeded_model,
)

NAME = "resnet50"
RELATIVE_TOLERANCE = 1e-3
ABSOLUTE_TOLERANCE = 1e-5
SHOWN_CLASSES = 5

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Measured:
    """What one runtime answered and how long it took, in seconds by step."""

    runtime: str
    probabilities: Probabilities
    seconds: dict[str, float]


def main(argv: Sequence[str] | None = None) -> int:
    """Show the partitioning, the answer, the error and the times.

    Args:
        argv: The command line without the program's name; by default the process's own.

    Returns:
        0 if all runtimes agree within float32 tolerance, otherwise 1; 1 as well if subgraphkit says
        why it cannot run.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and the picture")
    parser.add_argument("--runs", type=_at_least_one, default=5, help="runs to take the median of")
    arguments = parser.parse_args(argv)
    try:
        return _demonstrate(arguments.seed, arguments.runs)
    except SubgraphkitError as error:  # such as a backend that is not there
        print(f"error: {error}", file=sys.stderr)
        return 1


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 up, got {text!r}")
    return int(text)


def _demonstrate(seed: int, runs: int) -> int:
    model = seeded_model(NAME, seed)
    _tell_model(model)
    feeds = seeded_feeds(model, seed)
    data = model.SerializeToString()
    ours, session = _subgraphkit(data, feeds, runs)
    print(f"backends: {', '.join(session.partitioning.backends)} (from {_origin(session)})\n")
    print(session.partitioning.report(details=True))
    if not session.partitioning.refusals:
        print("refused: nothing\n")
    others = [_reference(seed, feeds), *_onnxruntime(data, feeds, runs)]
    _show_classes([ours, *others])
    agreed = _show_errors(ours, others)
    _show_times([ours, *others], runs)
    return 0 if agreed else 1


def _tell_model(model: onnx.ModelProto) -> None:
    shipped = onnx.load(light_model_path(NAME))
    constants = sum(node.op_type == "ConstantOfShape" for node in shipped.graph.node)
    nodes = len(shipped.graph.node)
    weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    print(f"model: {light_model_path(NAME).name}, {nodes} nodes: {nodes - constants} operators and")
    print(f"  {constants} constants, replaced by {weights / 1e6:.1f} million seeded weights")


def _origin(session: sk.Session) -> str:
    origin: str = session.resolved_config.sources["backend"][1]
    return origin


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def _median_run(run: Callable[[], Sequence[Any]], runs: int) -> tuple[Probabilities, float, float]:
    """Return the answer, the time of the first run and the median of those after it."""
    results, first = _timed(run)
    times = [_timed(run)[1] for _ in range(runs)]
    return np.asarray(results[0]), first, statistics.median(times)


def _subgraphkit(
    data: bytes, feeds: dict[str, Probabilities], runs: int
) -> tuple[Measured, sk.Session]:
    model, load = _timed(lambda: sk.load(data))
    session, bind = _timed(lambda: sk.InferenceSession(model))
    answer, first, run = _median_run(lambda: session.run(None, feeds), runs)
    seconds = {"load": load, "bind": bind, "first run": first, "run": run}
    return Measured("subgraphkit", answer, seconds), session


def _reference(seed: int, feeds: dict[str, Probabilities]) -> Measured:
    # In operator set 9 onnx.reference normalises as in training, so it gets a later one.
    model = seeded_model(NAME, seed, opset=REFERENCE_OPSET)
    evaluator, load = _timed(lambda: reference_evaluator(model))
    answer, first, run = _median_run(lambda: evaluator.run(None, feeds), 1)
    return Measured("onnx.reference", answer, {"load": load, "first run": first, "run": run})


def _onnxruntime(data: bytes, feeds: dict[str, Probabilities], runs: int) -> list[Measured]:
    if importlib.util.find_spec("onnxruntime") is None:
        print("onnxruntime is not installed, so it is left out of the comparison\n")
        return []
    ort = importlib.import_module("onnxruntime")  # optional, and without types
    session, load = _timed(lambda: ort.InferenceSession(data, providers=["CPUExecutionProvider"]))
    answer, first, run = _median_run(lambda: session.run(None, feeds), runs)
    return [Measured("onnxruntime", answer, {"load": load, "first run": first, "run": run})]


def _show_classes(measured: Sequence[Measured]) -> None:
    best = np.argsort(measured[0].probabilities, axis=None)[::-1][:SHOWN_CLASSES]
    rows = [
        [f"class {index}", *(f"{one.probabilities.flat[index]:.6f}" for one in measured)]
        for index in best.tolist()
    ]
    _show_table(["largest outputs", *(one.runtime for one in measured)], rows)


def _show_errors(ours: Measured, others: Sequence[Measured]) -> bool:
    agreed = True
    for other in others:
        difference = np.abs(ours.probabilities - other.probabilities)
        relative = (difference / (np.abs(other.probabilities) + ABSOLUTE_TOLERANCE)).max()
        close = np.allclose(
            ours.probabilities,
            other.probabilities,
            rtol=RELATIVE_TOLERANCE,
            atol=ABSOLUTE_TOLERANCE,
        )
        agreed = agreed and close
        print(
            f"error against {other.runtime}: {difference.max():.2e} at most, {relative:.2e} "
            f"relative: {'ok' if close else 'FAIL'}"
        )
    print()
    return agreed


def _show_times(measured: Sequence[Measured], runs: int) -> None:
    steps = list(measured[0].seconds)
    rows = [[step, *(_milliseconds(one.seconds.get(step)) for one in measured)] for step in steps]
    _show_table(["time", *(one.runtime for one in measured)], rows)
    print(f"run: median of {runs} (onnx.reference: one) after the first; {os.cpu_count()} CPUs")


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f} ms"


def _show_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [list(heading), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    print()


if __name__ == "__main__":
    sys.exit(main())
