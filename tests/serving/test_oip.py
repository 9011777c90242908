"""The codec of the Open Inference Protocol: exact both ways, and an error for all that is wrong."""

import json
import random
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from subgraphkit.serving import oip
from subgraphkit.serving.oip.datatypes import DATATYPES
from subgraphkit.testing.small_models import model_of

SHAPES = [(), (0,), (3,), (2, 0, 5), (2, 3)]


def _body(*inputs, data=b"", **others):
    text = json.dumps({"inputs": inputs, **others}).encode()
    return text + data, str(len(text))


def _x(**fields):
    return {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]} | fields


def _binary(size, **fields):
    described = {"name": "x", "datatype": "FP32", "shape": [2]}
    return described | {"parameters": {"binary_data_size": size}} | fields


def _drawn(datatype, shape, draw):
    dtype = DATATYPES[datatype][1]
    if datatype == "BYTES":
        words = draw.choice(np.array(["", "\N{SNOWMAN}\0", "plain", "x" * 300], object), shape)
        return np.asarray(words, object)
    raw = draw.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if datatype == "BOOL":
        raw &= 1
    return raw.reshape(-1).view(dtype).reshape(shape)


def _same(one, other):
    if one.dtype == object:
        return one.shape == other.shape and one.tolist() == other.tolist()
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("datatype", DATATYPES)
def test_arrays_are_the_same_bit_for_bit_behind_a_request_and_an_answer(datatype):
    draw = np.random.default_rng(7)
    arrays = {str(shape): _drawn(datatype, shape, draw) for shape in SHAPES}
    request = oip.InferenceRequest(arrays, {"y": False}, binary=True, id="7", parameters={"k": 1})
    sent = oip.encode_request(request)
    read = oip.decode_request(sent.body, sent.headers[oip.HEADER])
    assert (read.outputs, read.binary, read.id) == ({"y": False}, True, "7")
    assert read.parameters == {"k": 1, "binary_data_output": True}
    assert all(_same(read.inputs[name], array) for name, array in arrays.items())
    answer = oip.encode_response(request, arrays, "m", "2")
    results = oip.decode_response(memoryview(answer.body), answer.headers[oip.HEADER])
    assert all(_same(results[name], array) for name, array in arrays.items())
    head = json.loads(answer.body[: int(answer.headers[oip.HEADER])])
    assert (head["model_name"], head["model_version"], head["id"]) == ("m", "2", "7")


@pytest.mark.parametrize("datatype", sorted(set(DATATYPES) - {"FP16", "BF16"}))
def test_finite_arrays_are_the_same_bit_for_bit_behind_json(datatype):
    draw = np.random.default_rng(8)
    arrays = {str(shape): _drawn(datatype, shape, draw) for shape in SHAPES}
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            arrays[name] = np.nan_to_num(array)
    sent = oip.encode_request(oip.InferenceRequest(arrays))
    assert oip.HEADER not in sent.headers
    assert all(_same(oip.decode_request(sent.body).inputs[name], a) for name, a in arrays.items())


def test_binary_tensors_are_read_only_views_of_the_body():
    data = np.arange(6, dtype="<f4")
    body, length = _body(_binary(24, shape=[2, 3]), data=data.tobytes())
    for kind in (bytes, bytearray):
        held = kind(body)
        found = oip.decode_request(held, length).inputs["x"]
        assert np.shares_memory(found, np.frombuffer(held, np.uint8))
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, data.reshape(2, 3))


def test_arrays_of_any_layout_and_byte_order_are_written_in_row_major_order():
    plain = np.arange(6, dtype=np.int32).reshape(2, 3)
    for array in (plain.astype(">i4"), np.asfortranarray(plain), plain[::-1, ::-1]):
        for binary in (True, False):
            answer = oip.encode_response(oip.InferenceRequest({}, binary=binary), {"y": array}, "m")
            results = oip.decode_response(answer.body, answer.headers.get(oip.HEADER))
            np.testing.assert_array_equal(results["y"], array)


def test_nested_data_are_those_of_the_shape():
    nested = _x(shape=[2, 1, 3], data=[[[1, 2, 3]], [[4, 5, 6.5]]])
    scalar = _x(name="s", shape=[], data=2)
    found = oip.decode_request(_body(nested, scalar)[0]).inputs
    np.testing.assert_array_equal(found["x"], np.float32([[[1, 2, 3]], [[4, 5, 6.5]]]))
    assert found["s"].shape == ()


