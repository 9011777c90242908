"""What each class of operators costs on each backend, which `auto` goes by where nothing is stored.

Usage: ``python benchmarks/backends/bench_operators.py [--backends A,B] [--classes A,B]``

Every class has a model that consists of it, measured by ``subgraphkit.comparing.bench``: a process
per backend, taking turns. The figures belong into ``_MEASURED`` of
``subgraphkit/partitioning/predictions.py``: seconds for 10**9 operations, or bytes where a class is
bound by memory, and seconds for a node of four elements and for a run of one node. A backend that
leaves nodes of the model to NumPy has no figure. Steps of a quantisation cost what they do where a
library fuses them, and come from whole networks.
"""

import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import numpy as np  # noqa: E402 (after the paths, like its neighbours)
import onnx  # noqa: E402 (see above)
from measuring import THREADS, Table, base_parser, machine, show  # noqa: E402 (see above)
from onnx import numpy_helper  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (see above)
from subgraphkit.comparing import Measured, Schedule, bench  # noqa: E402 (see above)
from subgraphkit.ir.costs import work_of  # noqa: E402 (see above)
from subgraphkit.partitioning.predictions import NODE, RUN  # noqa: E402 (see above)

BEHIND: Final = "numpy"
OTHERS: Final = "onnxruntime,openvino,onednn,tvm"
SMALL: Final = frozenset({NODE, RUN})
Feeds = dict[str, np.ndarray[Any, Any]]


def main() -> int:
    """Measure every class on every backend and print the table.

    Returns:
        How many candidates could not run.
    """
    parser = base_parser("What each class of operators costs on each backend.", repeat=7)
    parser.add_argument("--backends", default=f"{BEHIND},{OTHERS}", help="separated by commas")
    parser.add_argument("--classes", default=",".join(MODELS), help="separated by commas")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"default: {THREADS}")
    arguments = parser.parse_args()
    names = arguments.backends.split(",")
    lists = [name if name == BEHIND else f"{name},{BEHIND}" for name in names]
    rows, failed = [], 0
    for kind in arguments.classes.split(","):
        model, feeds = MODELS[kind]()
        # Small nodes wake no threads, unless they follow one another as in this model alone.
        threads = 1 if kind == NODE else arguments.threads
        schedule = Schedule(arguments.repeat, warmup=2, threads=threads)
        found = bench(model, feeds, lists, schedule=schedule, cache=False)
        bound = sk.bind(sk.load(model), backend=BEHIND)
        work = [work_of(sk.Node(bound, node)) for node in bound.order]
        units = len(work) if kind in SMALL else sum(units for one, units in work if one == kind)
        scale = 1.0 if kind in SMALL else 1e9
        cells = [
            _cost(one, name, scale / units) for name, one in zip(names, found.measured, strict=True)
        ]
        best = min(filter(None, cells))
        rows.append(
            [kind, *("-" if one is None else f"{one:.2g}, {one / best:.2f}" for one in cells)]
        )
        print(*rows[-1], file=sys.stderr, flush=True)
        failed += sum(not one.ran for one in found.measured)
    notes = ["After the comma: the ratio to the best.", f"{arguments.threads} threads; {machine()}"]
    show(Table("Costs of operators", ["class", *names], rows, notes), markdown=arguments.markdown)
    return failed


def _cost(one: Measured, backend: str, scale: float) -> float | None:
    if not one.ran or {share.backend for share in one.shares} != {backend}:
        return None
    return one.median * scale


def _model(text: str, feeds: Feeds, **weights: np.ndarray[Any, Any]) -> tuple[Any, Feeds]:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return made, feeds


def _numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32) * np.float32(0.05)


def _chain(operator: str, count: int) -> str:
    names = ["x", *(f"v{at}" for at in range(1, count)), "y"]
    return " ".join(f"{names[at + 1]} = {operator.format(names[at], at)}" for at in range(count))


def _repeated(
    operator: str, count: int, x: np.ndarray[Any, Any], **weights: np.ndarray[Any, Any]
) -> tuple[Any, Feeds]:
    """Return a chain of one operator, which keeps the shape and the type of what it reads."""
    kind = "float16" if x.dtype == np.float16 else "float"
    sizes = f"{kind}[{','.join(map(str, x.shape))}]"
    text = f"g ({sizes} x) => ({sizes} y) {{ {_chain(operator, count)} }}"
    return _model(text, {"x": x}, **weights)


def _convolution() -> tuple[Any, Feeds]:
    weight = _numbers(64, 64, 3, 3)
    return _repeated("Conv<pads=[1,1,1,1]>({0}, w)", 6, _numbers(1, 64, 56, 56), w=weight)


