"""How long others wait while eight clients do their worst: one replica behind Ray Serve, HTTP.

56 clients ask a small model each two seconds; the other 8 come from a process of their own.
"""

import asyncio
import gzip
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from measuring import Table, base_parser, show

os.environ.setdefault("RAY_agent_register_timeout_ms", "400000")
os.environ.setdefault("RAY_worker_register_timeout_seconds", "240")
os.environ.setdefault("RAY_worker_niceness", "0")
import numpy as np

from subgraphkit.serving import oip

CLIENTS, HOSTILE = 56, 8
LIMIT_S = 5.0
EVERY_S = 2.0
"""Of each client; Ray's proxy alone takes some 12 ms of a processor for a request."""
FROM = "127.0.0.2"
"""The address of the hostile clients: callers are told apart by it."""
HOW: dict[str, Any] = {"isolate": "process"} if os.environ.get("ISOLATE") else {}
ROWS = ["nobody", "bodies", "loops in another model", "loops in the same model"]
ROWS += ["loops from the same address"]
LOOP = """<ir_version: 10, opset_import: ["": 20]> g (float[N,4] x, int64 n) => (float[N,4] y) {
    true = Constant <value: tensor = bool {1}> ()
    y = Loop (n, true, x) <
        body = turn (int64 i, bool go, float[N,4] a) => (bool on, float[N,4] b) {
            on = Identity (go)
            b = Neg (a)
        }
    >
}"""


def http(path: str, body: bytes, *, length: int | None = None, **headers: str) -> bytes:
    """Return a request as its bytes."""
    words = {"Content-Length": str(len(body) if length is None else length), **headers}
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in words.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def infer(model: str, feeds: dict[str, Any]) -> bytes:
    """Return a request for an inference, with binary tensors."""
    sent = oip.encode_request(oip.InferenceRequest(feeds, binary=True))
    return http(f"/v2/models/{model}/infer", sent.body, **sent.headers)


