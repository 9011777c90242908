"""Checks of whole networks in four precisions: how far off they are, and how long they take."""

import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import onnx

from subgraphkit.backend import ModelOpener
from subgraphkit_tensorrt.selftest import computing, models

LAYERS, WIDTH, HEADS, TOKENS, WORDS = 12, 768, 12, 128, 1000
"""The size of the stack of layers of a BERT."""
_RUNS: Final = 50
_EIGHT: Final = 4e-1
"""Twice what NumPy makes of ResNet-50 in float8."""
_TRTEXEC_SECONDS: Final = 60.0
_LIGHT: Final = ("squeezenet", "shufflenet", "inception_v1", "densenet121")
_PRODUCTS: Final = frozenset({"Conv", "Gemm", "MatMul"})
_CUDA: Final = "CUDAExecutionProvider"
_MEDIAN: Final = re.compile(r"GPU Compute Time:.*?median = ([\d.]+) ms")
PRECISIONS: Final[Mapping[str, tuple[str, str, float]]] = {
    "fp32": ("keep", "float32", computing.EXACT),
    "fp16": ("fp16", "float16", computing.HALF),
    "bf16": ("bf16", "bfloat16", computing.BRAIN),
    "fp8": ("fp8", "float8_e4m3fn", _EIGHT),
}
"""By name, the option ``precision``, what products are of, and the largest error."""

Network = tuple[Any, dict[str, Any]]
"""A model, and what it is fed."""


def light(bench: ModelOpener, name: str) -> Network:
    """Return a network of onnx with weights from a seed; NotAvailable if not in this build."""
    try:
        model = bench.network(name)
    except FileNotFoundError as error:
        raise computing.NotAvailable(str(error)) from error
    (picture,) = model.graph.input
    shape = [dim.dim_value for dim in picture.type.tensor_type.shape.dim]
    return model, {picture.name: computing.draw(*shape)}


