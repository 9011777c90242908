"""Small models that ask for far more than they are, and what opening and running them comes to.

``python -m tests.unit.binding.hostile_models`` opens all of them, one after the other in one
process, and writes as JSON what each came to.
"""

import json
import resource
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import onnx
from onnx import parser

import subgraphkit as sk
from tests.models import parsed

HUGE: Final = 2**40
MANY: Final = 1 << 22
Feeds = dict[str, Any]


def model(nodes: str, inputs: str = "", stored: str = "") -> onnx.ModelProto:
    """Return a model whose output is y."""
    stated = f"<{stored}>" if stored else ""
    return parsed(f"hostile ({inputs}) => (y) {stated} {{ {nodes} }}", opset=20)


def doubled(call: str, times: int, first: str = "x") -> str:
    """Return nodes that each read what the one before made twice; the last makes y."""
    names = [first, *[f"d{i}" for i in range(times - 1)], "y"]
    return " ".join(f"{made} = {call}({read}, {read})" for read, made in pairwise(names))


def _functions(depth: int) -> onnx.ModelProto:
    bodies = [f"t = local.F{i + 1}(a) b = local.F{i + 1}(t)" for i in range(depth)]
    functions = [
        f'<domain: "local", opset_import: ["": 20, "local": 1]> F{i} (a) => (b) {{ {body} }}'
        for i, body in enumerate([*bodies, "b = Relu(a)"])
    ]
    head = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'
    text = f"{head} hostile (float[1] x) => (y) {{ y = local.F0(x) }} {' '.join(functions)}"
    return parser.parse_model(text)


def _window(call: str, image: str = "1, 1, 2, 2", **lists: int | list[int]) -> onnx.ModelProto:
    """Return a model with one window over an image; lists of one number have it for each axis."""
    stated = ", ".join(f"{name} = {value}" for name, value in lists.items())
    weight = "" if call.endswith("Pool") else "float[1, 1, 2, 2] w = {1, 1, 1, 1}"
    shape = ", kernel_shape = [2, 2]" if not weight else ""
    read = "x, w" if weight else "x"
    return model(f"y = {call}<{stated}{shape}>({read})", f"float[{image}] x", weight)


X: Final = "float[1] x"
OPEN: Final = "float[n, m] x"
ACROSS: Final = "float[n, 1] x, float[1, m] z"
TALL: Final = {"x": np.zeros((1 << 20, 1), np.float32), "z": np.zeros((1, 1 << 20), np.float32)}
SIZES: Final = {"x": np.zeros(1, np.float32), "s": np.full(1, HUGE)}
_LARGE, _HALF = 1 << 20, 1 << 19
_RANKS: Final = doubled("Gather", 30)
_ONE_BY_ONE: Final = " ".join(
    f"t{i + 1} = OneHot({f't{i}' if i else 'x'}, d, v)" for i in range(2000)
)

