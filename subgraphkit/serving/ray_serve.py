"""Ray Serve: models behind handles, and behind the Open Inference Protocol over HTTP.

``serve.run(deployment(spec).bind())`` serves a model. The same call with another spec updates it
where it is: each replica opens the new session, exchanges it, and closes the old one when its
requests are over. A handle takes feeds, ``await handle.remote({"x": array})``.

Serve bounds queues, starts replicas anew that do not pass ``check_health``, and does not repeat a
request that ended with its replica; a client may, since inference changes nothing.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ray import serve
from starlette.requests import Request
from starlette.responses import Response

import subgraphkit as sk
from subgraphkit.serving.http import answer
from subgraphkit.serving.inferring import answer_to
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.metrics import Metrics
from subgraphkit.serving.models import MOST_BYTES, MOST_JSON_BYTES, Models, with_threads

_SECONDS: Final = 60.0
_SWITCH_SECONDS: Final = 0.0001  # a request waits many times for runs that compute in Python


class Replica:
    """What a process of Serve's holds: models, as ``user_config`` says."""

    def __init__(self) -> None:
        self._models = Models()
        self._models.metrics = Metrics()
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._seconds: float | None = _SECONDS

    async def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Serve what is said here from now on; ``draining`` ends when all is answered."""
        specs = {
            name: spec if isinstance(spec, str) else json.dumps(spec)
            for name, spec in config["models"].items()
        }
        models, self._seconds = self._models, config.get("timeout_s", _SECONDS)
        models.max_body_bytes = config.get("max_body_bytes", MOST_BYTES)
        models.max_json_bytes = config.get("max_json_bytes", MOST_JSON_BYTES)
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
        """Answer a request over HTTP, or feeds that come by a handle.

        ``outputs``: The outputs to compute; None for all.

        Raises:
            InputError: There is no such model (SGK341).
            SubgraphkitError: As for ``InferenceSession.arun``.
        """
        if not isinstance(request, Request):
            return await self._models.find(model).run(request, outputs)
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._body(request)
        except (sk.SubgraphkitError, TimeoutError) as error:
            status, headers, body = answer_to(error)
            status = status if isinstance(error, sk.SubgraphkitError) else 408
        else:
            path, host = request.scope["path"], getattr(request.client, "host", "")
            status, headers, body = await answer(
                self._models, request.method, path, request.headers, body, host
            )
        return Response(body, status, dict(headers))

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > (most := self._models.max_body_bytes):
                refuse(413, f"the body of the request has more than {most} bytes")
        return bytes(body)


def deployment(  # noqa: PLR0913 (those of Serve's that matter here)
    spec: sk.SessionSpec | Mapping[str, sk.SessionSpec],
    *,
    name: str = "model",
    max_batch: int = 1,
    max_wait_s: float = 0.002,
    replicas: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_ongoing_requests: int | None = None,
    max_queued_requests: int = 100,
    max_body_bytes: int = MOST_BYTES,
    max_json_bytes: int = MOST_JSON_BYTES,
    timeout_s: float | None = _SECONDS,
    draining: bool = False,
) -> serve.Deployment:
    """Return a deployment of Serve; ``bind`` makes an application of it.

    ``num_cpus``: Processors of a replica; a session has as many threads, unless its spec says.
    ``timeout_s``: Seconds that a request may take, its body's arrival apart; None for no limit.
    ``draining``: Whether replicas answer what they have begun, and refuse all else with 503.
    ``max_ongoing_requests``: How many requests are in a replica; None for two batches or 256.

    For all else there is ``Deployment.options``.
    """
    specs = {name: spec} if isinstance(spec, sk.SessionSpec) else spec
    config = {
        "models": {one: with_threads(said, num_cpus).to_json() for one, said in specs.items()},
        "max_body_bytes": max_body_bytes,
        "max_json_bytes": max_json_bytes,
        "timeout_s": timeout_s,
        "draining": draining,
        "batching": {"max_batch": max_batch, "max_wait_s": max_wait_s} if max_batch > 1 else {},
    }
    least, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    scaling: dict[str, Any] = {"num_replicas": least}
    if least != most:
        scaling = {"autoscaling_config": {"min_replicas": least, "max_replicas": most}}
    return serve.deployment(Replica, name="models").options(
        user_config=config,
        max_ongoing_requests=max_ongoing_requests or max(2 * max_batch, 256),
        max_queued_requests=max_queued_requests,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
        max_surge_percent=100,
        # A version that stays has Serve update replicas where they are; it has no public word for
        # that outside of its config files, by which versions stay as well.
        version=sk.__version__,
        _internal=True,
        **scaling,
    )


application: Final = serve.deployment(Replica, name="models").bind()
"""For config files: without models, which ``user_config`` names as ``Replica.reconfigure`` says."""