def bert(bench: ModelOpener) -> Network:
    """Return the layers of a BERT of 12 layers and 768 columns, without biases."""
    del bench
    shapes: list[tuple[int, ...]] = [(WORDS, WIDTH)]
    layers = []
    for place in range(LAYERS):
        layers.append(_layer(place, len(shapes)))
        shapes += [(WIDTH, WIDTH)] * 4 + [(WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
        shapes.append((WIDTH,))
    size = WIDTH // HEADS
    text = (
        f"agraph (int64[1,{TOKENS}] x) => (float[1,{TOKENS},{WIDTH}] y) <int64[4] split = "
        f"{{0, 0, {HEADS}, {size}}}, int64[3] join = {{0, 0, {WIDTH}}}, float scale = "
        f"{{{size**-0.5}}}> {{ x0 = Gather(w0, x) {' '.join(layers)} y = Identity(x{LAYERS}) }}"
    )
    model = models.model((text, shapes), opset=20)
    return model, {"x": np.arange(TOKENS, dtype=np.int64)[None] * 7 % WORDS}


def _layer(n: int, first: int) -> str:
    """Return attention and what is behind it in ONNX's textual form."""
    w = [f"w{first + place}" for place in range(8)]
    heads = "Transpose<perm = [0, 2, 1, 3]>"
    return f"""
    q{n} = MatMul(x{n}, {w[0]}) k{n} = MatMul(x{n}, {w[1]}) v{n} = MatMul(x{n}, {w[2]})
    qs{n} = Reshape(q{n}, split) ks{n} = Reshape(k{n}, split) vs{n} = Reshape(v{n}, split)
    qt{n} = {heads}(qs{n}) kt{n} = Transpose<perm = [0, 2, 3, 1]>(ks{n}) vt{n} = {heads}(vs{n})
    s{n} = MatMul(qt{n}, kt{n}) c{n} = Mul(s{n}, scale) p{n} = Softmax(c{n})
    a{n} = MatMul(p{n}, vt{n}) at{n} = {heads}(a{n}) ar{n} = Reshape(at{n}, join)
    o{n} = MatMul(ar{n}, {w[3]}) r{n} = Add(o{n}, x{n}) n{n} = LayerNormalization(r{n}, {w[4]})
    h{n} = MatMul(n{n}, {w[5]}) g{n} = Gelu(h{n}) d{n} = MatMul(g{n}, {w[6]})
    e{n} = Add(d{n}, n{n}) x{n + 1} = LayerNormalization(e{n}, {w[7]})"""


NETWORKS: Final[Mapping[str, Callable[[ModelOpener], Network]]] = {
    "ResNet-50": partial(light, name="resnet50"),
    "BERT": bert,
}


def light_networks(bench: ModelOpener) -> str:
    """Real architectures, each as one engine in float32."""
    computing.tensorrt()
    errors = []
    for name in _LIGHT:
        model, feeds = light(bench, name)
        with computing.open_model(bench, model) as found:
            errors.append(f"{name} {computing.same(bench, model, found, feeds):.1e}")
    return f"errors: {', '.join(errors)}"


def in_precision(
    network: Callable[[ModelOpener], Network], precision: str
) -> Callable[[ModelOpener], str]:
    """Return what runs a network in a precision, and says error and milliseconds beside others.

    Raises:
        NotAsExpected: The error is too large, or no product is of that type.
    """
    option, products, most = PRECISIONS[precision]

    def check(bench: ModelOpener) -> str:
        computing.tensorrt()
        given: dict[str, Any] = {"precision": option}
        if precision == "fp8":
            computing.require_float8()
        model, feeds = network(bench)
        with TemporaryDirectory() as folder:
            if precision == "fp8":
                file = Path(folder, "calibration.cache")
                file.write_text(_calibration(bench, model, feeds))
                given["calibration"] = str(file)
            with computing.open_model(bench, model, **given) as found:
                computing.require_products(found, products)
                error = computing.same(bench, model, found, feeds, most)
                ours = _milliseconds(lambda: found.run(feeds))
                (engine,) = found.bare_engines()
            others = f"{_of_onnxruntime(model, feeds)}, {_of_trtexec(engine, Path(folder))}"
        return f"the error is {error:.1e}, a run takes {ours:.2f} ms; {others}"

    return check


def _calibration(bench: ModelOpener, model: Any, feeds: Mapping[str, Any]) -> str:
    """Return the ranges of all that products read, which the fallback computes, as TensorRT 8 did.

    Source: the files that ``IInt8Calibrator.write_calibration_cache`` writes.
    """
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    graph = watched.graph
    made = {name for node in graph.node for name in node.output}
    read = {name for node in graph.node if node.op_type in _PRODUCTS for name in node.input}
    names = sorted(made & read)
    del graph.output[:]
    float32 = onnx.TensorProto.FLOAT
    graph.output.extend(onnx.helper.make_tensor_value_info(one, float32, None) for one in names)
    values = dict(zip(names, bench.expected(watched, feeds), strict=True))
    values |= {name: array for name, array in feeds.items() if name in read}
    scales = {name: float(np.abs(array).max()) / 127 for name, array in values.items()}
    lines = [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    return "\n".join(["TRT-8601-EntropyCalibration2", *lines, ""])


def _milliseconds(run: Callable[[], Any]) -> float:
    """Return what a run takes, the middle of many."""
    run()
    spent = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        run()
        spent.append(time.perf_counter() - started)
    return 1e3 * float(np.median(spent))


def _of_onnxruntime(model: Any, feeds: Mapping[str, Any]) -> str:
    library = import_module("onnxruntime") if find_spec("onnxruntime") is not None else None
    if library is None or _CUDA not in library.get_available_providers():
        return "ONNX Runtime's CUDA provider is not here"
    providers = [(_CUDA, {"use_tf32": "0"})]
    session = library.InferenceSession(model.SerializeToString(), providers=providers)
    if session.get_providers()[0] != _CUDA:  # it runs on the processor in its place
        return "ONNX Runtime's CUDA provider does not start"
    spent = _milliseconds(lambda: session.run(None, feeds))
    return f"ONNX Runtime's CUDA provider takes {spent:.2f} ms in float32"


def _of_trtexec(engine: bytes, folder: Path) -> str:
    program, file = shutil.which("trtexec"), folder / "engine"
    if program is None:
        return "trtexec is not here"
    file.write_bytes(engine)
    command = [program, f"--loadEngine={file}", "--duration=3", "--useSpinWait"]
    try:
        done = subprocess.run(  # noqa: S603 (what the user has installed)
            command, capture_output=True, text=True, timeout=_TRTEXEC_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"trtexec did not run: {type(error).__name__}"
    if (found := _MEDIAN.search(done.stdout)) is None:
        return f"trtexec ended with {done.returncode} and says no time"
    return f"trtexec says {found[1]} ms on the GPU alone"
