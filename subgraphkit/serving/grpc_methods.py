"""The Open Inference Protocol over gRPC, behind Ray Serve's proxy, in its own messages.

The messages are those of ``tritonclient.grpc``, which are made from the published file. Other
requests than inference are handled as over HTTP, and their JSON becomes the message.
"""

import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import grpc
import msgspec
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server

from subgraphkit.serving.grpc_messages import read_request, written_response
from subgraphkit.serving.http import describe_json
from subgraphkit.serving.inferring import compute_outputs, counting
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.models import Models
from subgraphkit.serving.oip.metadata import failure_of

# Ray pickles messages, and they say that they are of a module which is nowhere.
sys.modules.setdefault(messages.ModelInferRequest.__module__, messages)

SERVICE: Final = f"{__name__}.add_GRPCInferenceServiceServicer_to_server"
"""For ``grpc_options`` of Serve."""

__all__ = ["SERVICE", "Procedures", "add_GRPCInferenceServiceServicer_to_server"]

_ASKED: Final[Mapping[str, tuple[str, str, str]]] = {
    "ServerLive": ("GET", "/health/live", ""),
    "ServerReady": ("GET", "/health/ready", ""),
    "ServerMetadata": ("GET", "", ""),
    "ModelReady": ("GET", "/ready", ""),
    "ModelMetadata": ("GET", "", ""),
    "ModelConfig": ("GET", "/config", "config"),
    "ModelStatistics": ("GET", "/stats", ""),
    "RepositoryIndex": ("POST", "/repository/index", "models"),
    "RepositoryModelLoad": ("POST", "/load", ""),
    "RepositoryModelUnload": ("POST", "/unload", ""),
}
"""By procedure, how the same is asked over HTTP, and the field that its JSON is for."""

_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


async def reply_to(models: Models, procedure: str, request: Any, context: Any) -> Any:
    """Return the message that answers a procedure; one that fails sets the status and its text."""
    made = getattr(messages, f"{procedure}Response")
    try:
        if procedure == "ModelInfer":
            return await _infer(models, request, context.peer())
        if procedure not in _ASKED:
            refuse(501, f"{procedure} is not supported")
        return made(**await _describe(models, procedure, request))
    except Exception as error:  # noqa: BLE001 (the client is told)
        status, text = failure_of(error)
        if procedure.endswith("Ready") and status in {404, 503}:
            return made(ready=False)
        context.set_code(_CODES.get(status, grpc.StatusCode.INTERNAL))
        context.set_details(text)
        return made()


async def _describe(models: Models, procedure: str, request: Any) -> dict[str, Any]:
    method, path, field = _ASKED[procedure]
    if name := getattr(request, "model_name", getattr(request, "name", "")):
        version = getattr(request, "version", "")
        where = "repository/models" if procedure.startswith("Repository") else "models"
        path = f"/{where}/{name}{f'/versions/{version}' if version else ''}{path}"
    elif procedure.startswith("Model"):
        refuse(400, "the request names no model")
    words = {"parameters": dict.fromkeys(getattr(request, "parameters", ()))}
    said = await describe_json(models, method, f"/v2{path}", msgspec.json.encode(words))
    made = getattr(messages, f"{procedure}Response")()
    json_format.ParseDict({field: said} if field else said or {}, made, ignore_unknown_fields=True)
    return {one.name: value for one, value in made.ListFields()}


async def _infer(models: Models, request: Any, caller: str) -> Any:
    model = models.working(request.model_name, request.model_version)
    with counting(models, model, request.model_name):
        asked = read_request(request)
        results = await compute_outputs(model, asked, caller)
        return written_response(request, results, model.version)


class Procedures:
    """Methods of a replica, one for each procedure, as Serve's proxy calls them."""

    _models: Models

    async def ModelStreamInfer(  # noqa: N802 (its name)
        self, requests: Any, grpc_context: Any
    ) -> AsyncIterator[Any]:
        """Refuse a stream, in words."""
        yield messages.ModelStreamInferResponse(
            error_message="[SGK341] there are no streams here\n  Ask with ModelInfer, one by one."
        )


def _procedure(name: str) -> Any:
    async def procedure(self: Procedures, request: Any, grpc_context: Any) -> Any:
        return await reply_to(self._models, name, request, grpc_context)

    return procedure


for _method in messages.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods:
    if _method.name not in vars(Procedures):
        setattr(Procedures, _method.name, _procedure(_method.name))
