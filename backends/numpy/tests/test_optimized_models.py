"""What optimisers and quantisers of ONNX Runtime write, on NumPy against ONNX Runtime."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime import quantization

from backends.numpy.tests.comparing import compare
from backends.numpy.tests.models import parsed
from backends.numpy.tests.transformer_models import HEADS, HIDDEN, WORDS, encoder
from subgraphkit import InferenceSession
from subgraphkit.errors import UnclaimedNodesError
from subgraphkit.testing.light_models import seeded_feeds, seeded_model

Feeds = dict[str, Any]

EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
PLAIN = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def _session(model, level, written=""):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if written:
        options.optimized_model_filepath = written
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _optimized(model, folder, level=EXTENDED):
    """Write what ONNX Runtime makes of a model; return the path."""
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, folder / "given.onnx")
        model = str(folder / "given.onnx")
    written = str(folder / "optimized.onnx")
    _session(model, level, written)
    return written


def _operators(path):
    nodes = onnx.load(path).graph.node
    return {f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes}


def _agrees(path, feeds, rtol=1e-5):
    expected = _session(path, PLAIN).run(None, feeds)
    compare(expected, InferenceSession(path, backend="numpy").run(None, feeds), rtol)


def _encoder_feeds(seed=0):
    rng = np.random.default_rng(seed)
    mask = np.ones((2, 6), np.int64)
    mask[1, 4:] = 0
    ids, kinds = rng.integers(0, WORDS, (2, 6)), rng.integers(0, 2, (2, 6))
    return {"ids": ids, "kinds": kinds, "mask": mask}


# -- optimised -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet50", "squeezenet", "shufflenet", "inception_v1"])
def test_an_optimised_network_of_convolutions_agrees(name, tmp_path):
    model = seeded_model(name)
    path = _optimized(model, tmp_path)
    assert "com.microsoft::FusedConv" in _operators(path)
    _agrees(path, seeded_feeds(model, seed=1))


def test_layouts_of_one_processor_are_refused_with_advice(tmp_path):
    path = _optimized(seeded_model("squeezenet"), tmp_path, ALL)
    with pytest.raises(UnclaimedNodesError) as caught:
        InferenceSession(path, backend="numpy")
    told = str(caught.value)
    assert "com.microsoft.nchwc::Conv" in told
    assert "optimise with ORT_ENABLE_EXTENDED" in told
    assert "Backend 'onnxruntime' takes them: add 'onnxruntime' to the backends" in told


def _transformed(model, kind, folder):
    """Write what the optimiser of transformers makes of a model; return the path."""
    pytest.importorskip("sympy", reason="the optimiser of transformers wants it")
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    onnx.save(model, folder / "given.onnx")
    made = optimizer.optimize_model(
        str(folder / "given.onnx"), kind, num_heads=HEADS, hidden_size=HIDDEN, opt_level=0
    )
    made.save_model_to_file(str(folder / "transformed.onnx"))
    return str(folder / "transformed.onnx")


def test_what_the_optimiser_of_transformers_makes_of_an_encoder_agrees(tmp_path):
    path = _transformed(encoder(), "bert", tmp_path)
    names = ("Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization")
    assert _operators(path) >= {f"com.microsoft::{name}" for name in names}
    _agrees(path, _encoder_feeds())


def _installed(package, pattern):
    """Return the models that a package carries; one that skips if there are none."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = sorted(path for folder in folders for path in Path(folder).rglob(pattern))
    skip = pytest.param(None, marks=pytest.mark.skip(reason=f"{package} is not installed"))
    return [pytest.param(path, id=path.stem) for path in found] or [skip]


@pytest.mark.parametrize("path", _installed("rapidocr_onnxruntime", "*.onnx"))
def test_an_optimised_reader_of_text_agrees(path, tmp_path):
    written = _optimized(str(path), tmp_path)
    shape = {"det": (1, 3, 96, 96), "cls": (48, 3, 48, 48)}.get(path.stem[-9:-6], (1, 3, 48, 192))
    picture = np.random.default_rng(0).random(shape).astype(np.float32)
    expected = _session(written, PLAIN).run(None, {"x": picture})
    session = InferenceSession(written, backend="numpy")
    # what a detector sees in noise is next to nothing
    compare(expected, session.run(None, {"x": picture}), 1e-3 if "det" in path.stem else 1e-4)


@pytest.mark.parametrize("path", _installed("silero_vad", "*16k*.onnx"))
def test_an_optimised_detector_of_speech_agrees(path, tmp_path):
    written = _optimized(str(path), tmp_path)
    session = _session(written, PLAIN)
    rng = np.random.default_rng(0)
    feeds: Feeds = {}
    for one in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in one.shape]
        if one.name == "input":
            shape = [1, shape[1] if shape[1] > 1 else 512]
        if one.name == "sr":
            feeds[one.name] = np.array(16000)
            continue
        feeds[one.name] = (rng.standard_normal(shape) * 0.1).astype(np.float32)
    _agrees(written, feeds, 1e-4)


