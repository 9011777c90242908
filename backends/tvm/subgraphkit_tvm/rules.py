"""Rules against what the importer takes and gets wrong: operators, and uses of them.

Each rule stands for a difference that was seen against ``onnx.reference``. NaN is not part of it:
TVM's maxima and minima may drop one, see the README.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType

_Rule = Callable[[Node], str]
"""Says in a sentence what TVM does otherwise; nothing if the node is all right."""

_FLOATS: Final = frozenset({DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE})
_INFERENCE: Final = "TVM computes inference only"
_NO_INTRINSIC: Final = "TVM's LLVM code has no such function"
_SORTED: Final = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})


def judge_by_rule(node: Node) -> Refusal | None:
    """Return why a node that the importer would take is refused all the same, or None."""
    rule = _RULES.get(node.op_type)
    text = rule(node) if rule is not None else _ALWAYS.get(node.op_type, "")
    return Refusal("attribute", f"{node.op_type}: {text}") if text else None


def _when(differs: Callable[[Node], object], text: str) -> _Rule:
    return lambda node: text if differs(node) else ""


def _is_float(node: Node) -> bool:
    return node.dtype() in _FLOATS


def _bit_shift(node: Node) -> str:
    by, bits = node.constant(1), node.dtype().bits
    safe = by is not None and ((by >= 0) & (by < bits)).all()
    return "" if safe else f"LLVM makes anything of shifts below 0 or above {bits - 1} bits"


def _dropout(node: Node) -> str:
    given = node.constant(2)
    return _INFERENCE if any(node.inputs[2:]) and (given is None or given.any()) else ""


_of_doubles = _when(lambda n: n.dtype() is DataType.DOUBLE, "TVM rounds factors to float32")
# of infinities alone it makes that number
_extreme = _when(_is_float, "TVM starts from the largest finite number")


def _reduction(node: Node) -> str:
    axes = node.constant(1)
    has_axes = axes.size if axes is not None else len(node.inputs) > 1 and node.inputs[1]
    if node.attribute("noop_with_empty_axes", 0) and not has_axes:
        return "TVM hands on what ONNX takes the magnitude, the square or the logarithm of"
    return ""


def _pool(node: Node) -> str:
    kernel = node.attribute("kernel_shape")
    sizes: Any = (node.shape() or ())[-len(kernel) :]  # all known, as of every value
    pads = node.attribute("pads", None) or (0,) * 2 * len(kernel)
    steps = zip(node.attribute("strides", None) or (), kernel, strict=False)
    if "SAME" in node.attribute("auto_pad", "") and any(step > size for step, size in steps):
        return "TVM cuts off where padding to the same size meets steps beyond a window"
    short = np.less(np.add(sizes, np.reshape(pads, (2, -1)).sum(0)), kernel).any()
    return "TVM pads what is shorter than a window to its size" if short else ""


_SCALES_AFTER_REGIONS: Final = 11
_EXACT_BITS: Final = 16
"""Types of so many bits pass through float32 unharmed."""


def _resize(node: Node) -> str:
    keeps = node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
    if keeps or node.attribute("antialias", 0):
        return "TVM stretches, without antialiasing"
    if node.attribute("mode", "nearest") != "nearest" and not _is_float(node):
        return "TVM drops the fractions of whole numbers"
    if node.dtype().bits > _EXACT_BITS and node.dtype() is not DataType.FLOAT:
        return "TVM rounds to float32 whatever the type"
    if node.op_type == "Upsample" and node.attribute("scales"):
        return "TVM overlooks scales that are an attribute"
    place = 2 if node.op_type == "Resize" and node.opset >= _SCALES_AFTER_REGIONS else 1
    scales, shape = node.constant(place), cast("tuple[int, ...]", node.shape())
    if scales is None or not scales.size:
        return ""
    axes = node.attribute("axes") or range(len(shape))
    rounded = (np.take(shape, axes) * scales.astype(float) % 1).any()
    return "TVM derives scales from sizes, which were rounded" if rounded else ""


def _pad(node: Node) -> str:
    pads, mode = node.attribute("pads", node.constant(1)), node.attribute("mode", "constant")
    if pads is None or mode not in {"reflect", "wrap"}:
        return ""
    axes = node.constant(3)
    if axes is None and any(node.inputs[3:]):
        return "TVM knows no axes that are fed"
    widths: Any = np.reshape(pads, (2, -1))
    shape = cast("tuple[int, ...]", node.shape())  # known, as of every value
    sizes = np.take(shape, range(len(shape)) if axes is None else axes)
    left = sizes + np.minimum(widths, 0).sum(0)
    wrong = widths < 0 if mode == "wrap" else widths >= np.maximum(left, 1)
    return "TVM repeats what it cuts off, or what lies beyond" if wrong.any() else ""


def _grid_sample(node: Node) -> str:
    if node.dtype() is not DataType.FLOAT:
        return "TVM computes places in float32 whatever the type"
    mode, around = node.attribute("mode", "linear"), node.attribute("padding_mode", "zeros")
    if "cubic" in mode and around == "border":
        return "TVM clips cubic places before it looks around them"
    reflects = mode == "nearest" and around == "reflection"
    return "TVM takes another of two that are as near, where it reflects" if reflects else ""


def _scatter(node: Node) -> str:
    shape, places = node.shape() or (), node.shape(1) or ()
    axis = node.attribute("axis", 0) % max(len(shape), 1)
    same = all(a == b for at, (a, b) in enumerate(zip(shape, places, strict=True)) if at != axis)
    return "" if same else "TVM writes elsewhere unless indices cover all other axes"


def _shrink(node: Node) -> str:
    if node.attribute("lambd", 0.5) < 0:
        return "TVM drops what is within a limit below 0 on both sides"
    return "" if _is_float(node) else "TVM clips integers where ONNX wraps them around"


_ALWAYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), "TVM answers -1 where no number is better than any"),
    **dict.fromkeys(("Cosh", "Sinh"), _NO_INTRINSIC),
    **dict.fromkeys(("EyeLike", "Shape", "Size"), "TVM hands out the same memory in every run"),
    "LpPool": "TVM divides by what a window has inside",
    "MeanVarianceNormalization": "TVM loses digits in a difference of squares",
    "RoiAlign": "TVM answers what memory holds for a region without a size",
    "ThresholdedRelu": "TVM multiplies what is below by 0, which is NaN of infinities",
}
_SQUARES: Final = ("L1", "L2", "LogSum", "LogSumExp", "SumSquare")

_RULES: Final[Mapping[str, _Rule]] = {
    **{f"Reduce{name}": _reduction for name in _SQUARES},
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("Max", "Min", "ReduceMax", "ReduceMin"), _extreme),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("HardSigmoid", "HardSwish"), _of_doubles),
    "BatchNormalization": _when(lambda n: n.attribute("training_mode", 0), _INFERENCE),
    "BitShift": _bit_shift,
    "ConvTranspose": _when(
        lambda n: max(n.attribute("dilations", None) or (1,)) > 1,
        "TVM multiplies by 0 between taps, which is NaN of infinities",
    ),
    "CastLike": _when(lambda n: any(map(n.is_constant, (0, 1))), "TVM fails to fold a constant"),
    "Dropout": _dropout,
    "Gelu": _when(lambda n: n.dtype() is DataType.FLOAT16, "TVM cancels digits of a half"),
    "GridSample": _grid_sample,
    "IsInf": _when(
        lambda n: not (n.attribute("detect_negative", 1) and n.attribute("detect_positive", 1)),
        "TVM looks for infinities of both signs",
    ),
    "Mod": _when(_is_float, "TVM's remainder of floats fails for infinities"),
    "Pad": _pad,
    "ReduceMean": _when(lambda node: not _is_float(node), "TVM answers in int64"),
    **dict.fromkeys(("Scatter", "ScatterElements"), _scatter),
    "Shrink": _shrink,
    "SpaceToDepth": _when(lambda n: n.attribute("mode", "DCR") != "DCR", "TVM knows DCR only"),
    "TopK": lambda n: "" if n.dtype() in _SORTED else f"TVM does not sort {n.dtype()}",
}
