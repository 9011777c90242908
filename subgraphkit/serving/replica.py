"""A replica of Ray Serve's: models that answer over handles, HTTP and gRPC."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

import subgraphkit as sk
from subgraphkit.serving.http import answer
from subgraphkit.serving.inferring import answer_to
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.metrics import Metrics
from subgraphkit.serving.models import MOST_BYTES, MOST_JSON_BYTES, Models

SECONDS: Final = 60.0
_SWITCH_SECONDS: Final = 0.0001  # a request waits many times for runs that compute in Python

try:
    from subgraphkit.serving.grpc_methods import Procedures
except ImportError:  # of the extra 'grpc'; then nobody calls them

    class Procedures:  # type: ignore[no-redef] # in its place
        """No procedures."""


class Replica(Procedures):
    """A process of Serve's: models, as ``user_config`` says."""

    def __init__(self) -> None:
        self._models = Models()
        self._models.metrics = Metrics()
        sk.register_extension(self._models.metrics, f"metrics {id(self)}")
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._seconds: float | None = SECONDS

    async def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Serve these models from now on; ``draining`` ends when all requests are answered."""
        specs = {
            name: spec if isinstance(spec, str) else json.dumps(spec)
            for name, spec in config["models"].items()
        }
        models, self._seconds = self._models, config.get("timeout_s", SECONDS)
        models.max_body_bytes = config.get("max_body_bytes", MOST_BYTES)
        models.max_json_bytes = config.get("max_json_bytes", MOST_JSON_BYTES)
        models.folder = Path(config["repository"]) if config.get("repository") else None
        models.processors = config.get("processors", 1)
        if config.get("draining"):
            await models.drain()
        else:
            await models.exchange(specs, config.get("batching"), self._seconds)

    async def check_health(self) -> None:
        """Have every model answer a ping; Serve starts a replica anew that does not."""
        await self._models.ping()

    async def __call__(
        self, request: Any, outputs: Sequence[str] | None = None, model: str = ""
    ) -> Any:
        """Answer a request over HTTP, or feeds by a handle; InputError (SGK341) for no such model.

        ``outputs``: The outputs to compute; None for all.
        """
        if not isinstance(request, Request):
            return await self._models.find(model).run(request, outputs)
        try:
            async with asyncio.timeout(self._seconds):
                asked = await self._body(request)
        except (sk.SubgraphkitError, TimeoutError) as error:
            status, headers, body = answer_to(error)
            status = status if isinstance(error, sk.SubgraphkitError) else 408
        else:
            path, host = request.scope["path"], getattr(request.client, "host", "")
            status, headers, body = await answer(
                self._models, request.method, path, request.headers, asked, host
            )
        return Response(body, status, dict(headers))

    async def _body(self, request: Request) -> bytearray:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > (most := self._models.max_body_bytes):
                refuse(413, f"the body of the request has more than {most} bytes")
        return body
