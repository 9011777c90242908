"""Health of a served model, found out as its users would: by an inference."""

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np

from subgraphkit.errors import describe_exception
from subgraphkit.serving.oip.datatypes import DATATYPES
from subgraphkit.serving.oip.messages import InferenceRequest, decode_response, encode_request
from subgraphkit.serving.oip.parsing import HEADER

__all__ = ["probe"]


def probe(url: str, model: str, version: str | None = None, *, timeout_s: float = 10.0) -> str:
    """Ask a server for one inference, and return what is wrong, or nothing.

    A server may call a model ready whose process is gone: Triton does. What is asked for is of
    zeros and empty texts, with 1 for sizes that are open; a model that finds fault with these has
    answered as well.

    Args:
        url: The server, such as ``http://127.0.0.1:8000``.
        model: Name of the model.
        version: Which version of it; None for what the server chooses.
        timeout_s: How long the server may be silent, in seconds.
    """
    if not url.startswith(("http://", "https://")):
        return f"{url!r} is no address of a server; expected one such as http://127.0.0.1:8000"
    place = f"{url.rstrip('/')}/v2/models/{quote(model, safe='')}"
    place += "" if version is None else f"/versions/{quote(version, safe='')}"
    try:
        described, _ = _answer(Request(place), timeout_s)  # noqa: S310 (the scheme was looked at)
        inputs = {one["name"]: _zeros(one) for one in json.loads(described)["inputs"]}
        sent = encode_request(InferenceRequest(inputs, binary=True))
        asked = Request(f"{place}/infer", sent.body, dict(sent.headers))  # noqa: S310 (likewise)
        decode_response(*_answer(asked, timeout_s))
    except HTTPError as error:
        text = error.read().decode(errors="replace")
        is_of_model = error.code == HTTPStatus.BAD_REQUEST and '"[SGK' in text.replace(" ", "")
        return "" if is_of_model else f"HTTP {error.code}: {text}"
    except (HTTPException, KeyError, OSError, TypeError, ValueError) as error:
        return describe_exception(error)
    return ""


def _answer(request: Request, timeout_s: float) -> tuple[bytes, str | None]:
    with urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 (the scheme was looked at)
        return answer.read(), answer.headers.get(HEADER)


def _zeros(described: Any) -> Any:
    shape = [1 if size < 0 else size for size in described["shape"]]
    if described["datatype"] == "BYTES":
        return np.full(shape, "", object)
    return np.zeros(shape, DATATYPES[described["datatype"]][1])
