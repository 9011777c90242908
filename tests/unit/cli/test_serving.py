"""``export-triton`` and ``probe``: what they write, say and exit with."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

from subgraphkit.serving import oip


class Handler(BaseHTTPRequestHandler):
    """A server of one model, which answers as ``status`` and ``text`` say unless they are None."""

    status: int | None = None
    text = ""
    shape = (-1, 2)
    asked: Any = None

    def do_GET(self):
        names = ("BOOL", "FP16", "INT64", "BYTES")
        inputs = [{"name": one, "datatype": one, "shape": Handler.shape} for one in names]
        self._send(200, json.dumps({"inputs": inputs}).encode(), {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Handler.asked = (self.path, oip.decode_request(body, self.headers[oip.HEADER]))
        if Handler.status is not None:
            return self._send(Handler.status, Handler.text.encode(), {})
        sent = oip.encode_response(Handler.asked[1], {"y": np.float16([1])}, "m")
        return self._send(200, sent.body, sent.headers)

    def _send(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url(monkeypatch):
    monkeypatch.setattr(Handler, "status", None)
    monkeypatch.setattr(Handler, "shape", (-1, 2))
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_is_healthy_if_it_answers_an_inference_of_zeros(cli, url):
    ended = cli("deploy", "probe", url, "a model", "--version", "3")
    assert (ended.code, ended.out) == (0, "a model answers\n")
    path, request = Handler.asked
    assert path == "/v2/models/a%20model/versions/3/infer"
    assert {name: one.tolist() for name, one in request.inputs.items()} == {
        "BOOL": [[False, False]],
        "FP16": [[0, 0]],
        "INT64": [[0, 0]],
        "BYTES": [["", ""]],
    }


@pytest.mark.parametrize(("status", "text", "code"), [
    (400, '{"error":"[SGK140] input has the wrong shape"}', 0),
    (400, '{"error":"Request for unknown model"}', 1),
    (500, '{"error":"Stub process is not healthy."}', 1),
    (500, '{"error":"[SGK131] a subgraph failed"}', 1),
    (200, "no JSON", 1),
])  # fmt: skip
def test_a_model_is_healthy_if_it_finds_fault_itself_with_what_it_was_asked(
    cli, url, monkeypatch, status, text, code
):
    monkeypatch.setattr(Handler, "status", status)
    monkeypatch.setattr(Handler, "text", text)
    ended = cli("deploy", "probe", url, "m", "--json")
    assert (ended.code, json.loads(ended.out)["data"]["healthy"]) == (code, not code)


def test_a_server_that_describes_what_no_memory_holds_is_not_healthy(cli, url):
    Handler.shape = (1 << 40, 1 << 10)
    ended = cli("deploy", "probe", url, "m")
    assert (ended.code, "MemoryError" in ended.out) == (1, True)