def _rows() -> tuple[Any, Feeds]:
    weight = _numbers(128, 128, 3)
    return _repeated("Conv<pads=[1,1]>({0}, w)", 6, _numbers(1, 128, 1000), w=weight)


def _transposed() -> tuple[Any, Feeds]:
    text = """g (float[1,64,32,32] x) => (float[1,64,64,64] y) {
        y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w) }"""
    return _model(text, {"x": _numbers(1, 64, 32, 32)}, w=_numbers(64, 64, 4, 4))


def _depthwise_rows() -> tuple[Any, Feeds]:
    step = "Conv<pads=[7,7],group=128>({0}, w)"
    return _repeated(step, 6, _numbers(1, 128, 1024), w=_numbers(128, 1, 15))


def _depthwise() -> tuple[Any, Feeds]:
    step, weight = "Conv<pads=[1,1,1,1], group=144>({0}, w)", _numbers(144, 1, 3, 3) * 5
    return _repeated(step, 6, _numbers(1, 144, 56, 56), w=weight)


def _product() -> tuple[Any, Feeds]:
    weights = {f"w{at}": _numbers(768, 768) for at in range(6)}
    return _repeated("MatMul({0}, w{1})", 6, _numbers(1, 128, 768), **weights)


def _short_product() -> tuple[Any, Feeds]:
    weights = {f"w{at}": _numbers(256, 256).astype(np.float16) for at in range(6)}
    return _repeated("MatMul({0}, w{1})", 6, _numbers(1, 128, 256).astype(np.float16), **weights)


def _recurrent() -> tuple[Any, Feeds]:
    text = """g (float[64,1,256] x) => (float[64,1,1,256] y)
        { y, h, c = LSTM<hidden_size=256>(x, w, r) }"""
    weights = {"w": _numbers(1, 1024, 256), "r": _numbers(1, 1024, 256)}
    return _model(text, {"x": _numbers(64, 1, 256)}, **weights)


def _quantized() -> tuple[Any, Feeds]:
    text = """g (float[128,768] x) => (float[128,768] y) {
        a, s, z = DynamicQuantizeLinear(x)  b = MatMulInteger(a, w0, z, zero0)
        c = Cast<to=1>(b)  d = Mul(c, s)
        e, t, o = DynamicQuantizeLinear(d)  f = MatMulInteger(e, w1, o, zero1)
        h = Cast<to=1>(f)  y = Mul(h, t) }"""
    # ONNX Runtime cannot have the same weight twice here.
    draw = np.random.default_rng(0)
    weights = {f"w{at}": draw.integers(-100, 100, (768, 768)).astype(np.int8) for at in range(2)}
    zeros = {f"zero{at}": np.zeros((), np.int8) for at in range(2)}
    return _model(text, {"x": _numbers(128, 768)}, **weights, **zeros)


def _slope() -> tuple[Any, Feeds]:
    return _repeated("PRelu({0}, s)", 6, _numbers(1, 48, 96, 96), s=_numbers(48, 1, 1))


def _elementwise() -> tuple[Any, Feeds]:
    text = """g (float[1,128,3072] x) => (float[1,128,3072] y) {
        a = Softmax<axis=-1>(x)  b = Add(a, x)  c = LayerNormalization<axis=-1>(b, w, w)
        d = Sigmoid(c)  e = Mul(c, d)  f = ReduceMean<keepdims=1>(e, axis)  h = Sub(e, f)
        i = Erf(h)  j = Add(i, b)  y = LayerNormalization<axis=-1>(j, w, w) }"""
    weights: Feeds = {"w": np.ones(3072, np.float32), "axis": np.array([-1], np.int64)}
    return _model(text, {"x": _numbers(1, 128, 3072)}, **weights)


def _short() -> tuple[Any, Feeds]:
    text = """g (float16[1,128,3072] x) => (float16[1,128,3072] y) {
        a = Softmax<axis=-1>(x)  b = Add(a, x)  d = Sigmoid(b)  e = Mul(b, d)
        f = Relu(e)  y = Sub(f, b) }"""
    return _model(text, {"x": _numbers(1, 128, 3072).astype(np.float16)})


def _fourier() -> tuple[Any, Feeds]:
    text = """g (float[32,64,64,1] x) => (float[32,64,33,2] y) <int64 rows={2}, int64 lines={1}> {
        a = DFT<onesided=1>(x, , rows)  b = DFT(a, , lines)  y = DFT<inverse=1>(b, , lines) }"""
    return _model(text, {"x": _numbers(32, 64, 64, 1)})


def _power() -> tuple[Any, Feeds]:
    return _repeated("LRN<size=5>({0})", 2, _numbers(1, 96, 54, 54))


def _volume() -> tuple[Any, Feeds]:
    step, weight = "Conv<pads=[1,1,1,1,1,1]>({0}, w)", _numbers(32, 32, 3, 3, 3)
    return _repeated(step, 3, _numbers(1, 32, 8, 28, 28), w=weight)


