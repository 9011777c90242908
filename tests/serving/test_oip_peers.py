"""The codec against ``tritonclient``, which most clients are written with."""

from types import ModuleType

import numpy as np
import pytest

from subgraphkit.serving import oip

ARRAYS = {
    "BOOL": np.array([[True], [False]]),
    "UINT8": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "INT64": np.array([-(2**63), 2**63 - 1]),
    "UINT64": np.array([2**64 - 1], np.uint64),
    "FP16": np.array([0.5, np.nan], np.float16),
    "FP32": np.array([[0.1, -0.0, 1e-45]], np.float32),
    "FP64": np.array([np.pi, 5e-324]),
    "BYTES": np.array([["a", ""], ["\N{SNOWMAN}", "x" * 300]], object),
}


@pytest.fixture
def client():
    found: ModuleType = pytest.importorskip(
        "tritonclient.http", reason="tritonclient is not installed: pip install subgraphkit[oip]"
    )
    return found


def _described(client, datatype, *, binary):
    array = ARRAYS[datatype]
    described = client.InferInput("x", list(array.shape), datatype)
    described.set_data_from_numpy(array, binary_data=binary)
    return described


@pytest.mark.parametrize(
    ("datatype", "binary"),
    [*((one, True) for one in ARRAYS), *((one, False) for one in ARRAYS if one != "FP16")],
)
def test_what_the_client_writes_is_read_and_it_reads_what_is_answered(client, datatype, *, binary):
    array = ARRAYS[datatype]
    wanted = client.InferRequestedOutput("x", binary_data=binary)
    body, length = client.InferenceServerClient.generate_request_body(
        [_described(client, datatype, binary=binary)], outputs=[wanted], request_id="9"
    )
    request = oip.decode_request(body, length)
    assert (request.id, request.outputs) == ("9", {"x": binary})
    read = request.inputs["x"]
    assert (read.dtype, read.tolist()) == (array.dtype, array.tolist()) or datatype == "FP16"
    if datatype != "BYTES":
        assert read.tobytes() == array.tobytes()
    answer = oip.encode_response(request, {"x": read}, "m")
    header = answer.headers.get(oip.HEADER)
    result = client.InferenceServerClient.parse_response_body(
        answer.body, header_length=None if header is None else int(header)
    ).as_numpy("x")
    if datatype == "BYTES":
        assert [it if isinstance(it, str) else it.decode() for it in result.flat] == [*array.flat]
    else:
        assert result.tobytes() == array.tobytes()
