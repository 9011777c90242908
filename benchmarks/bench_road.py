"""How long a large model is on the road before it can run."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from measuring import Table, base_parser, milliseconds, show
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk

NODES = 10_000
WIDTH = 8


def main() -> None:
    """Measure and print the table."""
    parser = base_parser(__doc__, repeat=5)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"nodes (default: {NODES})")
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
