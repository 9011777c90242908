"""Models that no library takes whole: each has something that one computes and the other lacks.

ONNX Runtime computes next to nothing in bfloat16 on a processor, and OpenVINO does. The first is a
detector in bfloat16 with the suppression of boxes in the model, which OpenVINO does otherwise. The
second is a language model with linear attention, which OpenVINO lacks, and layers in bfloat16
between. Weights are random.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

__all__ = ["DIVIDED"]

SIDE: Final = 160
CELLS: Final = (SIDE // 8) ** 2
CHANNELS: Final = 64
KINDS: Final = 20
LAYERS, TOKENS, WIDTH = 4, 128, 256

_LAYERS: Final = "\n".join(
    f"""
  l{n} = RMSNormalization(x{n}, gain)
  q{n} = MatMul(l{n}, wq{n})  k{n} = MatMul(l{n}, wk{n})  v{n} = MatMul(l{n}, wv{n})
  m{n}, h{n} = LinearAttention<q_num_heads=8, kv_num_heads=8, update_rule="linear", scale=0.01>
    (q{n}, k{n}, v{n})
  s{n} = Add(m{n}, x{n})
  c{n} = Cast<to=16>(s{n})  u{n} = MatMul(c{n}, nu{n})  g{n} = Gelu(u{n})
  d{n} = MatMul(g{n}, nd{n})  w{n} = Cast<to=1>(d{n})  x{n + 1} = Add(w{n}, s{n})"""
    for n in range(LAYERS)
)
_LANGUAGE: Final = f"""<ir_version: 13, opset_import: ["": 27]>
language (float[1, {TOKENS}, {WIDTH}] x0) => (bfloat16[1, {TOKENS}, {WIDTH}] y) {{{_LAYERS}
  y = Cast<to=16>(x{LAYERS})
}}"""

_ONE_STAGE: Final = f"""<ir_version: 10, opset_import: ["": 22]>
detector (float[1, 3, {SIDE}, {SIDE}] picture) => (int64[N, 3] chosen)
<int64[3] lines = {{1, {KINDS}, {CELLS}}}, int64 most = {{100}}, float over = {{0.5}},
 float least = {{0.3}}> {{
  narrow = Cast<to=16>(picture)
  a = Conv<pads=[1,1,1,1], strides=[2,2]>(narrow, n0)  a1 = Relu(a)
  b = Conv<pads=[1,1,1,1], strides=[2,2]>(a1, n1)  b1 = Relu(b)
  c = Conv<pads=[1,1,1,1], strides=[2,2]>(b1, n2)  c1 = Relu(c)
  d = Conv<pads=[1,1,1,1]>(c1, n3)  d1 = Relu(d)
  e = Conv<pads=[1,1,1,1]>(d1, n4)  e1 = Relu(e)
  score = Conv(e1, n5)
  wide = Cast<to=1>(score)
  level = Sigmoid(wide)
  scores = Reshape(level, lines)
  chosen = NonMaxSuppression(batch, scores, most, over, least)
}}"""


def _boxes() -> npt.NDArray[Any]:
    dice = np.random.default_rng(2)
    corners = dice.uniform(0, SIDE / 2, (CELLS, 2))
    return np.hstack([corners, corners + dice.uniform(20, SIDE / 2, (CELLS, 2))]).astype("f4")


def _made(text: str, more: Mapping[str, npt.NDArray[Any]], **shapes: tuple[int, ...]) -> bytes:
    dice = np.random.default_rng(0)
    drawn = {
        name: (dice.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(
            ml_dtypes.bfloat16 if name[0] == "n" else np.float32
        )
        for name, shape in shapes.items()
    }
    model = onnx.parser.parse_model(text)
    for name, array in {**drawn, **more}.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _language() -> bytes:
    shapes = dict[str, tuple[int, ...]]()
    for n in range(LAYERS):
        shapes |= {f"w{one}{n}": (WIDTH, WIDTH) for one in "qkv"}
        shapes |= {f"nu{n}": (WIDTH, 4 * WIDTH), f"nd{n}": (4 * WIDTH, WIDTH)}
    return _made(_LANGUAGE, {"gain": np.ones(WIDTH, np.float32)}, **shapes)


def _one_stage() -> bytes:
    n, k = CHANNELS, (3, 3)
    first = {"n0": (32, 3, *k), "n1": (n, 32, *k), "n2": (n, n, *k), "n3": (n, n, *k)}
    return _made(_ONE_STAGE, {"batch": _boxes()[None]}, **first, n4=(n, n, *k), n5=(KINDS, n, 1, 1))


def _numbers(*shape: int) -> npt.NDArray[Any]:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


DIVIDED: Final[Mapping[str, tuple[Callable[[], bytes], Mapping[str, npt.NDArray[Any]]]]] = {
    "detector in bfloat16": (_one_stage, {"picture": _numbers(1, 3, SIDE, SIDE)}),
    "linear attention and bfloat16": (_language, {"x0": _numbers(1, TOKENS, WIDTH)}),
}
"""What makes a model, and what it is fed, by name."""