def test_null_is_what_is_left_away():
    away, data = dict.fromkeys(("id", "parameters", "outputs")), np.float32([1, 2]).tobytes()
    body, length = _body(_binary(8, data=None), data=data, **away)
    read = oip.decode_request(body, length)
    assert (read.id, read.outputs, read.inputs["x"].tolist()) == (None, {}, [1, 2])


def test_what_is_not_a_number_is_read_from_json_and_written_as_binary_alone():
    head = b'{"inputs":[{"name":"x","datatype":"FP64","shape":[5],"data":'
    array = oip.decode_request(head + b"[NaN,Infinity,-Infinity,-0, 9E999]}]}").inputs["x"]
    assert array.tobytes() == np.array([np.nan, np.inf, -np.inf, -0.0, np.inf]).tobytes()
    assert oip.encode_response(oip.InferenceRequest({}, {"y": True}), {"y": array}, "m")
    with pytest.raises(InputError, match=r"(?s)SGK344.*'y' has NaN.*Ask for it as binary"):
        oip.encode_response(oip.InferenceRequest({}), {"y": array}, "m")


@pytest.mark.parametrize(("value", "says"), [
    ([1.0], "is a list; only tensors"),
    (None, "is a NoneType"),
    (np.array([1j]), "complex128, which is none of BOOL"),
    (np.zeros(1, ml_dtypes.float8_e5m2), "float8_e5m2"),
    (np.zeros(1, np.float16), "FP16, which is not sent in JSON"),
    (np.array([b"\xff"], object), "bytes that are not UTF-8"),
    (np.array([1], object), "the element 1, which is no text"),
    (np.array(["\ud800"], object), "which is no text"),
])  # fmt: skip
def test_what_cannot_travel_is_refused(value, says):
    with pytest.raises(InputError, match=f"SGK344.*({says})"):
        oip.encode_response(oip.InferenceRequest({}), {"y": value}, "m")


