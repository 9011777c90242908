"""Ray Data and Ray Serve beside the same with ONNX Runtime alone, and beside a call of the session.

The model has the size of MiniLM and random weights, on ONNX Runtime with one thread everywhere.
"""

import argparse
import os
import socket
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from measuring import Table, base_parser, limit_threads, show

limit_threads()
os.environ.setdefault("RAY_agent_register_timeout_ms", "400000")
os.environ.setdefault("RAY_worker_register_timeout_seconds", "240")
os.environ.setdefault("RAY_worker_niceness", "0")
import numpy as np  # noqa: E402 (reads the number of threads when imported)
import onnx  # noqa: E402 (imports NumPy)
import ray  # noqa: E402 (reads its settings when imported)
from onnx import numpy_helper, parser  # noqa: E402 (imports NumPy)
from ray import serve  # noqa: E402 (reads its settings when imported)
from starlette.requests import Request  # noqa: E402 (behind Ray)
from starlette.responses import Response  # noqa: E402 (behind Ray)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.serving import oip  # noqa: E402 (imports NumPy)
from subgraphkit.serving.ray_data import map_batches  # noqa: E402 (imports Ray)
from subgraphkit.serving.ray_serve import deployment  # noqa: E402 (imports Ray)

LAYERS, WIDTH, INNER = 6, 384, 1536
BATCH = 8


def main() -> None:
    """Measure and print the tables."""
    words = base_parser(__doc__, repeat=100)
    words.add_argument("--rounds", type=int, default=10, help="rounds of Ray Data (default: 10)")
    words.add_argument("--tokens", type=int, default=128, help="of a row (default: 128)")
    words.add_argument("--rows", type=int, default=256, help="rows of a round (default: 256)")
    words.add_argument(
        "--seconds", type=float, default=600.0, help="begin nothing after so long (default: 600)"
    )
    arguments = words.parse_args()
    end = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(_network(arguments.tokens), path)
        ray.init(
            num_cpus=2, include_dashboard=False, object_store_memory=1 << 30, log_to_driver=False
        )
        try:
            for measured in (_serving, _batches):
                show(measured(path, arguments, end), markdown=arguments.markdown)
        finally:
            ray.shutdown()


