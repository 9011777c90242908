"""How long a model is on the road before it can run, and until it answers for the first time."""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from measuring import Table, base_parser, milliseconds, show
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.testing import light_models as light

NODES = 10_000
WIDTH = 8


def main() -> None:
    """Measure and print the table."""
    parser = base_parser(__doc__, repeat=5)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"nodes (default: {NODES})")
    parser.add_argument("--network", default="squeezenet", help="that answers for the first time")
    arguments = parser.parse_args()
    data = build(arguments.nodes).SerializeToString()
    rounds = [_road(data) for _ in range(arguments.repeat + 1)]
    warm = sorted(rounds[1:], key=lambda steps: sum(steps.values()))[arguments.repeat // 2]
    rows = [
        [step, milliseconds(rounds[0][step], 0), milliseconds(seconds, 0)]
        for step, seconds in warm.items()
    ]
    claimed = ["load", "bind", "partition"]
    totals = [sum(steps[step] for step in claimed) for steps in (rounds[0], warm)]
    rows.insert(3, ["= before compiling", *(milliseconds(total, 0) for total in totals)])
    notes = [
        f"{arguments.nodes} nodes; the warm column is the median of {arguments.repeat} rounds."
    ]
    table = Table("The road of a large model", ["step", "first", "warm"], rows, notes)
    show(table, markdown=arguments.markdown)
    show(_first_answers(arguments.network, arguments.repeat), markdown=arguments.markdown)


def _first_answers(network: str, repeat: int) -> Table:
    """Compare a session on one backend with one that starts there and builds for another.

    A process for each, since libraries are imported once; they take turns.
    """
    seconds: dict[tuple[str, str], list[float]] = {
        ("onnxruntime", "now"): [],
        ("openvino,onnxruntime", "background"): [],
        ("openvino,onnxruntime", "now"): [],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        onnx.save(light.seeded_model(network), path)
        for _ in range(repeat):
            for (backends, when), seen in seconds.items():
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    seen.append(pool.submit(first_answer, path, backends, when).result())
    alone = seconds["onnxruntime", "now"]
    rows = [
        [backends, when, milliseconds(statistics.median(seen), 0), _median_ratio(seen, alone)]
        for (backends, when), seen in seconds.items()
    ]
    notes = [
        f"{network}, opened and run once in a new process; the goal is 1.20 in the background."
    ]
    columns = ["backends", "build", "first answer", "to the first row"]
    return Table("The first answer", columns, rows, notes)


def _median_ratio(seen: Sequence[float], alone: Sequence[float]) -> str:
    return f"{statistics.median(map(truediv, seen, alone)):.2f}"


def first_answer(path: Path, backends: str, when: str) -> float:
    """Return after how many seconds a session has answered once."""
    feeds = light.seeded_feeds(onnx.load(path))
    started = time.perf_counter()
    with sk.InferenceSession(path, backends, build=when, cache=False) as session:
        session.run(None, feeds)
        return time.perf_counter() - started


def build(nodes: int) -> onnx.ModelProto:
    """Build residual blocks of five nodes: product, bias, activation, scale and sum."""
    rng = np.random.default_rng(0)
    made: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    value = "x"
    for block in range(nodes // 5):
        names = [f"{kind}{block}" for kind in ("w", "b", "s")]
        for name, shape in zip(names, ((WIDTH, WIDTH), (WIDTH,), (1,)), strict=True):
            array = rng.standard_normal(shape, np.float32) * np.float32(0.1)
            weights.append(numpy_helper.from_array(array, name))
        steps = [f"{kind}{block}" for kind in ("product", "sum", "positive", "scaled", "out")]
        sources = [(value, names[0]), (steps[0], names[1]), (steps[1],), (steps[2], names[2])]
        operators = ("MatMul", "Add", "Relu", "Mul", "Add")
        for operator, inputs, output in zip(
            operators, [*sources, (steps[3], value)], steps, strict=True
        ):
            made.append(helper.make_node(operator, inputs, [output], name=output))
        value = steps[-1]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH])
        for name in ("x", value)
    ]
    graph = helper.make_graph(made, "blocks", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _road(data: bytes) -> dict[str, float]:
    seconds: dict[str, float] = {}

    def step(name: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = call()
        seconds[name] = time.perf_counter() - started
        return result

    model = step("load", lambda: sk.load(data))
    bound = step("bind", lambda: sk.bind(model, {"batch": 1}, backend="numpy"))
    partitioning = step("partition", lambda: sk.partition(bound))
    operators = step("compile", lambda: sk.compile_subgraphs(partitioning))
    planned = step("plan", lambda: sk.plan(partitioning, operators))
    session = step("make the session", lambda: sk.Session(planned))
    feeds = {"x": np.ones((1, WIDTH), np.float32)}
    step("first run", lambda: session.run(None, feeds))
    session.close()
    return seconds


if __name__ == "__main__":
    main()
