"""Networks that other people's packages ship, with dimensions open, beside ONNX Runtime."""

import re
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

import subgraphkit as sk
from tests.models import shipped
from tests.road.decoders import decoder, feeds_of

BACKENDS = ("numpy", "onnxruntime", "openvino")
RNG = np.random.default_rng(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    pytest.importorskip(f"subgraphkit_{request.param}")
    return str(request.param)


def regions(session):
    return [subgraph.backend for subgraph in session.partitioning.subgraphs]


@pytest.mark.parametrize(("name", "sizes"), [
    ("*det_infer.onnx", [(1, 64, 96), (3, 96, 64)]),
    ("*rec_infer.onnx", [(1, 48, 160), (3, 48, 96), (1, 48, 320)]),
    ("*cls_infer.onnx", [(1, 48, 192), (3, 48, 96), (2, 64, 64)]),
])  # fmt: skip
def test_text_is_found_turned_and_read_at_any_size(backend, name, sizes):
    path = shipped("rapidocr_onnxruntime", name)
    alone = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with sk.InferenceSession(path, backend) as session:
        assert regions(session) == [backend]
        for count, *size in sizes:
            picture = RNG.standard_normal((count, 3, *size), np.float32)
            (expected,) = alone.run(None, {"x": picture})
            (found,) = session.run(None, {"x": picture})
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


STATEFUL = [f"silero_vad{end}.onnx" for end in ("", "_16k_op15", "_half", "_op18_ifless")]


@pytest.mark.parametrize("name", STATEFUL)
def test_voice_is_told_with_state_over_many_chunks(backend, name):
    path = shipped("silero_vad", name)
    alone = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    has_rate = "sr" in {one.name for one in alone.get_inputs()}
    rate = {"sr": np.array(16000)} if has_rate else {}
    with sk.InferenceSession(path, backend) as session:
        assert backend == "openvino" or regions(session) == [backend]
        states = [np.zeros((2, 1, 128), np.float32)] * 2
        for chunk in RNG.standard_normal((50, 1, 576)).astype(np.float32) * 0.1:
            runs: list[Any] = [
                one.run(None, {"input": chunk, "state": state, **rate})
                for one, state in zip((alone, session), states, strict=True)
            ]
            (expected, states[0]), (found, states[1]) = runs
            np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(states[1], states[0], atol=1e-3)


def test_a_network_with_branches_goes_to_openvino_whole():
    pytest.importorskip("subgraphkit_openvino")
    for name in ("silero_vad_op18_ifless.onnx", "silero_vad_16k_sequence.onnx"):
        with sk.InferenceSession(shipped("silero_vad", name), "openvino") as session:
            assert regions(session) == ["openvino"]


def test_a_branch_is_chosen_by_a_number_of_any_size():
    pytest.importorskip("subgraphkit_openvino")
    path = shipped("silero_vad", "silero_vad_op18_ifless.onnx")
    feeds = {"input": np.ones((1, 576), np.float32), "state": np.zeros((2, 1, 128), np.float32)}
    with sk.InferenceSession(path, "openvino") as session:
        narrow = session.run(None, {**feeds, "sr": np.array(16000)})
        with pytest.warns(sk.errors.SubgraphkitWarning, match="need more than the 24 bits"):
            wide = session.run(None, {**feeds, "sr": np.array(2**32 + 16000)})
    alone = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for found, rate in ((narrow, 16000), (wide, 2**32 + 16000)):
        expected = alone.run(None, {**feeds, "sr": np.array(rate)})
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5)


def test_files_are_told_apart_in_batches(backend):
    path = shipped("magika", "model.onnx")
    alone = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with sk.InferenceSession(path, backend) as session:
        assert regions(session) == [backend]
        for count in (1, 6):
            content = RNG.integers(0, 257, (count, 2048), np.int32)
            content[:, 900:1100] = 256
            (expected,) = alone.run(None, {"bytes": content})
            (found,) = session.run(None, {"bytes": content})
            np.testing.assert_allclose(found, expected, atol=1e-5)


PREPARING = re.compile(
    r"/subgraphkit(?:_openvino)?/(?:binding|partitioning|compiling|planning)[/.].*"
    r"|_numpy/compiler/(?!program.py run$).*| _create_inference_session$"
)


def test_a_decoder_stays_whole_and_no_step_of_256_prepares_anything_anew(backend):
    made = []

    def watch(frame, event, _):
        if event == "call":
            made.extend(PREPARING.findall(f"{frame.f_code.co_filename} {frame.f_code.co_name}"))

    alone = onnxruntime.InferenceSession(decoder().SerializeToString())
    sys.setprofile(watch)
    try:
        session = sk.InferenceSession(decoder(), backend)
        opened = len(made)
        for sizes in ((1, 5, 0), (2, 1, 7), (3, 4, 2), *((1, 1, past) for past in range(256))):
            feeds = feeds_of(*sizes)
            results = zip(session.run(None, feeds), alone.run(None, feeds), strict=True)
            for found, expected in results:
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    finally:
        sys.setprofile(None)
    assert regions(session) == [backend]
    assert len(made) == opened > 0