def floats(size: int) -> bytes:
    """Return JSON of as many floats as fit."""
    head = '{"inputs":[{"name":"x","shape":[%d,4],"datatype":"FP32","data":['
    count = size // 20 * 4
    data = ",".join(["0.25"] * count)
    return http("/v2/models/quick/infer", (head % (count // 4) + data + "]}]}").encode())


async def answered(reader: asyncio.StreamReader) -> int:
    """Read an answer, and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(None, 2)[1])


async def ask(
    port: int, request: bytes, *, pieces: int = 1, pause_s: float = 0.0, address: str = FROM
) -> None:
    """Send a request in pieces, on a connection of its own; read the answer, if there is one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        for at in range(pieces):
            writer.write(request[len(request) * at // pieces : len(request) * (at + 1) // pieces])
            await writer.drain()
            await asyncio.sleep(pause_s)
        await answered(reader)
    finally:
        writer.close()


def attacks(kind: str) -> list[Callable[[int], Awaitable[None]]]:
    """Return what each of the hostile clients does, again and again."""
    body = infer("quick", {"x": np.ones((4096, 4), np.float32)})
    zipped = gzip.compress(bytes(100 << 20), 1)
    bomb = http("/v2/models/quick/infer", zipped, **{"Content-Encoding": "gzip"})
    json = floats(2_000_000)

    async def half(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(body[: len(body) // 2])
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()

    def loops(model: str, address: str = FROM) -> Callable[[int], Awaitable[None]]:
        one = np.ones((1, 4), np.float32)
        request = infer(model, {"x": one, "n": np.array(2**60)})
        return lambda port: ask(port, request, address=address)

    return {
        "nobody": [],
        "bodies": [
            *[lambda port: ask(port, body, pieces=100, pause_s=0.1)] * 2,
            *[half] * 2,
            lambda port: ask(port, http("/v2/models/quick/infer", body, length=10 * len(body))),
            lambda port: ask(port, bomb),
            *[lambda port: ask(port, json)] * 2,
        ],
        "loops in another model": [loops("loop")] * HOSTILE,
        "loops in the same model": [loops("quick")] * HOSTILE,
        "loops from the same address": [loops("quick", "127.0.0.1")] * HOSTILE,
    }[kind]


def hostile(kind: str, port: int, seconds: float) -> None:
    """Be the hostile clients, for a while."""

    async def one(attack: Callable[[int], Awaitable[None]], end: float) -> None:
        while time.monotonic() < end:
            try:
                await asyncio.wait_for(attack(port), end - time.monotonic())
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                await asyncio.sleep(0.01)

    async def everyone() -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(one(attack, end) for attack in attacks(kind)))

    asyncio.run(everyone())


async def others(port: int, seconds: float) -> tuple[list[float], int]:
    """Return the times of the other clients, and how many answers were no 200.

    Each asks at its own times, whether it was answered or not, and its time is from then on.
    """
    request = infer("quick", {"x": np.ones((1, 4), np.float32), "n": np.array(1)})
    times: list[float] = []
    wrong = 0

    async def one(delay: float) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for due in np.arange(begin + delay, begin + seconds, EVERY_S):
            await asyncio.sleep(due - time.monotonic())
            writer.write(request)
            wrong += await answered(reader) != 200  # noqa: PLR2004 (of HTTP)
            times.append(time.monotonic() - due)
        writer.close()

    begin = time.monotonic() + 1.0
    await asyncio.gather(*(one(at * EVERY_S / CLIENTS) for at in range(CLIENTS)))
    return times, wrong


def seconds_of(title: str) -> float:
    """Return the processor seconds of processes whose title begins so."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_text().startswith(title):
                said = (place / "stat").read_text().rpartition(")")[2].split()
                ticks += int(said[11]) + int(said[12])
        except OSError:  # it has ended meanwhile
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print the table."""
    words = base_parser(__doc__, repeat=1)
    words.add_argument("--seconds", type=float, default=20.0, help="of each row (default: 20)")
    words.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS, help="some of them")
    arguments = words.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as port:
        asyncio.run(others(port, 2.0))
        kinds = arguments.rows * arguments.repeat
        rows = [row(kind, port, arguments.seconds) for kind in kinds]
    titles = ["the 8", "p50", "p95", "longest", "CPU of replica", "of proxy", "answers (no 200)"]
    show(Table("Hostile clients", titles, rows), markdown=arguments.markdown)


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve two models in one replica, and yield the port."""
    import onnx  # noqa: PLC0415 (the hostile process has no use for it)
    import ray  # noqa: PLC0415 (likewise)
    from onnx import parser  # noqa: PLC0415 (likewise)
    from ray import serve  # noqa: PLC0415 (likewise)

    import subgraphkit as sk  # noqa: PLC0415 (likewise)
    from subgraphkit.serving.ray_serve import deployment  # noqa: PLC0415 (likewise)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    specs = {}
    for name in ("quick", "loop"):
        onnx.save(parser.parse_model(LOOP), folder / f"{name}.onnx")
        specs[name] = sk.SessionSpec.of(folder / f"{name}.onnx", backend="numpy", **HOW)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(deployment(specs, timeout_s=LIMIT_S).bind())
        yield port
    finally:
        serve.shutdown()
        ray.shutdown()


def row(kind: str, port: int, seconds: float) -> list[str]:
    """Measure beside one kind of hostile clients."""
    attack = multiprocessing.get_context("spawn").Process(
        target=hostile, args=(kind, port, seconds + 6)
    )
    attack.start()
    time.sleep(4)  # it imports, and begins
    names = ("ray::ServeReplica", "ray::ProxyActor")
    before = [seconds_of(one) for one in names]
    times, wrong = asyncio.run(others(port, seconds))
    used = [f"{seconds_of(one) - b:.1f} s" for one, b in zip(names, before, strict=True)]
    attack.join()
    each = [median(times), quantiles(times, n=20)[18], max(times)]
    made = [kind, *(f"{one * 1e3:.0f} ms" for one in each), *used, f"{len(times)} ({wrong})"]
    print(made, flush=True)
    return made


if __name__ == "__main__":
    main()
