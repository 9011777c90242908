"""Messages of the Open Inference Protocol: a request or an answer as JSON with data behind it."""

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from subgraphkit.serving.oip.datatypes import datatype_of, refuse, to_binary, to_json
from subgraphkit.serving.oip.parsing import HEADER, flag, named, parameters, parted
from subgraphkit.serving.oip.reading import from_binary, from_json, type_and_shape


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


def decode_request(body: Any, header_length: str | int | None = None) -> InferenceRequest:
    """Read a request.

    ``body``: Bytes, or what lends its memory as bytes.
    ``header_length``: What the header ``HEADER`` says; None where it is missing.

    Raises:
        InputError: It is none (SGK343). Nothing larger than the body was allocated for it.
    """
    head, data = parted(body, header_length)
    settings, label = parameters(head, "the request"), head.get("id")
    if not isinstance(label, str | None):
        refuse(f"the id is {reprlib.repr(label)}; expected text")
    binary = flag(settings, "binary_data_output", default=False)
    asked, outputs = head.get("outputs"), {}
    for name, one, where in named([] if asked is None else asked, "outputs"):
        outputs[name] = flag(parameters(one, where), "binary_data", default=binary)
    return InferenceRequest(_arrays(head, data, "inputs"), outputs, binary, label, settings)


def decode_response(body: Any, header_length: str | int | None = None) -> dict[str, Any]:
    """Read the outputs of an answer by name, as a client does; otherwise as a request is read."""
    return _arrays(*parted(body, header_length), "outputs")


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
    text = json.dumps({**head, key: tensors}, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/octet-stream" if chunks else "application/json"}
    headers |= {HEADER: str(len(text))} if chunks else {}
    return Message(b"".join([text, *chunks]), headers)


def _arrays(head: Mapping[str, Any], data: memoryview, key: str) -> dict[str, Any]:
    arrays, place = {}, 0
    for name, one, where in named(head.get(key), key):
        size: Any = parameters(one, where).get("binary_data_size")
        datatype, shape = type_and_shape(one, where)
        if (size is None) is (one.get("data") is None):
            refuse(f"{where} has neither or both of 'data' and 'binary_data_size'; expected one")
        if size is None:
            arrays[name] = from_json(datatype, shape, one["data"], where)
            continue
        rest = len(data) - place
        if type(size) is not int or not 0 <= size <= rest:
            refuse(f"{where} has the binary_data_size {reprlib.repr(size)}; {rest} bytes are left")
        arrays[name] = from_binary(datatype, shape, data[place : place + size], where)
        place += size
    if place != len(data):
        refuse(f"{len(data) - place} bytes are left behind its last tensor")
    return arrays
