"""Large weights leave the protobuf message, so that they are in memory once."""

import mmap
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.onnx_io import payloads, sources
from tests.models import parsed


def model(dtype=np.float32):
    values = np.arange(6000).reshape(60, 100).astype(dtype)
    text = "g (float[4] x) => (float[4] y) { y = Neg(x) }"
    return parsed(text, w=values, shape=[60, 100]), values


@pytest.fixture(autouse=True)
def _any_size_is_worth_it(monkeypatch):
    monkeypatch.setattr(sources, "_WORTH_TAKING", 1)


@pytest.mark.parametrize("length", [0, 5_000, *range(16_250, 16_400, 3), 40_000])
def test_what_is_before_a_weight_may_be_of_any_length(length):
    proto, values = model()
    proto.graph.node[0].doc_string = "-" * length
    loaded = sk.load(proto.SerializeToString())
    assert loaded.taken_out == {"w"}
    assert loaded.proto.graph.node[0] == proto.graph.node[0]
    np.testing.assert_array_equal(loaded.graph.constants["w"].array(), values)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64, ml_dtypes.bfloat16])
def test_a_large_weight_is_taken_out_and_reads_the_same(dtype):
    proto, values = model(dtype)
    loaded = sk.load(proto.SerializeToString())
    assert loaded.taken_out == {"w"}
    assert [len(t.raw_data) > 0 for t in loaded.proto.graph.initializer] == [False, True]
    array = loaded.graph.constants["w"].array()
    np.testing.assert_array_equal(array, values)
    assert array.dtype == values.dtype
    assert not array.flags.writeable


def test_packed_types_are_unpacked():
    proto, _ = model()
    packed = np.arange(6000, dtype=np.uint8) % 16
    stored = helper.make_tensor("w", TensorProto.UINT4, [12_000], packed.tobytes(), raw=True)
    proto.graph.initializer[0].CopyFrom(stored)
    loaded = sk.load(proto.SerializeToString())
    assert loaded.taken_out == {"w"}
    expected = numpy_helper.to_array(stored)
    np.testing.assert_array_equal(loaded.graph.constants["w"].array(), expected)


def test_a_large_weight_is_given_back_though_a_smaller_one_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(payloads, "_LARGE_PAGE", 1 << 14)
    proto, values = model()
    proto.graph.initializer.append(numpy_helper.from_array(values[:20], "part"))
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = sk.load(tmp_path / "m.onnx")
    assert loaded.taken_out == {"w", "part"}
    part = loaded.graph.constants["part"].array()
    memory = [weakref.ref(mapping_of(loaded.graph.constants[key].array())) for key in ("w", "part")]
    loaded.let_go()
    assert [one() is None for one in memory] == [True, False]
    np.testing.assert_array_equal(part, values[:20])
    np.testing.assert_array_equal(loaded.graph.constants["w"].array(), values)


def mapping_of(array):
    base: Any = array
    while not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else base.base
    return base


def test_the_callers_own_message_is_left_alone():
    proto, values = model()
    before = proto.SerializeToString()
    loaded = sk.load(proto)
    assert not loaded.taken_out
    assert proto.SerializeToString() == before
    np.testing.assert_array_equal(loaded.graph.constants["w"].array(), values)


def outcome(data):
    """Return what loading comes to: the weights, or the code of an error."""
    try:
        constants = sk.load(data).graph.constants
    except sk.errors.SubgraphkitError as error:
        return str(error)
    return {name: one.array().tobytes() for name, one in constants.items()}


def said_twice():
    """Yield messages that say things twice, which protobuf merges or takes the last of."""
    proto, _ = model()
    data = proto.SerializeToString()
    yield data + data
    stored = proto.graph.initializer[0]
    twice = (
        stored.SerializeToString() + onnx.TensorProto(raw_data=bytes(24_000)).SerializeToString()
    )
    proto.graph.ClearField("initializer")
    frame = proto.graph.SerializeToString() + b"\x2a" + _length(twice) + twice
    proto.ClearField("graph")
    yield proto.SerializeToString() + b"\x3a" + _length(frame) + frame


def written_at_length():
    """Yield messages with numbers of more bytes than they need, or than protobuf takes."""
    proto, _ = model()
    (raw,) = (one.raw_data for one in proto.graph.initializer[:1])
    proto.graph.initializer[0].ClearField("raw_data")
    head = proto.graph.initializer[0].SerializeToString()
    proto.graph.ClearField("initializer")
    for tag in (b"\x4a", b"\xca\x00", b"\xca\x80\x80\x80\x00", b"\xca\x80\x80\x80\x80\x00"):
        for more in (b"", b"\x00", b"\x80\x00", b"\x80\x80\x00", b"\x80\x80\x80\x80\x00"):
            for kind in (b"", b"\x10\x88\x80\x80\x80\x10"):  # text, in the lower half
                length = _length(raw)
                length = length[:2] + bytes([length[2] | 0x80]) + more if more else length
                stored = head + kind + tag + length + raw
                graph = proto.graph.SerializeToString() + b"\x2a" + _length(stored) + stored
                whole = onnx.ModelProto.FromString(proto.SerializeToString())
                whole.ClearField("graph")
                yield whole.SerializeToString() + b"\x3a" + _length(graph) + graph


def _length(data):
    low, middle, high = len(data) & 0x7F, len(data) >> 7 & 0x7F, len(data) >> 14
    return bytes([low | 0x80, middle | 0x80, high])


def test_a_damaged_or_unusual_message_is_what_protobuf_takes_it_for(monkeypatch):
    whole = model()[0].SerializeToString()
    cut = [whole[:end] for end in range(1, len(whole), 997)]
    flipped = [whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in range(0, 120, 3)]
    tried = [*cut, *flipped, *said_twice(), *written_at_length()]
    apart = [outcome(data) for data in tried]
    monkeypatch.setattr(sources, "_WORTH_TAKING", 1 << 40)
    assert apart == [outcome(data) for data in tried]
