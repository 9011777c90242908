"""Answers of a server that are not inferences, and a probe that asks for one as its users would."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np

import subgraphkit as sk
from subgraphkit.errors import describe_exception
from subgraphkit.serving.oip.datatypes import DATATYPES, refuse
from subgraphkit.serving.oip.messages import InferenceRequest, decode_response, encode_request
from subgraphkit.serving.oip.parsing import HEADER

_OF_ONNX: Final = {f"tensor({onnx})": name for name, (onnx, _) in DATATYPES.items()}


def server_metadata() -> dict[str, Any]:
    """Return the answer to ``GET /v2``."""
    extensions = ["binary_tensor_data", "model_configuration", "statistics", "model_repository"]
    return {"name": "subgraphkit", "version": sk.__version__, "extensions": extensions}


def model_metadata(session: sk.Session, name: str, versions: Sequence[str] = ()) -> dict[str, Any]:
    """Answer ``GET /v2/models/NAME``; InputError (SGK344) if the protocol lacks a type."""
    return {
        "name": name,
        **({"versions": list(versions)} if versions else {}),
        "platform": "subgraphkit_onnx",
        "inputs": [_describe_value(one, "input") for one in session.get_inputs()],
        "outputs": [_describe_value(one, "output") for one in session.get_outputs()],
    }


def model_configuration(session: sk.Session, name: str) -> dict[str, Any]:
    """Answer ``GET /v2/models/NAME/config``, the batch in its sizes; as ``model_metadata``."""
    said = model_metadata(session, name)
    kinds = {kind: [_configure(one) for one in said[f"{kind}s"]] for kind in ("input", "output")}
    return {"name": name, "platform": said["platform"], "max_batch_size": 0, **kinds}


def model_statistics(session: sk.Session, name: str, version: str) -> dict[str, Any]:
    """Return the answer to ``GET /v2/models/NAME/stats``: runs of the session, and their time."""
    stats = session.stats()
    success = {"count": stats.runs, "ns": round(stats.seconds * 1e9)}
    failed = {"count": sum(stats.errors.values()), "ns": 0}
    counts = {"inference_count": stats.runs, "execution_count": stats.runs}
    inner = {"success": success, "fail": failed, "compute_infer": success}
    one = {"name": name, "version": version, **counts, "inference_stats": inner}
    return {"model_stats": [one]}


def _configure(described: Any) -> dict[str, Any]:
    datatype = "STRING" if described["datatype"] == "BYTES" else described["datatype"]
    dims = [str(size) for size in described["shape"]]
    return {"name": described["name"], "data_type": f"TYPE_{datatype}", "dims": dims}


def encode_error(error: BaseException) -> tuple[int, bytes]:
    """Return the HTTP status and the body that answer a request which failed."""
    status, text = failure_of(error)
    return status, json.dumps({"error": text}).encode()


def failure_of(error: BaseException) -> tuple[int, str]:
    """Return status and text of a failure.

    The status is 504 for a timeout, or the error's own, if it has one. Otherwise it is 400 for the
    caller's fault, 503 for the machine's, and else 500. The text of other errors than subgraphkit's
    has only their type.
    """
    if not isinstance(error, sk.SubgraphkitError):
        return 500, f"the server failed with {type(error).__name__}"
    if isinstance(error, TimeoutError):
        return 504, str(error)
    status = {"caller": 400, "machine": 503}.get(error.fault, 500)
    return error.context.get("status", status), str(error)


def _describe_value(one: Any, what: str) -> dict[str, Any]:
    if (datatype := _OF_ONNX.get(one.type)) is None:
        refuse(f"{what} {one.name!r} is a {one.type}; only tensors can travel", code="SGK344")
    shape = [size if isinstance(size, int) else -1 for size in one.shape]
    return {"name": one.name, "datatype": datatype, "shape": shape}


def probe(url: str, model: str, version: str | None = None, *, timeout_s: float = 10.0) -> str:
    """Ask a server for one inference, and return the fault, or nothing.

    A server may call a model ready whose process is gone: Triton does. The request has zeros and
    empty texts, with 1 for open sizes. A model that refuses these has answered, too.

    ``version``: Which version of it; None for the server's choice.
    ``timeout_s``: How long the server may be silent, in seconds.
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
    except (HTTPException, KeyError, MemoryError, OSError, TypeError, ValueError) as error:
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
