"""What a stream gains where two subgraphs work on different processors, by its depth."""

import importlib.util
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from measuring import Table, base_parser, limit_threads, show, without

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
from onnx import TensorProto, helper, numpy_helper  # noqa: E402 (imports NumPy)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.partitioning import Constraints  # noqa: E402 (imports NumPy)

DEPTHS = (1, 2, 4)
ITEMS = 40
SIZE = 384
LAYERS = 12
HALVES = (("device", "onnxruntime"), ("onnxruntime", "openvino"), ("openvino", "numpy"))


class Waiting(sk.SubgraphOperator):
    """Takes its time on a processor of its own, as a device does, for one run at a time."""

    thread_safe = False
    seconds = 0.0

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Wait; what it computes does not matter here."""
        del outputs
        time.sleep(Waiting.seconds)
        return [inputs[0].copy()]


class Device(sk.Backend):
    """Claims what it is asked for."""

    name = "device"

    def properties(self) -> list[sk.SubgraphProperty]:
        """Return the one strategy."""
        return [_Everything()]


class _Everything(sk.SubgraphProperty):
    def create_selector(self, graph: Any) -> sk.SubgraphSelector:
        return sk.OpSelector(graph, ["MatMul", "Tanh"])

    def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
        del subgraph, context
        return Waiting()


def main() -> None:
    """Measure and print the table."""
    arguments = base_parser(__doc__, repeat=5).parse_args()
    sk.register_backend(Device)
    rows, notes = [], []
    for names in HALVES:
        absent = [one for one in names if one not in {"device", "numpy"} and not _is_here(one)]
        if absent:
            notes.append(without(absent[0]))
            continue
        rows.append(_row(names, arguments.repeat))
    depths = [f"depth {one}" for one in DEPTHS]
    columns = ["first half, second half", "they take", *depths, "4 beside 1", "at most"]
    notes.append(
        f"Items per second, medians of {arguments.repeat} rounds of {ITEMS} items in turns; one "
        "thread each. The device waits for as long as the other half computes. At most: the sum of "
        "both halves over the longer one, if each is on a processor of its own."
    )
    show(Table("A stream over two subgraphs", columns, rows, notes), markdown=arguments.markdown)


def _is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _row(names: tuple[str, str], repeat: int) -> list[str]:
    first, second = names
    feeds = {"x": np.full((SIZE, SIZE), 0.01, np.float32)}
    if first == "device":
        with _opened(second, second) as alone:
            Waiting.seconds = _seconds(alone, feeds, 1) / ITEMS / 2
    found: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    with _opened(first, second) as session:
        session.warm_up(runs=3)
        profile = session.profile(ITEMS, inside=False)
        with profile:
            _seconds(session, feeds, 1)
        parts = list(profile.subgraph_seconds.values())
        for _ in range(repeat):
            for depth in DEPTHS:
                found[depth].append(_seconds(session, feeds, depth))
    rates = {depth: ITEMS / median(seconds) for depth, seconds in found.items()}
    shown = [f"{rate:.1f}" for rate in rates.values()]
    halves = " and ".join(f"{one * 1e3:.1f}" for one in parts)
    limit = f"{sum(parts) / max(parts):.2f} x"
    return [f"{first}, {second}", f"{halves} ms", *shown, f"{rates[4] / rates[1]:.2f} x", limit]


def _opened(first: str, second: str) -> sk.InferenceSession:
    pins: dict[Any, str] = {f"{half}_{at}": (first, second)[half == "b"]
                            for half in "ab" for at in range(2 * LAYERS)}  # fmt: skip
    backends = list(dict.fromkeys([first, second]))
    return sk.InferenceSession(
        _model(), backends, constraints=Constraints(pins=pins), threads=1, strict=True
    )


def _model() -> bytes:
    """Make two halves of equal layers."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((SIZE, SIZE)).astype(np.float32) / SIZE**0.5
    nodes, value = [], "x"
    for half in "ab":
        for at in range(2 * LAYERS):
            inputs = [value, "w"] if at % 2 == 0 else [value]
            last = (half, at) == ("b", 2 * LAYERS - 1)
            value = "y" if last else f"{half}v{at}"
            kind = "MatMul" if at % 2 == 0 else "Tanh"
            nodes.append(helper.make_node(kind, inputs, [value], name=f"{half}_{at}"))
    ends = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, [SIZE, SIZE]) for one in ("x", "y")
    ]
    weights = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def _seconds(session: sk.InferenceSession, feeds: dict[str, Any], depth: int) -> float:
    started = time.perf_counter()
    count = sum(1 for _ in session.stream((feeds for _ in range(ITEMS)), depth))
    assert count == ITEMS  # noqa: S101 (a figure of fewer would be wrong)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
