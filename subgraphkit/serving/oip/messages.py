"""Messages of the Open Inference Protocol: a request or an answer as JSON with data behind it."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from subgraphkit.serving.oip.datatypes import datatype_of, refuse, to_binary, to_json
from subgraphkit.serving.oip.json_values import bytes_of, from_json
from subgraphkit.serving.oip.parsing import (
    HEADER,
    RequestForm,
    ResponseForm,
    TensorForm,
    flag,
    named,
    parameters,
    parted,
)
from subgraphkit.serving.oip.reading import checked_shape, from_binary

_MORE_THAN_JSON: Final = 2
"""How many times the bytes of JSON its arrays may take, from some bytes on."""
_FREE_BYTES: Final = 2 << 20


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
    body: Any,
    header_length: str | int | None = None,
    pause: Callable[[], object] = lambda: None,
) -> InferenceRequest:
    """Read a request.

    ``body``: Bytes, or what lends its memory as bytes.
    ``header_length``: What the header ``HEADER`` says; None where it is missing.
    ``pause``: Called between pieces of JSON, for others to run meanwhile.

    Raises:
        InputError: It is none (SGK343). Nothing larger than the body was allocated for it.
    """
    head, data = parted(body, header_length, RequestForm)
    settings = parameters(head.parameters, "the request")
    binary = flag(settings, "binary_data_output", default=False)
    outputs = {}
    for one, where in named(head.outputs or (), "outputs"):
        wanted = parameters(one.parameters, where)
        outputs[one.name] = flag(wanted, "binary_data", default=binary)
    return InferenceRequest(
        _arrays(head.inputs, data, "inputs", pause), outputs, binary, head.id, settings
    )


def decode_response(body: Any, header_length: str | int | None = None) -> dict[str, Any]:
    """Read the outputs of an answer by name, as a client does; otherwise as a request is read."""
    head, data = parted(body, header_length, ResponseForm)
    return _arrays(head.outputs, data, "outputs")


def encode_request(request: InferenceRequest) -> Message:
    """Write a request; its inputs are binary if it asks for binary outputs.

    Raises:
        InputError: A tensor cannot travel, or not in JSON (SGK344).
    """
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
    """Write an answer, in which each output is as the request wants it.

    Raises:
        InputError: A tensor cannot travel, or not in JSON (SGK344).
    """
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


def _arrays(
    tensors: list[TensorForm],
    data: memoryview,
    key: str,
    pause: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    arrays, place = {}, 0
    room = max(_MORE_THAN_JSON * sum(len(memoryview(one.data)) for one in tensors), _FREE_BYTES)
    for one, where in named(tensors, key):
        size: Any = parameters(one.parameters, where).get("binary_data_size")
        shape = checked_shape(one, where)
        values = memoryview(one.data)
        if (size is None) is (bytes(values[:5]) in {b"", b"null"}):
            refuse(f"{where} has neither or both of 'data' and 'binary_data_size'; expected one")
        if size is None:
            room -= bytes_of(one.datatype, shape, values, where)
            if room < 0:
                refuse("its JSON makes arrays of more than twice its bytes", "Send binary data.")
            arrays[one.name] = from_json(one.datatype, shape, values, where, pause)
            continue
        rest = len(data) - place
        if type(size) is not int or not 0 <= size <= rest:
            refuse(f"{where} has the binary_data_size {reprlib.repr(size)}; {rest} bytes are left")
        arrays[one.name] = from_binary(one.datatype, shape, data[place : place + size], where)
        place += size
    if place != len(data):
        refuse(f"{len(data) - place} bytes are left behind its last tensor")
    return arrays
