"""The Open Inference Protocol over HTTP, for any server that runs coroutines."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.models import Models, refuse

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""

_UNAVAILABLE: Final = 503
_JSON: Final = {"Content-Type": "application/json"}
_PATH: Final = re.compile(
    "(?:.*?/)?v2(?:/health/(live|ready)|/models/([^/]+)(?:/versions/([^/]+))?(?:/(ready|infer))?)?/?"
)
"""What is asked: the server, or a model."""


async def answer(
    models: Models, method: str, path: str, headers: Mapping[str, str], body: Any
) -> Answer:
    """Answer a request over HTTP, whatever is before ``/v2`` in its path; never raises."""
    try:
        return await _answered(models, method, path, headers, body)
    except Exception as error:  # noqa: BLE001 (the client is told)
        return answer_to(error)


async def _answered(
    models: Models, method: str, path: str, headers: Mapping[str, str], body: Any
) -> Answer:
    found = _PATH.fullmatch(path) or refuse(404, f"there is nothing at {path!r}")
    health, name, version, verb = found.groups()
    if method != ("POST" if verb == "infer" else "GET"):
        refuse(405, f"{path!r} is not to be asked by {method}")
    model = None if name is None else models.find(name, version or "")
    if "ready" in {health, verb}:
        try:
            await models.ping(name or "")
        except sk.SubgraphkitError as error:
            return _UNAVAILABLE, *answer_to(error)[1:]
        return _json({"ready": True} if name is None else {"name": name, "ready": True})
    if model is None:
        return _json({"live": True} if health else oip.server_metadata())
    if verb is None:
        return _json(oip.model_metadata(model.session, name, [model.version]))
    asked = oip.decode_request(body, headers.get(oip.HEADER))
    names = list(asked.outputs) or [one.name for one in model.session.get_outputs()]
    results = dict(zip(names, await model.run(asked.inputs, names), strict=True))
    answer = oip.encode_response(asked, results, name, model.version)
    return 200, answer.headers, answer.body


def answer_to(error: BaseException) -> Answer:
    """Return the answer to a request that failed."""
    status, body = oip.encode_error(error)
    return getattr(error, "context", {}).get("status", status), _JSON, body


def _json(value: Any) -> Answer:
    return 200, _JSON, json.dumps(value).encode()
