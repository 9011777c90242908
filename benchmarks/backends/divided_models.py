"""Detectors that no library takes whole: each has two operators, one of them for each library.

The first is the usual detector in two stages with deformable convolutions, which OpenVINO lacks,
and with RoiAlign of the newest operator sets, which ONNX Runtime lacks. The second is a detector in
one stage in bfloat16, in which ONNX Runtime computes no convolution on a processor, with the
suppression of boxes in the model, which OpenVINO orders otherwise. Weights are random.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

__all__ = ["DIVIDED", "picture"]

SIDE: Final = 160
CELLS: Final = (SIDE // 8) ** 2
CHANNELS: Final = 64
ROIS: Final = 64
KINDS: Final = 20

_TWO_STAGES: Final = f"""<ir_version: 10, opset_import: ["": 22]>
detector (float[1, 3, {SIDE}, {SIDE}] picture) => (float[{ROIS}, 91] kinds)
<int64[1] most = {{{ROIS}}}, int64[1] line = {{-1}}> {{
  a = Conv<pads=[1,1,1,1], strides=[2,2]>(picture, w0)  a1 = Relu(a)
  b = Conv<pads=[1,1,1,1], strides=[2,2]>(a1, w1)  b1 = Relu(b)
  c = Conv<pads=[1,1,1,1], strides=[2,2]>(b1, w2)  c1 = Relu(c)
  off = Conv<pads=[1,1,1,1]>(c1, shift)
  d = DeformConv<pads=[1,1,1,1], kernel_shape=[3,3]>(c1, w3, off)  d1 = Relu(d)
  off1 = Conv<pads=[1,1,1,1]>(d1, shift)
  e = DeformConv<pads=[1,1,1,1], kernel_shape=[3,3]>(d1, w4, off1)  e1 = Relu(e)
  score = Conv(e1, likely)  scores = Reshape(score, line)
  best, at = TopK<axis=0>(scores, most)
  rois = Gather(boxes, at)
  crops = RoiAlign<output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.125>
    (e1, rois, image)
  flat = Flatten(crops)
  h = Gemm<transB=1>(flat, hidden)  h1 = Relu(h)
  kinds = Gemm<transB=1>(h1, head)
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


def picture() -> Mapping[str, npt.NDArray[Any]]:
    """Return what both are fed."""
    return {"picture": np.random.default_rng(1).standard_normal((1, 3, SIDE, SIDE), np.float32)}


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


def _two_stages() -> bytes:
    n, k = CHANNELS, (3, 3)
    more = {"boxes": _boxes(), "image": np.zeros(ROIS, np.int64)}
    convolutions = {"w0": (32, 3, *k), "w1": (n, 32, *k), "w2": (n, n, *k), "w3": (n, n, *k)}
    others = {"w4": (n, n, *k), "shift": (18, n, *k), "likely": (1, n, 1, 1)}
    products = {"hidden": (256, n * 49), "head": (91, 256)}
    return _made(_TWO_STAGES, more, **convolutions, **others, **products)


def _one_stage() -> bytes:
    n, k = CHANNELS, (3, 3)
    first = {"n0": (32, 3, *k), "n1": (n, 32, *k), "n2": (n, n, *k), "n3": (n, n, *k)}
    return _made(_ONE_STAGE, {"batch": _boxes()[None]}, **first, n4=(n, n, *k), n5=(KINDS, n, 1, 1))


DIVIDED: Final[Mapping[str, Callable[[], bytes]]] = {
    "detector, two stages": _two_stages,
    "detector, bfloat16": _one_stage,
}