def _network(tokens: int) -> onnx.ModelProto:
    """Make the products of a transformer's layers, without its attention."""
    random, weights, lines, last = np.random.default_rng(0), [], [], "x"
    sizes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, INNER), (INNER, WIDTH)]
    for place, (rows, columns) in enumerate(sizes * LAYERS):
        array = (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{place}"))
        lines.append(f"p{place} = MatMul ({last}, w{place})\nr{place} = Tanh (p{place})")
        last = f"r{place}"
    lines[-1] = lines[-1].replace(last, "y")
    shape = f"float[N,{tokens},{WIDTH}]"
    head = '<ir_version: 10, opset_import: ["": 18]>'
    model = parser.parse_model(
        f"{head} net ({shape} x) => ({shape} y) {{\n{chr(10).join(lines)}\n}}"
    )
    model.graph.initializer.extend(weights)
    return model


class Plain:
    """An actor that holds ONNX Runtime alone."""

    def __init__(self, path: str) -> None:
        import onnxruntime  # noqa: PLC0415 (in the actor)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Compute a batch."""
        return {"id": batch["id"], "y": self._session.run(["y"], {"x": batch["x"]})[0]}


class PlainServed(Plain):
    """What one writes for Serve in a minute: ONNX Runtime, and arrays as bytes over HTTP."""

    async def __call__(self, request: Any) -> Any:
        """Compute what came by a handle or over HTTP."""
        if not isinstance(request, Request):
            return self._session.run(["y"], request)
        x = np.frombuffer(await request.body(), np.float32).reshape(1, -1, WIDTH)
        return Response(self._session.run(["y"], {"x": x})[0].tobytes())


def _spec(path: Path) -> sk.SessionSpec:
    return sk.SessionSpec.of(path, backend="onnxruntime", threads=1)


def _batches(path: Path, arguments: argparse.Namespace, end: float) -> Table:
    ray.data.DataContext.get_current().enable_progress_bars = False
    x = np.random.default_rng(1).random((arguments.rows, arguments.tokens, WIDTH), np.float32)
    rows = ray.data.from_items([{"id": at, "x": one} for at, one in enumerate(x)]).materialize()
    pool = ray.data.ActorPoolStrategy(size=1)
    words = {"batch_size": BATCH, "batch_format": "numpy", "compute": pool, "num_cpus": 1}
    asked: dict[str, Callable[[], Any]] = {
        "ONNX Runtime": lambda: rows.map_batches(Plain, fn_constructor_args=(str(path),), **words),
        "subgraphkit": lambda: map_batches(rows, _spec(path), keep=["id"], batch_size=BATCH),
    }
    rates: dict[str, list[float]] = {name: [] for name in asked}
    for place in range(arguments.rounds):
        if time.monotonic() > end:
            break
        for name in list(asked)[:: 1 if place % 2 else -1]:
            rates[name].append(_rate(asked[name]()))
    ratios = [ours / plain for plain, ours in zip(*rates.values(), strict=True)]
    cells = [[name, f"{median(found):.1f}"] for name, found in rates.items()]
    notes = [
        f"Medians of {len(ratios)} rounds in turns, first batch of {BATCH} rows to last.",
        f"subgraphkit over ONNX Runtime: {median(ratios):.3f} in the median of the rounds,",
        f"from {min(ratios):.3f} to {max(ratios):.3f}.",
    ]
    return Table("Ray Data", ["actor", "rows a second"], cells, notes)


def _rate(dataset: Any) -> float:
    times = [
        time.perf_counter() for _ in dataset.iter_batches(batch_size=BATCH, batch_format="numpy")
    ]
    return (len(times) - 1) * BATCH / (times[-1] - times[0])


def _serving(path: Path, arguments: argparse.Namespace, end: float) -> Table:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    handle = serve.run(deployment(_spec(path)).bind())
    served = serve.deployment(PlainServed, ray_actor_options={"num_cpus": 1}).bind(str(path))
    plain = serve.run(served, name="plain", route_prefix="/plain")
    session = _spec(path).open()
    feeds = {"x": np.random.default_rng(1).random((1, arguments.tokens, WIDTH), np.float32)}
    sent = oip.encode_request(oip.InferenceRequest(feeds, binary=True))
    address = f"http://127.0.0.1:{port}/v2/models/model/infer"

    def plain_http() -> None:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/plain", feeds["x"].tobytes())
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 (ours)
            np.frombuffer(answer.read(), np.float32)

    def http() -> None:
        asked = urllib.request.Request(address, sent.body, dict(sent.headers))
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 (ours)
            oip.decode_response(answer.read(), answer.headers[oip.HEADER])

    asked: dict[str, Callable[[], object]] = {
        "a call of the session": lambda: session.run(None, feeds),
        "a handle of Serve": lambda: handle.remote(feeds).result(),
        "the same, ONNX Runtime alone": lambda: plain.remote(feeds).result(),
        "HTTP, binary tensors": http,
        "HTTP, ONNX Runtime alone": plain_http,
    }
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(arguments.repeat + 5):
        for name, call in asked.items():
            if time.monotonic() < end:
                started = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - started) * 1e3)
    session.close()
    serve.shutdown()  # its replicas hold the processors that the actors of Ray Data wait for
    middle = [median(one[5:]) for one in times.values()]
    quick = [quantiles(one[5:], n=10)[0] for one in times.values()]
    cells = [
        [name, *(f"{one:.1f} ms" for one in (half, half - middle[0], tenth, tenth - quick[0]))]
        for name, half, tenth in zip(asked, middle, quick, strict=True)
    ]
    notes = [
        f"Medians of {len(times['HTTP, binary tensors']) - 5}, in turns.",
        f"One row of {feeds['x'].nbytes >> 10} KiB.",
    ]
    return Table(
        "Ray Serve",
        ["asked by", "answered after", "added", "first tenth", "added then"],
        cells,
        notes,
    )


if __name__ == "__main__":
    main()
