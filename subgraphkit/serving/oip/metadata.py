"""Answers of a server that are not inferences: what it is, what a model takes, what failed."""

import json
from collections.abc import Sequence
from typing import Any, Final

import subgraphkit as sk
from subgraphkit.serving.oip.datatypes import DATATYPES, refuse

__all__ = ["encode_error", "failure_of", "model_metadata", "server_metadata"]

_OF_ONNX: Final = {f"tensor({onnx})": name for name, (onnx, _) in DATATYPES.items()}


def server_metadata() -> dict[str, Any]:
    """Return what ``GET /v2`` answers."""
    extensions = ["binary_tensor_data"]
    return {"name": "subgraphkit", "version": sk.__version__, "extensions": extensions}


def model_metadata(session: sk.Session, name: str, versions: Sequence[str] = ()) -> dict[str, Any]:
    """Return what ``GET /v2/models/NAME`` answers.

    Args:
        session: A session of the model. An open dimension is -1.
        name: Name of the model.
        versions: Those that can be asked for; empty where there are none.

    Raises:
        InputError: An input or output is no tensor of a type that the protocol has (SGK344).
    """
    return {
        "name": name,
        **({"versions": list(versions)} if versions else {}),
        "platform": "subgraphkit_onnx",
        "inputs": [_described(one, "input") for one in session.get_inputs()],
        "outputs": [_described(one, "output") for one in session.get_outputs()],
    }


def encode_error(error: BaseException) -> tuple[int, bytes]:
    """Return the HTTP status and the body that answer a request which failed."""
    status, text = failure_of(error)
    return status, json.dumps({"error": text}).encode()


def failure_of(error: BaseException) -> tuple[int, str]:
    """Return status and text of a failure.

    The status is 400 where the caller is at fault, 504 where time ran out, 503 where the machine
    is, and else 500. Of what subgraphkit did not raise, the text has the type alone.
    """
    if not isinstance(error, sk.SubgraphkitError):
        return 500, f"the server failed with {type(error).__name__}"
    if isinstance(error, TimeoutError):
        return 504, str(error)
    return {"caller": 400, "machine": 503}.get(error.fault, 500), str(error)


def _described(one: Any, what: str) -> dict[str, Any]:
    datatype = _OF_ONNX.get(one.type)
    if datatype is None:
        refuse(f"{what} {one.name!r} is a {one.type}; only tensors can travel", code="SGK344")
    shape = [size if isinstance(size, int) else -1 for size in one.shape]
    return {"name": one.name, "datatype": datatype, "shape": shape}
