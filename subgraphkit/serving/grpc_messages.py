"""Inferences of the Open Inference Protocol in messages of gRPC, and arrays out of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from tritonclient.grpc import service_pb2 as messages

from subgraphkit.serving import oip
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.oip.datatypes import BINARY_ONLY, DATATYPES, datatype_of, to_binary
from subgraphkit.serving.oip.parsing import TensorForm, parameters
from subgraphkit.serving.oip.reading import checked_shape, from_binary, objects

_CONTENTS: Final = {
    "BOOL": "bool", "INT64": "int64", "UINT64": "uint64", "FP32": "fp32", "FP64": "fp64",
    "BYTES": "bytes", **dict.fromkeys(("INT8", "INT16", "INT32"), "int"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint"),
}  # fmt: skip


def read_request(request: Any) -> oip.InferenceRequest:
    """Read a ``ModelInferRequest``, nothing copied; InputError (SGK341, SGK343) if wrong."""
    raw, inputs = request.raw_input_contents, {}
    if raw and len(raw) != len(request.inputs):
        refuse(400, f"{len(request.inputs)} inputs have {len(raw)} raw_input_contents")
    for place, one in enumerate(request.inputs):
        where = f"input {one.name!r}"
        parameters(_settings(one), where)
        if one.name in inputs or min(one.shape, default=0) < 0:
            refuse(400, f"{where} is there twice, or its shape {list(one.shape)} is none")
        shape = checked_shape(TensorForm(one.name, one.datatype, list(one.shape)), where)
        if raw:
            inputs[one.name] = from_binary(one.datatype, shape, memoryview(raw[place]), where)
        else:
            inputs[one.name] = _unpack(one, shape, where)
    for one in request.outputs:
        parameters(_settings(one), f"output {one.name!r}")
    said = parameters(_settings(request), "the request")
    outputs = dict.fromkeys((one.name for one in request.outputs), True)
    return oip.InferenceRequest(inputs, outputs, binary=True, id=request.id, parameters=said)


def _unpack(tensor: Any, shape: Sequence[int], where: str) -> Any:
    if tensor.datatype in BINARY_ONLY:
        refuse(400, f"{where} is {tensor.datatype}", "Send it in raw_input_contents.")
    values = list(getattr(tensor.contents, f"{_CONTENTS[tensor.datatype]}_contents"))
    if len(values) != np.prod(shape, dtype=object):
        refuse(400, f"{where} has {len(values)} values; shape {list(shape)} takes others")
    try:
        if tensor.datatype == "BYTES":
            return objects([str(one, "utf-8") for one in values], tuple(shape))
        return np.array(values, DATATYPES[tensor.datatype][1]).reshape(shape)
    except (OverflowError, UnicodeDecodeError) as error:
        refuse(400, f"{where} has a value which is no {tensor.datatype}: {error}")


def _settings(message: Any) -> dict[str, Any]:
    return {
        name: getattr(one, one.WhichOneof("parameter_choice") or "string_param")
        for name, one in message.parameters.items()
    }


def written_response(request: Any, results: Mapping[str, Any], version: str) -> Any:
    """Return the ``ModelInferResponse``; InputError (SGK344) if a tensor cannot travel."""
    outputs, raw = [], []
    for name, array in results.items():
        where = f"output {name!r}"
        one = {"name": name, "datatype": datatype_of(array, where), "shape": array.shape}
        outputs.append(one)
        raw.append(bytes(to_binary(array, where)))
    told = {"model_name": request.model_name, "model_version": version, "id": request.id}
    return messages.ModelInferResponse(**told, outputs=outputs, raw_output_contents=raw)