# -- quantised -------------------------------------------------------------------------------------


class _Samples(quantization.CalibrationDataReader):
    """Feeds to calibrate with."""

    def __init__(self, feeds):
        self._feeds: Iterator[Feeds] = iter(feeds)

    def get_next(self):
        """Return the next feeds, None after the last."""
        return next(self._feeds, None)


BYTES = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}
FORMATS = {"operators": quantization.QuantFormat.QOperator, "pairs": quantization.QuantFormat.QDQ}

# Products of larger weights saturate in ONNX Runtime on processors without VNNI.
REDUCED = {"reduce_range": True}
UNTYPED = {"DefaultTensorType": onnx.TensorProto.FLOAT}


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("is_transformed", [False, True])
def test_a_dynamically_quantised_encoder_agrees(*, kind, is_transformed, tmp_path):
    onnx.save(encoder(), tmp_path / "given.onnx")
    path = str(tmp_path / "given.onnx")
    if is_transformed:
        path = _transformed(encoder(), "bert", tmp_path)
    quantized = str(tmp_path / "quantized.onnx")
    quantization.quantize_dynamic(
        path, quantized, weight_type=BYTES[kind], extra_options=UNTYPED, **REDUCED
    )
    _agrees(quantized, _encoder_feeds())
    optimized = _optimized(quantized, tmp_path)
    names = {"com.microsoft::QAttention", "com.microsoft::QEmbedLayerNormalization"}
    if not is_transformed:
        names = {"com.microsoft::MatMulIntegerToFloat"}
    assert _operators(optimized) >= names | {"com.microsoft::DynamicQuantizeMatMul"}
    _agrees(optimized, _encoder_feeds())


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_dynamically_quantised_lstm_agrees(direction, kind, tmp_path):
    ways, rng = 1 + (direction == "bidirectional"), np.random.default_rng(0)
    shapes = [(ways, 96, 16), (ways, 96, 24), (ways, 192), (ways, 3, 24), (ways, 3, 24), (ways, 72)]
    weights = [(rng.standard_normal(shape) * 0.3).astype(np.float32) for shape in shapes]
    text = f"""g (float[S,3,16] x) => (float[S,{ways},3,24] y,
    float[{ways},3,24] h, float[{ways},3,24] c) {{ y, h, c = LSTM<hidden_size=24,
    direction="{direction}">(x, w0, w1, w2, , w3, w4, w5) }}"""
    model = parsed(text, 21, **{f"w{place}": one for place, one in enumerate(weights)})
    onnx.save(model, tmp_path / "given.onnx")
    quantized = str(tmp_path / "quantized.onnx")
    channels = {"per_channel": direction != "forward"}
    quantization.quantize_dynamic(
        tmp_path / "given.onnx", quantized, weight_type=BYTES[kind], **channels, **REDUCED
    )
    assert "com.microsoft::DynamicQuantizeLSTM" in _operators(quantized)
    _agrees(quantized, {"x": rng.standard_normal((20, 3, 16)).astype(np.float32)})


@pytest.mark.parametrize("form", FORMATS)
def test_a_quantised_encoder_agrees(form, tmp_path):
    onnx.save(encoder(), tmp_path / "given.onnx")
    path, quantized = str(tmp_path / "given.onnx"), str(tmp_path / "quantized.onnx")
    samples = _Samples([_encoder_feeds(seed) for seed in range(3)])
    quantization.quantize_static(path, quantized, samples, quant_format=FORMATS[form], **REDUCED)
    _agrees(quantized, _encoder_feeds())
    optimized = _optimized(quantized, tmp_path)
    assert "com.microsoft::QLinearSoftmax" in _operators(optimized)
    _agrees(optimized, _encoder_feeds())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_quantised_network_of_convolutions_agrees(name, form, tmp_path):
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    onnx.save(model, tmp_path / "given.onnx")
    path, quantized = str(tmp_path / "given.onnx"), str(tmp_path / "quantized.onnx")
    quantization.quantize_static(
        path, quantized, _Samples([feeds]), quant_format=FORMATS[form], **REDUCED
    )
    optimized = _optimized(quantized, tmp_path)
    assert "com.microsoft::QLinearSoftmax" in _operators(optimized)
    # in the latter, norms are between quantised nodes, and their last digit may move a byte by one
    _agrees(optimized, feeds, 1e-5 if name == "squeezenet" else 2e-2)


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_an_encoder_with_weights_of_four_bits_agrees(*, is_symmetric, tmp_path):
    pytest.importorskip("onnx_ir", reason="the quantiser of matrices wants it")
    module = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    quantizer = module.MatMulNBitsQuantizer(encoder(), block_size=16, is_symmetric=is_symmetric)
    quantizer.process()
    path = str(tmp_path / "quantized.onnx")
    quantizer.model.save_model_to_file(path)
    assert "com.microsoft::MatMulNBits" in _operators(path)
    _agrees(path, _encoder_feeds())
