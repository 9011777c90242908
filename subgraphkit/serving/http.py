"""The Open Inference Protocol over HTTP, for any server that runs coroutines."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

import subgraphkit as sk
from subgraphkit.serving import oip, repository
from subgraphkit.serving.inferring import JSON, UNAVAILABLE, Answer, answer_to, counting, infer
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.models import Models
from subgraphkit.serving.oip.parsing import ChangeForm, split_body

_METRICS: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_MOST_WORDS: Final = 1 << 16
_VERBS: Final = "ready|infer|stats|config"
_DESCRIBED: Final[Mapping[str | None, Callable[[sk.Session, str, str], Any]]] = {
    None: lambda session, name, version: oip.model_metadata(session, name, [version]),
    "config": lambda session, name, _version: oip.model_configuration(session, name),
    "stats": oip.model_statistics,
}
_PATH: Final = re.compile(
    "(?:.*?/)?v2(?:/health/(live|ready)|/repository/(?:(index)|models/([^/]+)/(load|unload))"
    f"|/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?P<verb>{_VERBS}))?)?/?"
)
"""The subject of a request: the server, its repository, or a model."""


async def answer(
    models: Models, method: str, path: str, headers: Mapping[str, str], body: Any, caller: str = ""
) -> Answer:
    """Answer a request over HTTP, with any path before ``/v2``; never raises.

    ``caller``: Who asks, such as an address; callers take turns.
    """
    try:
        if path.rstrip("/") == "/metrics" and models.metrics is not None:
            return 200, _METRICS, await asyncio.to_thread(models.metrics.text, models.items())
        found = _PATH.fullmatch(path)
        if found and found["verb"] == "infer" and method == "POST":
            model = models.working(found["name"], found["version"] or "")
            with counting(models, model, found["name"]):
                return await infer(models, model, found["name"], headers, body, caller)
        return 200, JSON, msgspec.json.encode(await describe_json(models, method, path, body))
    except Exception as error:  # noqa: BLE001 (the client is told)
        return answer_to(error)


async def describe_json(models: Models, method: str, path: str, body: Any = b"") -> Any:
    """Return the JSON for all but inferences; SubgraphkitError if not there or not ready."""
    found = _PATH.fullmatch(path) or refuse(404, f"there is nothing at {path!r}")
    health, listed, changed, change, name, version, verb = found.groups()
    if method != ("POST" if verb == "infer" or listed or change else "GET"):
        refuse(405, f"{path!r} is not to be asked by {method}")
    if change:
        _refuse_words(change, body)
        return await repository.change(models, change, changed)
    if listed:
        return repository.index(models)
    if "ready" in {health, verb}:
        models.refuse_if_ending()
        return await _ping(models, name, version or "")
    if name is None:
        return {"live": True} if health else oip.server_metadata()
    model = models.find(name, version or "")
    return _DESCRIBED[verb](model.session, name, model.version)


def _refuse_words(change: str, body: Any) -> None:
    """Refuse a configuration, or files, that come with a request to load a model."""
    said = split_body(body[:_MOST_WORDS] or b"{}", None, ChangeForm)[0].parameters or {}
    if said.keys() - {"unload_dependents"}:
        refuse(400, f"to {change} a model takes its name alone", "All else is in the repository.")


async def _ping(models: Models, name: str | None, version: str) -> dict[str, Any]:
    if name is not None:
        models.find(name, version)
    try:
        await models.ping(name or "")
    except sk.SubgraphkitError as error:
        error.context["status"] = UNAVAILABLE
        raise
    return {"ready": True} if name is None else {"name": name, "ready": True}
