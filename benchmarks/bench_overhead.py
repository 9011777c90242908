"""What a session adds to the work: one node, and a hundred, beside ONNX Runtime."""

import importlib.util
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from measuring import THREADS, Table, base_parser, limit_threads, median_seconds, show, without

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
import onnx  # noqa: E402 (imports NumPy)
from onnx import TensorProto, helper  # noqa: E402 (imports NumPy)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)

CHAIN = 100
SIZE = 4


def main() -> None:
    """Measure and print the table."""
    arguments = base_parser(__doc__, repeat=15).parse_args()
    feeds = {"x": np.linspace(-1, 1, SIZE, dtype=np.float32)}
    one, chain = _chain(1), _chain(CHAIN)
    rows = []
    for name, session in _sessions(one).items():
        few = _microseconds(session, feeds, arguments.repeat, 2000)
        many = _microseconds(_sessions(chain)[name], feeds, arguments.repeat, 200)
        per_node = (many - few) / (CHAIN - 1)
        rows.append([name, f"{few:.2f} us", f"{many:.1f} us", f"{per_node:.2f} us"])
    direct = median_seconds(lambda: np.negative(feeds["x"]), arguments.repeat, times=2000) * 1e6
    rows.append(["numpy.negative called directly", f"{direct:.2f} us", "", f"{direct:.2f} us"])
    columns = ["session.run", "1 node", f"{CHAIN} nodes", "per further node"]
    notes = [f"Neg on float32[{SIZE}]; medians of {arguments.repeat}."]
    if importlib.util.find_spec("onnxruntime") is None:
        notes.append(without("onnxruntime"))
    show(Table("Overhead of a run", columns, rows, notes), markdown=arguments.markdown)


def _chain(length: int) -> bytes:
    names = ["x", *(f"v{at}" for at in range(length - 1)), "y"]
    nodes = [helper.make_node("Neg", [source], [target]) for source, target in pairwise(names)]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _sessions(model: bytes) -> dict[str, Any]:
    sessions: dict[str, Any] = {
        "subgraphkit": sk.InferenceSession(model, backend="numpy"),
        "subgraphkit, checked=False": sk.InferenceSession(model, backend="numpy", checked=False),
    }
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime as ort  # noqa: PLC0415 (optional)

        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        # Chains of Neg would otherwise be folded to nothing.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        sessions["onnxruntime, no rewriting"] = ort.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
    return sessions


def _microseconds(session: Any, feeds: dict[str, Any], repeat: int, times: int) -> float:
    run: Callable[[], object] = lambda: session.run(None, feeds)  # noqa: E731 (short)
    return median_seconds(run, repeat, times=times) * 1e6


if __name__ == "__main__":
    main()
