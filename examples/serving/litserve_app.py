"""A web service on LitServe: ``MODEL_SPEC=spec.json PORT=8000 python litserve_app.py``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import litserve
import numpy as np

import subgraphkit as sk

SPEC = sk.SessionSpec.from_json(Path(os.environ["MODEL_SPEC"]).read_text(encoding="utf-8"))


class Answers(litserve.LitAPI):
    """Collects requests for some milliseconds and runs them as one batch."""

    def setup(self, device: str) -> None:
        """Open the session, in each of the processes."""
        self.session = SPEC.get()

    def decode_request(self, request: dict[str, Any]) -> Any:
        """Read a row."""
        return np.asarray(request["x"], np.float32)

    def batch(self, inputs: Sequence[Any]) -> Any:
        """Make rows a batch."""
        return np.stack(inputs)

    def predict(self, x: Any) -> Any:
        """Answer a batch."""
        return self.session.run(None, {"x": x})[0]

    def unbatch(self, output: Any) -> list[Any]:
        """Make a batch rows."""
        return list(output)

    def encode_response(self, output: Any) -> dict[str, Any]:
        """Write an answer."""
        return {"y": output.tolist()}


if __name__ == "__main__":
    api = Answers(max_batch_size=8, batch_timeout=0.01)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=2, restart_workers=True)
    server.run(host="127.0.0.1", port=int(os.environ["PORT"]), generate_client_file=False)
