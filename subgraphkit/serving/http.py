"""The Open Inference Protocol over HTTP, for any server that runs coroutines."""

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.live_model import LiveModel, refuse
from subgraphkit.serving.models import Models

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""

_UNAVAILABLE: Final = 503
_JSON: Final = {"Content-Type": "application/json"}
_METRICS: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_RETRY: Final = {**_JSON, "Retry-After": "1"}
_VERBS: Final = "ready|infer|stats|config"
_PATH: Final = re.compile(
    "(?:.*?/)?v2(?:/health/(live|ready)|/(repository)/(?:index|models/[^/]+/(load|unload))"
    f"|/models/([^/]+)(?:/versions/([^/]+))?(?:/({_VERBS}))?)?/?"
)
"""What is asked: the server, its repository, or a model."""

_QUICK_BYTES: Final = 64 << 10
"""What is no larger is read and written at once; the rest on a thread beside the event loop."""

_MICROSECONDS: Final = 1_000_000
_Made = TypeVar("_Made")


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
    if path.rstrip("/") == "/metrics" and models.metrics is not None:
        return 200, _METRICS, await asyncio.to_thread(models.metrics.text, models.items())
    found = _PATH.fullmatch(path) or refuse(404, f"there is nothing at {path!r}")
    health, repository, change, name, version, verb = found.groups()
    if method != ("POST" if verb == "infer" or repository else "GET"):
        refuse(405, f"{path!r} is not to be asked by {method}")
    if change:
        refuse(400, f"to {change} a model is the deployment's: it has other processes as well",
               "Deploy it with the models that you want.")  # fmt: skip
    if repository:
        ready = {"state": "READY", "reason": ""}
        return _json([{"name": n, "version": m.version, **ready} for n, m in models.items()])
    if models.is_draining and (verb in {"infer", "ready"} or health == "ready"):
        refuse(_UNAVAILABLE, "the server is ending", "Ask another, or this one in a second.")
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
    if verb == "config":
        return _json(oip.model_configuration(model.session, name))
    if verb == "stats":
        return _json(oip.model_statistics(model.session, name, model.version))
    with model.in_use(), _counted(models, name):
        return await _inferred(models, model, name, headers, body)


@contextmanager
def _counted(models: Models, name: str) -> Iterator[None]:
    """Count a request, if the server counts."""
    started, error = time.perf_counter(), None
    try:
        yield
    except Exception as failure:
        error = failure
        raise
    finally:
        if models.metrics is not None:
            status = 200 if error is None else answer_to(error)[0]
            code = "" if error is None else getattr(error, "code", type(error).__name__)
            models.metrics.count(name, status, time.perf_counter() - started, code)


async def _inferred(
    models: Models, model: LiveModel, name: str, headers: Mapping[str, str], body: Any
) -> Answer:
    if encoding := headers.get("content-encoding"):
        body = await _beside(len(body), lambda: _unpacked(body, encoding, models.max_body_bytes))
    length = headers.get(oip.HEADER)
    is_stated = length is not None and re.fullmatch("[0-9]{1,19}", length)
    stated = int(length or 0) if is_stated else len(body)
    if min(stated, len(body)) > models.max_json_bytes:
        most = f"JSON of more than {models.max_json_bytes} bytes"
        refuse(413, f"the request has {most}", "Send tensors as binary data.")
    asked = await _beside(len(body), lambda: oip.decode_request(body, length))
    names = list(asked.outputs) or [one.name for one in model.session.get_outputs()]
    found = await model.run(asked.inputs, names, _seconds(asked))
    results = dict(zip(names, found, strict=True))
    size = sum(getattr(one, "nbytes", 0) for one in found)
    made = await _beside(size, lambda: oip.encode_response(asked, results, name, model.version))
    return 200, made.headers, made.body


async def _beside(size: int, work: Callable[[], _Made]) -> _Made:
    return work() if size <= _QUICK_BYTES else await asyncio.to_thread(work)


def _seconds(asked: oip.InferenceRequest) -> float | None:
    """Return what a request says of its time, which is in microseconds, 0 for nothing."""
    given = asked.parameters.get("timeout", 0)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        refuse(400, f"the timeout is {given!r}; expected a number of microseconds")
    return given / _MICROSECONDS or None


def _unpacked(body: Any, encoding: str, most: int) -> bytes:
    if encoding not in {"gzip", "deflate"}:
        refuse(415, f"the body is encoded as {encoding[:40]!r}; expected gzip or deflate")
    reader = zlib.decompressobj(zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))
    try:
        made = reader.decompress(body, most)
    except zlib.error as error:
        refuse(400, f"the body is no {encoding}: {error}")
    if not reader.eof:
        refuse(413, f"the body has more than {most} bytes when it is unpacked, or has no end")
    return made


def answer_to(error: BaseException) -> Answer:
    """Return the answer to a request that failed."""
    status, body = oip.encode_error(error)
    status = getattr(error, "context", {}).get("status", status)
    return status, _RETRY if status == _UNAVAILABLE else _JSON, body


def _json(value: Any) -> Answer:
    return 200, _JSON, msgspec.json.encode(value)
