"""Rollouts under load: a server starts, the one before gets SIGTERM, and clients go on meanwhile.

A request is lost if its connection breaks. One that is refused with 503, or finds nobody who
listens, was not accepted; its client asks again. ``deploy serve`` is what is started.
"""

import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from measuring import Table, base_parser, show
from onnx import parser

from subgraphkit.serving import oip

CLIENTS = 4
PAUSE_S = 0.2
"""Of each after an answer: Ray has 15 s to start the next server beside them."""
LAG_S = 0.5
"""How long clients go on asking a server that is told to end, as behind a Service."""
UNAVAILABLE = 503
TEXT = '<ir_version: 10, opset_import: ["": 20]> g (float[N,4] x) => (float[N,4] y) { y = Neg (x) }'
X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Clients:
    """Asks one port again and again, from some threads; ``port`` may be set meanwhile."""

    def __init__(self, port: int) -> None:
        self.port, self.over = port, False
        self.counts: Counter[str] = Counter()
        self._sent = oip.encode_request(oip.InferenceRequest({"x": X}, binary=True))
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]
        for one in self._threads:
            one.start()

    def end(self) -> None:
        """Have all come to an end."""
        self.over = True
        for one in self._threads:
            one.join()

    def _ask(self) -> None:
        while not self.over:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.connect()
            except OSError:
                self.counts["nobody listens"] += 1
                time.sleep(0.02)
                continue
            self.counts[self._outcome(connection)] += 1
            connection.close()
            time.sleep(PAUSE_S)

    def _outcome(self, connection: http.client.HTTPConnection) -> str:
        try:
            headers = dict(self._sent.headers)
            connection.request("POST", "/v2/models/m/infer", self._sent.body, headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            return f"lost: {type(error).__name__}"
        if answer.status == UNAVAILABLE:
            return "refused with 503"
        if answer.status != http.client.OK:
            return f"lost: HTTP {answer.status}"
        y = oip.decode_response(body, answer.headers[oip.HEADER])["y"]
        return "answered" if np.array_equal(y, -X) else "lost: wrong"


def started(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server, and wait until it is ready; return it with its port.

    Ray gives up on its own processes where a machine is busy; then another is started.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = ["deploy", "serve", f"m={folder / 'm.onnx'}", "--backend", "numpy", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-m", "subgraphkit", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/v2/health/ready")
            if json.loads(connection.getresponse().read()).get("ready"):
                return server, port
        except (OSError, ValueError, AttributeError):
            pass
        finally:
            connection.close()
        time.sleep(0.25)
    print(f"a server did not start: {server.returncode}", flush=True)
    return started(folder)


def main() -> None:
    """Roll out again and again, and print what became of the requests."""
    words = base_parser(__doc__, repeat=50)
    words.add_argument("--seconds", type=float, default=3600.0, help="begin no more after so long")
    arguments = words.parse_args()
    end, codes = time.monotonic() + arguments.seconds, Counter[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(parser.parse_model(TEXT), folder / "m.onnx")
        server, port = started(folder)
        clients = Clients(port)
        try:
            for _ in range(arguments.repeat):
                if time.monotonic() > end:
                    break
                after, port = started(folder)
                server.send_signal(signal.SIGTERM)
                time.sleep(LAG_S)
                clients.port = port
                codes[server.wait(120)] += 1
                server = after
                print(sum(codes.values()), dict(clients.counts), dict(codes), flush=True)
        finally:
            clients.end()
            server.send_signal(signal.SIGTERM)
            server.wait(120)
    rows = [[f"{sum(codes.values())} rollouts", kind, str(n)] for kind, n in clients.counts.items()]
    rows += [["servers", f"exit code {code}", str(n)] for code, n in codes.items()]
    show(Table("Rollouts", ["", "", "count"], rows), markdown=arguments.markdown)


if __name__ == "__main__":
    main()
