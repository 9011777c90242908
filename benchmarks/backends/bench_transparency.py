"""What a session costs beside the library below it, used directly: ONNX Runtime and OpenVINO.

Usage: ``python benchmarks/backends/bench_transparency.py [--models A,B] [--libraries A,B]``

For every model both ways are opened in one process and take turns, with the same number of threads
and the same feeds, and their results are compared. The models are those of
``numpy_backend/architectures.py`` that have been exported, some of those that the onnx wheel ships,
and one of a single node, which shows the overhead itself.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "numpy_backend")]
import numpy as np  # noqa: E402 (after the paths, like its neighbours)
import onnx  # noqa: E402 (see above)
import onnx.backend.test  # noqa: E402 (see above)
from architectures import ARCHITECTURES, find_export, seeded_feeds  # noqa: E402 (beside this one)
from measuring import THREADS, Table, base_parser, machine, show  # noqa: E402 (see above)
from onnx import parser as onnx_parser  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (see above)

LIGHT: Final = ("squeezenet", "shufflenet", "resnet50")
ONE_NODE: Final = "one_node"
GOAL: Final = 1.03
QUIET_POOL: Final = "session.intra_op.allow_spinning"
"""Two pools of threads in one process that wait by spinning would measure each other."""
LONG_ENOUGH: Final = 0.02

Run = Callable[[], list[np.ndarray[Any, Any]]]
Feeds = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Pair:
    """One model on one library, both ways.

    Attributes:
        model: Name of the model.
        library: Name of the library and of its backend.
        direct: Median seconds of a run of the library itself.
        session: Median seconds of a run of a session.
        ratio: Median of the ratios of neighbouring turns, session over direct.
        opened: Seconds to open the library's own, and the session.
        regions: How many regions the session has.
        error: Largest difference, over the largest number.
    """

    model: str
    library: str
    direct: float
    session: float
    ratio: float
    opened: tuple[float, float]
    regions: int
    error: float


def main() -> None:
    """Measure every model on every installed library and print the table."""
    parser = base_parser("A session beside the library used directly.", repeat=30)
    known = [*ARCHITECTURES, *LIGHT, ONE_NODE]
    parser.add_argument("--models", default=",".join(known), help="separated by commas")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="separated by commas")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"default: {THREADS}")
    arguments = parser.parse_args()
    pairs = []
    for name in arguments.models.split(","):
        found = _model(name)
        if found is None:
            print(f"{name}: not exported, see numpy_backend/exporting.py", file=sys.stderr)
            continue
        for library in arguments.libraries.split(","):
            print(f"measuring {name} on {library}", file=sys.stderr)
            pairs.append(_measure(name, library, *found, arguments))
    show(_table(pairs, arguments), markdown=arguments.markdown)


def _model(name: str) -> tuple[bytes, Feeds] | None:
    if name == ONE_NODE:
        text = (
            '<ir_version: 10, opset_import: ["": 18]> g (float[4] x) => (float[4] y) {y = Neg(x)}'
        )
        return onnx_parser.parse_model(text).SerializeToString(), {"x": np.ones(4, np.float32)}
    if name in LIGHT:
        folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
        model = onnx.load(folder / f"light_{name}.onnx")
        stored = {tensor.name for tensor in model.graph.initializer}
        (value,) = (value for value in model.graph.input if value.name not in stored)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        return model.SerializeToString(), {value.name: x}
    try:
        return find_export(name).read_bytes(), seeded_feeds(name)
    except FileNotFoundError:
        return None


def _measure(
    name: str, library: str, model: bytes, feeds: Feeds, arguments: argparse.Namespace
) -> Pair:
    started = time.perf_counter()
    direct = LIBRARIES[library](model, feeds, arguments.threads)
    opened_direct = time.perf_counter() - started
    options: dict[str, Any] = {"threads": arguments.threads}
    if library == "onnxruntime":
        options["session_config"] = [f"{QUIET_POOL}=0"]
    started = time.perf_counter()
    session = sk.InferenceSession(model, backend=f"{library},numpy", options={library: options})
    opened_session = time.perf_counter() - started
    with session:
        through: Run = lambda: session.run(None, feeds)  # noqa: E731 (the other way to run)
        error = max(map(_difference, through(), direct()))
        regions = len(session.partitioning.subgraphs)
        turns = _in_turns(direct, through, arguments.repeat)
    return Pair(
        name,
        library,
        statistics.median(one for one, _ in turns),
        statistics.median(other for _, other in turns),
        statistics.median(other / one for one, other in turns),
        (opened_direct, opened_session),
        regions,
        error,
    )


def _in_turns(direct: Run, through: Run, repeat: int) -> list[tuple[float, float]]:
    """Return seconds per run of both ways; who begins alternates, so that drift hits both alike."""
    count = max(1, int(LONG_ENOUGH / max(_seconds(direct, 3), 1e-9)))
    turns = []
    for turn in range(repeat):
        if turn % 2:
            other = _seconds(through, count)
            turns.append((_seconds(direct, count), other))
        else:
            one = _seconds(direct, count)
            turns.append((one, _seconds(through, count)))
    return turns


def _seconds(run: Run, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - started) / count


def _onnxruntime(model: bytes, feeds: Feeds, threads: int) -> Run:
    import onnxruntime  # noqa: PLC0415 (only where it is measured)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry(QUIET_POOL, "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def _openvino(model: bytes, feeds: Feeds, threads: int) -> Run:
    import openvino  # noqa: PLC0415 (only where it is measured)

    core = openvino.Core()
    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    # As the session computes: float32 throughout, whatever the machine would rather do.
    config["INFERENCE_PRECISION_HINT"] = "f32"
    request = core.compile_model(core.read_model(model), "CPU", config).create_infer_request()
    # Results that belong to the caller, as a session's do.
    return lambda: list(request.infer(feeds, share_inputs=True, share_outputs=False).values())


LIBRARIES: Final[Mapping[str, Callable[[bytes, Feeds, int], Run]]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def _difference(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    scale = float(np.abs(theirs).max(initial=0)) or 1.0
    return float(np.abs(ours.astype(np.float64) - theirs).max(initial=0)) / scale


def _table(pairs: list[Pair], arguments: argparse.Namespace) -> Table:
    rows = [
        [
            pair.model,
            pair.library,
            f"{pair.direct * 1e3:.3f} ms",
            f"{pair.session * 1e3:.3f} ms",
            f"{pair.ratio:.3f}" + (" *" if pair.ratio > GOAL else ""),
            f"{pair.opened[0]:.2f} s",
            f"{pair.opened[1]:.2f} s",
            str(pair.regions),
            f"{pair.error:.1e}",
        ]
        for pair in pairs
    ]
    columns = ["model", "library", "direct", "session", "ratio"]
    return Table(
        "A session beside the library used directly",
        [*columns, "open direct", "open session", "regions", "difference"],
        rows,
        [
            f"{arguments.threads} threads; medians of {arguments.repeat} turns; {machine()}",
            f"ratio: median over neighbouring turns; * is above the goal of {GOAL}",
        ],
    )


if __name__ == "__main__":
    main()