WRONG: dict[str, tuple[tuple[bytes, Any], str]] = {
    "no body": ((b"", None), "0 bytes of JSON cannot be parsed"),
    "no object": ((b"[]", None), "Expected `object`, got `array`"),
    "deep": ((b"[" * 100_000, None), "cannot be parsed"),
    "not text": ((b"\xff\xfe\xfd", None), "cannot be parsed"),
    "long integer": ((b"1" * 9999, None), "cannot be parsed"),
    "no inputs": ((b"{}", None), "missing required field `inputs`"),
    "long header": ((_body(_x())[0], 10_000), "is '10000'; expected a number up to"),
    "negative header": ((_body(_x())[0], "-1"), "is '-1'"),
    "odd header": ((_body(_x())[0], "\N{ARABIC-INDIC DIGIT ONE}"), "expected a number"),
    "huge header": ((_body(_x())[0], "9" * 5000), "expected a number"),
    "id": (_body(_x(), id=7), "Expected `str \\| null`, got `int`"),
    "parameters": (
        _body(_x(), parameters=[1]), r"Expected `object \| null`, got `array` - at `\$.parameters`"
    ),
    "binary parameter": (_body(_x(), parameters={"binary_data_output": 1}), "is 1; expected true"),
    "no name": (_body({}), r"missing required field `name` - at `\$.inputs\[0\]`"),
    "twice": (_body(_x(), _x()), r"inputs\[1\] has the name 'x' again"),
    "output twice": (_body(_x(), outputs=[{"name": "y"}] * 2), r"outputs\[1\] has the name 'y'"),
    "outputs": (_body(_x(), outputs={}), "Expected `array \\| null`, got `object`"),
    "classification": (
        _body(_x(), outputs=[{"name": "y", "parameters": {"classification": 2}}]),
        "asks for classification, which is not supported",
    ),
    "no type": (_body(_x(datatype="FP8")), "input 'x' has the datatype 'FP8'; expected one of"),
    "list as type": (_body(_x(datatype=[])), "Expected `str`, got `array`"),
    "no shape": (_body(_x(shape=None)), "Expected `array`, got `null`"),
    "negative": (_body(_x(shape=[-1])), "Expected `int` >= 0"),
    "true": (_body(_x(shape=[True])), "Expected `int`, got `bool`"),
    "overflow": (_body(_x(shape=[2**32, 2**32])), r"less than 2\*\*63 bytes"),
    "empty overflow": (_body(_x(shape=[0, 2**62, 2**62], data=[])), r"less than 2\*\*63 bytes"),
    "one size": (_body(_x(shape=[2**63])), r"less than 2\*\*63 bytes"),
    "false nesting": (
        _body(_x(shape=[2, 2], data=[[1], [2, 3, 4]])), "nested otherwise than its shape"
    ),
    "nothing in it": (_body(_x(shape=[1, 1], data=[[]])), r"0 values; shape \[1, 1\] takes 1"),
    "many texts": (
        _body(_x(datatype="BYTES", data=[""] * 30_000)), "arrays of more than twice its bytes"
    ),
    "many numbers": (
        _body(_x(datatype="INT64", shape=[300_000], data=[1] * 300_000)),
        "binary data",
    ),
    "other text": (_body(_x(datatype="BYTES", data=["a", 1])), "no BYTES"),
    "texts": (_body(_x(datatype="BYTES", shape=[1, 1], data=[["a", "b"]])), "nested otherwise"),
    "sequence": (_body(_x(), parameters={"sequence_id": 7}), "asks for sequence_id"),
    "surrogate": (
        _body(_x(datatype="BYTES", data=["a", "\ud800"])), "cannot be parsed|is no BYTES"
    ),
    "axes": (_body(_x(shape=[1] * 65)), "65 axes"),
    "few": (_body(_x(shape=[3])), r"2 values; shape \[3\] takes 3"),
    "ragged": (_body(_x(shape=[2, 2], data=[[1, 2], [3]])), "has 3 values"),
    "nested wrongly": (_body(_x(shape=[4], data=[[1, 2], [3, 4]])), "nested otherwise than"),
    "deeper": (_body(_x(shape=[2], data=[[1], [2]])), "nested otherwise than its shape"),
    "text": (_body(_x(data=[1, "2"])), "has text, which is no FP32"),
    "fraction": (_body(_x(datatype="INT32", data=[1, 2.5])), "a value which is no INT32"),
    "true number": (_body(_x(data=[1, True])), "a value which is no FP32"),
    "number as BOOL": (_body(_x(datatype="BOOL", data=[1, 0])), "a value which is no BOOL"),
    "300": (_body(_x(datatype="INT8", data=[1, 300])), "out of the range of INT8"),
    "-1": (_body(_x(datatype="UINT64", data=[1, -1])), "out of the range of UINT64"),
    "1e300": (_body(_x(data=[1, 1e300])), "out of the range of FP32"),
    "FP16": (_body(_x(datatype="FP16")), "is FP16 in JSON"),
    "no data": (_body({"name": "x", "datatype": "FP32", "shape": [1]}), "neither or both of"),
    "both": (_body(_x(parameters={"binary_data_size": 8}), data=b"8" * 8), "neither or both"),
    "no length": ((_body(_binary(8))[0], None), "has the binary_data_size 8; 0 bytes are left"),
    "too large": (_body(_binary(2**63), data=b"8" * 8), "8 bytes are left"),
    "negative size": (_body(_binary(-8), data=b"8" * 8), "binary_data_size -8"),
    "true size": (_body(_binary(size=True), data=b"8"), "binary_data_size True"),
    "other size": (_body(_binary(4), data=b"8" * 4), r"4 bytes .* FP32 of shape \[2\] takes 8"),
    "more": (_body(_binary(8), data=b"8" * 9), "1 bytes are left behind its last tensor"),
    "no BOOL": (_body(_binary(2, datatype="BOOL"), data=b"\1\2"), "neither 0 nor 1"),
    "many strings": (
        _body(_binary(4, datatype="BYTES", shape=[2**40]), data=b"\0" * 4),
        "too few for the lengths of 1099511627776 BYTES",
    ),
    "long string": (
        _body(_binary(8, datatype="BYTES"), data=b"\xff\xff\xff\xff\0\0\0\0"),
        "element 0 of input 'x' ends at byte 4294967299 of 8",
    ),
    "cut string": (
        _body(_binary(8, datatype="BYTES"), data=b"\2\0\0\0ab\0\0"), "element 1 of input 'x'"
    ),
    "string behind": (
        _body(_binary(9, datatype="BYTES"), data=b"\0" * 9), "1 bytes of data behind its 2 elements"
    ),
    "no UTF-8": (
        _body(_binary(5, datatype="BYTES", shape=[1]), data=b"\1\0\0\0\xff"), "is not UTF-8"
    ),
    "shared memory": (
        _body(_x(parameters={"shared_memory_region": "r"})), "shared_memory_region, which is not"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_request_that_is_wrong_is_an_error_of_the_caller_that_says_what(case):
    (body, length), says = WRONG[case]
    with pytest.raises(InputError, match=says) as caught:
        oip.decode_request(body, length)
    assert caught.value.code == "SGK343"
    status, answer = oip.encode_error(caught.value)
    assert status == 400
    assert json.loads(answer)["error"] == str(caught.value)


def _mutants(count):
    draw = random.Random(12)
    arrays = np.random.default_rng(3)
    seeds = [_body(_x(), id="a", outputs=[{"name": "y"}])]
    for shape in SHAPES:
        inputs = {one: _drawn(one, shape, arrays) for one in DATATYPES}
        sent = oip.encode_request(oip.InferenceRequest(inputs, {"y": True}, binary=True))
        seeds.append((sent.body, sent.headers[oip.HEADER]))
    odd = [b"-1", b"1e99", b"NaN", b"null", b"true", b'"', b"[", b"{}", b"9" * 25, b"\xff", b"[[]]"]
    for _ in range(count):
        body, length = draw.choice(seeds)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(body))
            end = place + draw.choice([0, 1, 1, 2, 8, 40])
            body = body[:place] + draw.choice([*odd, body[:9], b""]) + body[end:]
        length = draw.choice([length, length, length, str(len(body)), None, "0", "-5"])
        yield body, length


def test_ten_thousand_spoiled_requests_end_in_a_request_or_in_a_coded_error():
    outcomes = {"read": 0, "SGK343": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for body, length in _mutants(10_000):
            try:
                request = oip.decode_request(body, length)
            except InputError as error:
                outcomes[error.code] += 1
            else:
                outcomes["read"] += 1
                again = oip.encode_request(
                    oip.InferenceRequest(request.inputs, request.outputs, binary=True)
                )
                inputs = oip.decode_request(again.body, again.headers.get(oip.HEADER)).inputs
                assert all(_same(inputs[name], one) for name, one in request.inputs.items())
    assert sum(outcomes.values()) == 10_000
    assert min(outcomes.values()) > 50, outcomes


def test_metadata_name_what_a_session_takes_and_gives():
    model = model_of("g (float[N,3] x, int64[2] i, bool b) => (float[N,3] y) { y = Relu(x) }")
    with sk.InferenceSession(model, "numpy") as session:
        assert oip.model_metadata(session, "m", ["1"]) == {
            "name": "m",
            "versions": ["1"],
            "platform": "subgraphkit_onnx",
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
                {"name": "i", "datatype": "INT64", "shape": [2]},
                {"name": "b", "datatype": "BOOL", "shape": []},
            ],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
        }
    assert "binary_tensor_data" in oip.server_metadata()["extensions"]


def test_metadata_of_a_model_whose_values_cannot_travel_are_refused():
    model = model_of("g (seq(float[N]) x) => (int64 y) { y = SequenceLength(x) }")
    with (
        sk.InferenceSession(model, "numpy") as session,
        pytest.raises(InputError, match=r"SGK344.*input 'x' is a seq\(tensor\(float\)\)"),
    ):
        oip.model_metadata(session, "m")


def test_what_is_not_an_error_of_the_caller_is_one_of_the_server_and_says_no_more():
    status, answer = oip.encode_error(RuntimeError("/secret/path"))
    assert (status, json.loads(answer)) == (500, {"error": "the server failed with RuntimeError"})
    late = sk.errors.RunTimeoutError("SGK138", "the run took longer")
    assert oip.encode_error(late)[0] == 504
