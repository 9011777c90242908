"""A server of models over HTTP on the loopback, and clients that do what they should not."""

import asyncio
import gzip
import random
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.http import answer
from subgraphkit.serving.models import Models
from tests.campaign.trials import Attack, Case, Outcome, require
from tests.models import parsed

X: Final = np.arange(8, dtype=np.float32).reshape(2, 4)
PATH: Final = "/v2/models/m/infer"
MOVES: Final = ("slow", "half", "long", "short", "noise", "packed", "lists", "many", "loop")
TEXTS: Final = {
    "negation": "g (float[N,4] x) => (float[N,4] y) { y = Neg (x) }",
    "doubling": "g (float[N,4] x) => (float[N,4] y) { y = Add (x, x) }",
    "loop": """g (int64 n, float[1] x) => (float[1] y) { c = Constant<value = bool {1}>()
        y = Loop <body = b (int64 i, bool ci, float[1] s) => (bool co, float[1] t)
        { co = Identity(ci) t = Neg(s) }> (n, c, x) }""",
}


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            return
        models, loop = self.server.served  # type: ignore[attr-defined]
        asked = answer(models, self.command, self.path, self.headers, body)
        status, headers, sent = asyncio.run_coroutine_threadsafe(asked, loop).result()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(sent))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that left."""


class Wire(Attack):
    """Hostile clients, a model exchanged meanwhile and a drain at the end; others are answered."""

    name, backends, may_refuse, cpu = "http", ("numpy", "onnxruntime"), False, 20.0
    about = "HTTP: slow and broken bodies, wrong lengths, 200 connections, updates and drains"

    def prepare(self, scratch: Path, backend: str) -> None:
        self._specs = {}
        for name, text in TEXTS.items():
            path = scratch / f"{name}.onnx"
            onnx.save(parsed(text), path)
            spec = sk.SessionSpec.of(path, backend if name != "loop" else "numpy", threads=1)
            self._specs[name] = spec.to_json()

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        return {"moves": rng.choices(MOVES, k=rng.randint(1, 6)), "seed": seed}

    def attempt(self, case: Case, backend: str) -> Outcome:
        loop, models = asyncio.new_event_loop(), Models()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        def serving(name: str) -> Any:
            specs = {"m": self._specs[name], "loop": self._specs["loop"]}
            return asyncio.run_coroutine_threadsafe(models.exchange(specs, None, 2.0), loop)

        serving("negation").result(30.0)
        with _Server(("127.0.0.1", 0), _Handler) as server:
            server.served = models, loop  # type: ignore[attr-defined]
            threading.Thread(target=server.serve_forever, daemon=True).start()
            port, rng = server.server_address[1], random.Random(case["seed"])
            with ThreadPoolExecutor(len(case["moves"]) + 2) as pool:
                hostile = [pool.submit(_attack, port, one, rng.random()) for one in case["moves"]]
                others = pool.submit(_answered, port, 10)
                serving("doubling").result(30.0)
                count = others.result(30.0) + _answered(port, 5)
                last = pool.submit(_answered, port, 10)
                asyncio.run_coroutine_threadsafe(models.drain(), loop).result(30.0)
                count += last.result(30.0)
                require(_asked(port)[0] == 503, "asked while it ends, it does not refuse")
                for one in hostile:
                    one.result(30.0)
            server.shutdown()
        asyncio.run_coroutine_threadsafe(models.exchange({}), loop).result(30.0)
        loop.call_soon_threadsafe(loop.stop)
        return Outcome("ran", times=count)


def _asked(port: int) -> tuple[int, Mapping[str, str], bytes]:
    sent = oip.encode_request(oip.InferenceRequest({"x": X}, binary=True))
    connection = HTTPConnection("127.0.0.1", port, timeout=20.0)
    try:
        connection.request("POST", PATH, sent.body, dict(sent.headers))
        found = connection.getresponse()
        return found.status, found.headers, found.read()
    finally:
        connection.close()


def _answered(port: int, times: int) -> int:
    """Ask as one should; return how often there was an answer, which was right."""
    count = 0
    for _ in range(times):
        status, headers, body = _asked(port)
        require(status in {200, 503}, f"answered with {status}: {body[:200]!r}")
        if status == 200:
            y = oip.decode_response(body, headers[oip.HEADER])["y"]
            require(np.array_equal(y, -X) or np.array_equal(y, 2 * X), f"computed {y.tolist()}")
            count += 1
    return count


def _attack(port: int, move: str, number: float) -> None:
    count = 200 if move == "many" else 1
    sockets = [socket.create_connection(("127.0.0.1", port), 20.0) for _ in range(count)]
    head, body = _request(move, number)
    with suppress(OSError):
        sockets[0].sendall(head)
        size = 20 if move == "slow" else len(body) + 1
        for at in range(0, len(body), size):
            sockets[0].sendall(body[at : at + size])
            time.sleep(0.02)
        if move in {"packed", "lists", "loop"}:
            status = int(sockets[0].recv(65536).split()[1])
            require(status in {400, 413, 503, 504}, f"{move} is answered with {status}")
    for one in sockets:
        one.close()


def _request(move: str, number: float) -> tuple[bytes, bytes]:
    feeds: dict[str, Any] = {"x": X}
    path, headers, more = PATH, "", {"long": 10, "short": -10}.get(move, 0)
    if move == "loop":
        feeds = {"n": np.array(2**60), "x": np.ones(1, np.float32)}
        path = PATH.replace("/m/", "/loop/")
    body = oip.encode_request(oip.InferenceRequest(feeds, parameters={"timeout": 500_000})).body
    if move == "packed":
        body, headers = gzip.compress(bytes(70 << 20), 1), "Content-Encoding: gzip\r\n"
    elif move == "lists":
        body = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[%b[]]}]}' % (
            b"[]," * int(number * 1e6)
        )
    elif move == "noise":
        return b"", random.Random(number).randbytes(2000)
    length = len(body) + more
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n"
    return head.encode(), body[: int(number * len(body))] if move == "half" else body
