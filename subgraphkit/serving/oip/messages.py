"""Messages of the Open Inference Protocol: a request or an answer as JSON with data behind it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from subgraphkit.serving.oip.datatypes import datatype_of, to_binary, to_json
from subgraphkit.serving.oip.parsing import (
    HEADER,
    RequestForm,
    ResponseForm,
    flag,
    name_tensors,
    parameters,
    split_body,
)
from subgraphkit.serving.oip.tensors import arrays_of


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A request.

    Attributes:
        outputs: By name of each output asked for, whether it is to be binary; empty for all.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, bool] = field(default_factory=dict)
    binary: bool = False
    id: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A body to send, and the HTTP headers that say how to read it."""

    body: bytes
    headers: Mapping[str, str]


def decode_request(
    body: Any, header_length: str | int | None = None, pause: Callable[[], object] = lambda: None
) -> InferenceRequest:
    """Read a request.

    ``body``: Bytes, or an object that lends its memory as bytes.
    ``header_length``: What the header ``HEADER`` says; None where it is missing.
    ``pause``: Called between pieces of JSON, for others to run meanwhile.

    Raises:
        InputError: It is none (SGK343). Nothing larger than the body was allocated for it.
    """
    head, data = split_body(body, header_length, RequestForm)
    settings = parameters(head.parameters, "the request")
    binary = flag(settings, "binary_data_output", default=False)
    outputs = {}
    for one, where in name_tensors(head.outputs or (), "outputs"):
        wanted = parameters(one.parameters, where)
        outputs[one.name] = flag(wanted, "binary_data", default=binary)
    return InferenceRequest(
        arrays_of(head.inputs, data, "inputs", pause), outputs, binary, head.id, settings
    )


def decode_response(body: Any, header_length: str | int | None = None) -> dict[str, Any]:
    """Read the outputs of an answer by name, as a client does; otherwise as a request is read."""
    head, data = split_body(body, header_length, ResponseForm)
    return arrays_of(head.outputs, data, "outputs")


def encode_request(request: InferenceRequest) -> Message:
    """Write a request, inputs binary if outputs are; InputError (SGK344) if one cannot travel."""
    head: dict[str, Any] = {} if request.id is None else {"id": request.id}
    head["parameters"] = {**request.parameters, "binary_data_output": request.binary}
    head["outputs"] = [
        {"name": name, "parameters": {"binary_data": binary}}
        for name, binary in request.outputs.items()
    ]
    return _message(head, "inputs", request.inputs, dict.fromkeys(request.inputs, request.binary))


def encode_response(
    request: InferenceRequest, results: Mapping[str, Any], model: str, version: str | None = None
) -> Message:
    """Write an answer, outputs as requested; InputError (SGK344) if one cannot travel so."""
    head: dict[str, Any] = {"model_name": model}
    head |= {} if version is None else {"model_version": version}
    head |= {} if request.id is None else {"id": request.id}
    binary = {name: request.outputs.get(name, request.binary) for name in results}
    return _message(head, "outputs", results, binary)


def _message(
    head: Mapping[str, Any], key: str, arrays: Mapping[str, Any], binary: Mapping[str, bool]
) -> Message:
    tensors, chunks = [], []
    for name, array in arrays.items():
        where = f"{key[:-1]} {name!r}"
        one: dict[str, Any] = {"name": name, "datatype": datatype_of(array, where)}
        one["shape"] = list(array.shape)
        if binary[name]:
            chunks.append(to_binary(array, where))
            one["parameters"] = {"binary_data_size": len(chunks[-1])}
        else:
            one["data"] = to_json(array, where)
        tensors.append(one)
    text = msgspec.json.encode({**head, key: tensors})
    headers = {"Content-Type": "application/octet-stream" if chunks else "application/json"}
    headers |= {HEADER: str(len(text))} if chunks else {}
    return Message(b"".join([text, *chunks]), headers)