AT_BIND: Final[dict[str, onnx.ModelProto]] = {
    "functions that double": _functions(20),
    "a chain of concatenations": model(
        f"c = Constant<value_ints = [1, 2]>() {doubled('Concat<axis = 0>', 26, 'c')}"
    ),
    "a filled shape": model(
        "f = ConstantOfShape(s) y = ReduceSum(f)", stored=f"int64[1] s = {{{1 << 28}}}"
    ),
    "a filled shape of many dimensions": model("y = ConstantOfShape(s)", f"int64[{1 << 26}] s"),
    "a shape of many elements": model("t = Neg(s) y = Reshape(x, t)", f"{X}, int64[{1 << 26}] s"),
    "a list of axes": model("t = Neg(s) y = Unsqueeze(x, t)", f"{X}, int64[{1 << 26}] s"),
    "ranks that double": model(_RANKS, "int64[1, 1] x"),
    "ranks that double in a body": model(
        f"y = If (c) <then_branch = a () => (y) {{ {_RANKS} }}, "
        f"else_branch = b () => (y) {{ {_RANKS} }}>",
        "bool c, int64[1, 1] x",
    ),
    "ranks that grow one by one": model(
        f"{_ONE_BY_ONE} y = Identity(t2000)", "int64[1] x", "int64 d = {1}, int64[2] v = {0, 1}"
    ),
    "a padded convolution": _window("Conv", pads=[_LARGE] * 4),
    "a dilated convolution": _window("Conv", pads=[_HALF] * 4, dilations=[_LARGE] * 2),
    "a dilated convolution of few steps": _window(
        "Conv", pads=[_LARGE] * 4, dilations=[_LARGE] * 2, strides=[_LARGE] * 2
    ),
    "a padded pool": _window("MaxPool", pads=[_LARGE] * 4),
    "a padded pool of few steps": _window(
        "AveragePool", "1, 1, n, 2", pads=[_LARGE] * 4, strides=[_LARGE] * 2
    ),
    "a transposed convolution": _window("ConvTranspose", "1, 1, 9, 9", strides=[_LARGE] * 2),
    "a transposed convolution cut off": _window(
        "ConvTranspose", dilations=[_LARGE] * 2, pads=[_HALF] * 4
    ),
    "a broadcast sum": model("y = Add(x, z)", f"float[{MANY}, 1] x, float[1, {MANY}] z"),
    "an outer product": model("y = MatMul(x, z)", f"float[{MANY}, 1] x, float[1, {MANY}] z"),
    "an outer product by equation": model(
        'y = Einsum<equation = "i,j->ij">(x, z)', f"float[{MANY}] x, float[{MANY}] z"
    ),
    "many rows gathered": model("y = Gather(x, i)", f"float[2, {MANY}] x, int64[{MANY}] i"),
    "an expanded element": model("y = Expand(x, s)", X, f"int64[1] s = {{{HUGE}}}"),
    "a tiled element": model("y = Tile(x, s)", X, f"int64[1] s = {{{HUGE}}}"),
    "padding": model("y = Pad(x, s)", X, f"int64[2] s = {{{HUGE}, {HUGE}}}"),
    "a resized image": model(
        'y = Resize(x, "", "", s)',
        "float[1, 1, 2, 2] x",
        f"int64[4] s = {{1, 1, {_LARGE}, {_LARGE}}}",
    ),
    "one hot of many": model(
        "y = OneHot(x, s, v)", "int64[1] x", f"int64[1] s = {{{HUGE}}}, int64[2] v = {{0, 1}}"
    ),
    "a long window": model("y = HannWindow(s)", stored=f"int64 s = {{{HUGE}}}"),
    "many random numbers": model(f"y = RandomNormal<shape = [{HUGE}]>()"),
    "a long input": model("y = Relu(x)", f"float[2, 2, {2**63 - 1}] x"),
    "a node of many inputs": model(f"v = Relu(x) y = Sum({', '.join(['v'] * 100_000)})", X),
    "parts beyond count": model(f"y = Split<num_outputs = {HUGE}>(x)", X),
    "a weighted window of channels": model(f"y = LRN<size = {2**62 + 1}>(x)", "float[1,1,2,2] x"),
}

AT_THE_STEP: Final[dict[str, tuple[onnx.ModelProto, Feeds]]] = {
    "a broadcast sum": (model("y = Add(x, z)", ACROSS), TALL),
    "a sum and what follows": (model("d = Sub(x, z) e = Relu(d) y = ReduceSum(e)", ACROSS), TALL),
    "an outer product": (model("y = MatMul(x, z)", ACROSS), TALL),
    "an outer product by equation": (
        model('y = Einsum<equation = "ik,kj->ij">(x, z)', ACROSS),
        TALL,
    ),
    "many rows gathered": (
        model("y = Gather(x, i)", f"{OPEN}, int64[k] i"),
        {"x": np.zeros((1, 1 << 20), np.float32), "i": np.zeros(1 << 20, np.int64)},
    ),
    "a chain of concatenations": (
        model(doubled("Concat<axis = 0>", 40), "float[n] x"),
        {"x": np.zeros(1, np.float32)},
    ),
    "texts that double": (
        model(doubled("StringConcat", 60), "string[n] x"),
        {"x": np.array(["ab"], object)},
    ),
    "a tiled element": (model("y = Tile(x, s)", f"{X}, int64[1] s"), SIZES),
    "a long window": (model("y = HannWindow(s)", "int64 s"), {"s": np.array(HUGE)}),
}


def outcomes() -> Iterator[tuple[str, str, int]]:
    """Open and run every model; yield its name, the code of the error, and the MiB it took."""
    before = _peak()
    limits = {"max_value_bytes": "64MiB"}
    for name, made in AT_BIND.items():
        yield name, _code(made.SerializeToString(), None), _peak() - before
    for name, (made, feeds) in AT_THE_STEP.items():
        code = _code(made.SerializeToString(), feeds, limits=limits)
        yield f"{name}, at the step", code, _peak() - before


def _code(data: bytes, feeds: Feeds | None, **settings: Any) -> str:
    try:
        with sk.InferenceSession(data, "numpy", **settings) as session:
            if feeds is None:
                return "opened"
            session.run(None, feeds)
    except sk.SubgraphkitError as error:
        return error.code
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
        return repr(error)
    return "ran"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Write what every model came to."""
    _code(model("y = Relu(x)", X).SerializeToString(), None)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    sys.stdout.write(json.dumps([*outcomes()]))


if __name__ == "__main__":
    main()
