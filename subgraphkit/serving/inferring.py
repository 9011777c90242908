"""An inference of the Open Inference Protocol, read, run and answered beside the event loop."""

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from subgraphkit.serving import oip
from subgraphkit.serving.live_model import LiveModel, refuse
from subgraphkit.serving.models import Models

_QUICK_BYTES: Final = 64 << 10
"""Bodies up to this size are read and written at once, others on a thread beside the event loop."""

_TURNS: Final = ThreadPoolExecutor(1, "subgraphkit bodies")
"""Unpacks bodies, and reads and writes large JSON, one at a time: all of it takes long."""
_PAUSE_SECONDS: Final = 0.0001
"""Between pieces of JSON, for threads that wait for the interpreter; a piece takes about as
long."""

_MICROSECONDS: Final = 1_000_000
_Made = TypeVar("_Made")


Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""

JSON: Final = {"Content-Type": "application/json"}
UNAVAILABLE: Final = 503


def answer_to(error: BaseException) -> Answer:
    """Return the answer to a request that failed."""
    status, body = oip.encode_error(error)
    return status, {**JSON, "Retry-After": "1"} if status == UNAVAILABLE else JSON, body


@contextmanager
def counting(models: Models, model: LiveModel, name: str) -> Iterator[None]:
    """Keep a model open for a request, and count it, if the server counts."""
    started, status, code = time.perf_counter(), 200, ""
    try:
        with model.in_use():
            yield
    except Exception as error:
        status, code = answer_to(error)[0], getattr(error, "code", type(error).__name__)
        raise
    finally:
        if models.metrics is not None:
            models.metrics.count(name, status, time.perf_counter() - started, code)


async def compute_outputs(
    model: LiveModel, asked: oip.InferenceRequest, caller: str = ""
) -> dict[str, Any]:
    """Return the outputs that a request asks for."""
    names = list(asked.outputs) or [one.name for one in model.session.get_outputs()]
    found = await model.run(asked.inputs, names, _seconds(asked), caller)
    return dict(zip(names, found, strict=True))


async def infer(
    models: Models, model: LiveModel, name: str, headers: Mapping[str, str], body: Any, caller: str
) -> Answer:
    """Answer a request for an inference over HTTP."""
    if encoding := headers.get("content-encoding"):
        packed, most = body, models.max_body_bytes
        body = await _beside(most, lambda: _unpack(packed, encoding, most), most)
    length = headers.get(oip.HEADER)
    is_stated = length is not None and re.fullmatch("[0-9]{1,19}", length)
    text = min(int(length or 0), len(body)) if is_stated else len(body)
    if text > models.max_json_bytes:
        excess = f"JSON of more than {models.max_json_bytes} bytes"
        refuse(413, f"the request has {excess}", "Send tensors as binary data.")
    decode = partial(oip.decode_request, body, length, partial(time.sleep, _PAUSE_SECONDS))
    asked = await _beside(len(body), decode, text)
    results = await compute_outputs(model, asked, caller)
    sizes = {one: getattr(array, "nbytes", 0) for one, array in results.items()}
    text = sum(size for one, size in sizes.items() if not asked.outputs.get(one, asked.binary))
    made = await _beside(
        sum(sizes.values()), lambda: oip.encode_response(asked, results, name, model.version), text
    )
    return 200, made.headers, made.body


async def _beside(size: int, work: Callable[[], _Made], text: int = 0) -> _Made:
    if size <= _QUICK_BYTES:
        return work()
    turns = _TURNS if text > _QUICK_BYTES else None
    return await asyncio.get_running_loop().run_in_executor(turns, work)


def _seconds(asked: oip.InferenceRequest) -> float | None:
    """Return the time limit of a request, which is in microseconds, 0 for none."""
    given = asked.parameters.get("timeout", 0)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        refuse(400, f"the timeout is {given!r}; expected a number of microseconds")
    return given / _MICROSECONDS or None


def _unpack(body: Any, encoding: str, most: int) -> bytearray:
    if encoding not in {"gzip", "deflate"}:
        refuse(415, f"the body is encoded as {encoding[:40]!r}; expected gzip or deflate")
    reader = zlib.decompressobj(zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))
    made = bytearray()
    try:
        for at in range(0, len(body), _QUICK_BYTES):
            piece = body[at : at + _QUICK_BYTES]
            while piece and len(made) <= most:
                made += reader.decompress(piece, _QUICK_BYTES)
                piece = reader.unconsumed_tail
        made += reader.flush()
    except zlib.error as error:
        refuse(400, f"the body is no {encoding}: {error}")
    if len(made) > most:
        refuse(413, f"the body has more than {most} bytes when it is unpacked")
    if not reader.eof or reader.unused_data:
        refuse(400, f"the body ends before its {encoding}, or after it")
    return made