def _logarithm() -> tuple[Any, Feeds]:
    return _repeated("Softplus({0})", 3, _numbers(1, 64, 56, 56))


def _exponential() -> tuple[Any, Feeds]:
    return _repeated("Selu({0})", 3, _numbers(1, 64, 56, 56))


def _sine() -> tuple[Any, Feeds]:
    return _repeated("Sin({0})", 3, 20 * _numbers(1, 64, 56, 56))  # small angles are quick


def _sampling() -> tuple[Any, Feeds]:
    grid = np.random.default_rng(0).uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    return _repeated("GridSample<align_corners=1>({0}, g)", 2, _numbers(1, 32, 56, 56), g=grid)


def _short_curve() -> tuple[Any, Feeds]:
    limits = {"low": np.array(-1, np.float16), "high": np.array(1, np.float16)}
    return _repeated(
        "Clip({0}, low, high)", 3, (40 * _numbers(1, 64, 56, 56)).astype(np.float16), **limits
    )


def _short_convolution() -> tuple[Any, Feeds]:
    w, x = _numbers(64, 64, 3, 3).astype(np.float16), _numbers(1, 64, 56, 56).astype(np.float16)
    return _repeated("Conv<pads=[1,1,1,1]>({0}, w)", 3, x, w=w)


def _choice() -> tuple[Any, Feeds]:
    text = """g (float[1,64,56,56] x) => (float[1,64,56,56] y) <float zero = {0}> {
        a = Greater(x, zero)  y = Where(a, x, zero) }"""
    return _model(text, {"x": _numbers(1, 64, 56, 56)})


def _extreme() -> tuple[Any, Feeds]:
    text = "g (float[256,512] x) => (int64[256,1] y) { y = ArgMax<axis=1>(x) }"
    return _model(text, {"x": _numbers(256, 512)})


def _running_sum() -> tuple[Any, Feeds]:
    return _repeated("CumSum({0}, axis)", 3, _numbers(1, 3, 256, 256), axis=np.array(1))


def _columns() -> tuple[Any, Feeds]:
    return _repeated("Softmax<axis=1>({0})", 3, _numbers(1, 21, 112, 112))


def _cubic() -> tuple[Any, Feeds]:
    text = """g (float[1,3,64,64] x) => (float[1,3,256,256] y) <float[4] scales = {1, 1, 4, 4}> {
        y = Resize<mode="cubic">(x, , scales) }"""
    return _model(text, {"x": _numbers(1, 3, 64, 64)})


def _movement() -> tuple[Any, Feeds]:
    text = """g (float[1,128,12,256] x) => (float[1,128,12,256] y) {
        a = Transpose<perm=[0,2,1,3]>(x)  b, c = Split<axis=3, num_outputs=2>(a)
        d = Concat<axis=2>(c, b)  e = Transpose<perm=[0,2,1,3]>(d)
        f = Concat<axis=3>(e, e)  h, i = Split<axis=1, num_outputs=2>(f)
        y = Concat<axis=1>(i, h) }"""
    return _model(text, {"x": _numbers(1, 128, 12, 256)})


def _nodes() -> tuple[Any, Feeds]:
    body = " ".join(
        f"v{at} = {'Add' if at % 2 else 'MatMul'}({f'v{at - 1}' if at else 'x'}, w)"
        for at in range(100)
    )
    text = f"g (float[2,2] x) => (float[2,2] v99) {{ {body} }}"
    return _model(text, {"x": _numbers(2, 2)}, w=_numbers(2, 2))


def _run() -> tuple[Any, Feeds]:
    text = "g (float[1,64] x) => (float[1,64] y) { y = Relu(x) }"
    return _model(text, {"x": _numbers(1, 64)})


MODELS: Final = {
    "convolution": _convolution,
    "rows": _rows,
    "transposed": _transposed,
    "depthwise": _depthwise,
    "depthwise rows": _depthwise_rows,
    "product": _product,
    "short product": _short_product,
    "recurrent": _recurrent,
    "quantized": _quantized,
    "elementwise": _elementwise,
    "fourier": _fourier,
    "power": _power,
    "slope": _slope,
    "volume": _volume,
    "logarithm": _logarithm,
    "exponential": _exponential,
    "sine": _sine,
    "sampling": _sampling,
    "short": _short,
    "short convolution": _short_convolution,
    "short curve": _short_curve,
    "choice": _choice,
    "extreme": _extreme,
    "running sum": _running_sum,
    "columns": _columns,
    "cubic": _cubic,
    "movement": _movement,
    NODE: _nodes,
    RUN: _run,
}

if __name__ == "__main__":
    sys.exit(main())
