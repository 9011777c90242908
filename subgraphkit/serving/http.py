"""The Open Inference Protocol over HTTP, for any server that runs coroutines."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.inferring import JSON, UNAVAILABLE, Answer, answer_to, inferred
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.models import Models

_METRICS: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_VERBS: Final = "ready|infer|stats|config"
_DESCRIBED: Final[Mapping[str | None, Callable[[sk.Session, str, str], Any]]] = {
    None: lambda session, name, version: oip.model_metadata(session, name, [version]),
    "config": lambda session, name, _version: oip.model_configuration(session, name),
    "stats": oip.model_statistics,
}
_PATH: Final = re.compile(
    "(?:.*?/)?v2(?:/health/(live|ready)|/(repository)/(?:index|models/[^/]+/(load|unload))"
    f"|/models/([^/]+)(?:/versions/([^/]+))?(?:/({_VERBS}))?)?/?"
)
"""What is asked: the server, its repository, or a model."""


async def answer(
    models: Models, method: str, path: str, headers: Mapping[str, str], body: Any, caller: str = ""
) -> Answer:
    """Answer a request over HTTP, whatever is before ``/v2`` in its path; never raises.

    ``caller``: Who asks, such as an address; callers take turns.
    """
    try:
        return await _answered(models, method, path, headers, body, caller)
    except Exception as error:  # noqa: BLE001 (the client is told)
        return answer_to(error)


async def _answered(
    models: Models, method: str, path: str, headers: Mapping[str, str], body: Any, caller: str
) -> Answer:
    if path.rstrip("/") == "/metrics" and models.metrics is not None:
        return 200, _METRICS, await asyncio.to_thread(models.metrics.text, models.items())
    found = _PATH.fullmatch(path) or refuse(404, f"there is nothing at {path!r}")
    health, repository, change, name, version, verb = found.groups()
    if method != ("POST" if verb == "infer" or repository else "GET"):
        refuse(405, f"{path!r} is not to be asked by {method}")
    if repository:
        return _json(_indexed(models, change))
    is_work = verb in {"infer", "ready"} or health == "ready"
    if models.is_draining and is_work:
        refuse(UNAVAILABLE, "the server is ending", "Ask another, or this one in a second.")
    model = None if name is None else models.find(name, version or "")
    if "ready" in {health, verb}:
        return await _pinged(models, name)
    if model is None:
        return _json({"live": True} if health else oip.server_metadata())
    if verb == "infer":
        return await inferred(models, model, name, headers, body, caller)
    return _json(_DESCRIBED[verb](model.session, name, model.version))


async def _pinged(models: Models, name: str | None) -> Answer:
    try:
        await models.ping(name or "")
    except sk.SubgraphkitError as error:
        return UNAVAILABLE, *answer_to(error)[1:]
    return _json({"ready": True} if name is None else {"name": name, "ready": True})


def _indexed(models: Models, change: str | None) -> list[dict[str, str]]:
    if change:
        why = f"to {change} a model is the deployment's, which has other processes as well"
        refuse(400, why, "Deploy it with the models that you want.")
    ready = {"state": "READY", "reason": ""}
    return [{"name": name, "version": one.version, **ready} for name, one in models.items()]


def _json(value: Any) -> Answer:
    return 200, JSON, msgspec.json.encode(value)
