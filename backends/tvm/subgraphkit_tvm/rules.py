"""Rules against what the importer takes and gets wrong: operators, and uses of them.

Each rule stands for a difference that was seen against ``onnx.reference``. NaN is not part of it:
TVM's maxima and minima may drop one, see the README.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType

_Rule = Callable[[Node], str]
"""Says in a sentence what TVM does otherwise; nothing if the node is all right."""

_FLOATS: Final = frozenset({DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE})
_NO_INTRINSIC: Final = "TVM's LLVM code has no such function"
_SORTED: Final = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})


def judge_by_rule(node: Node) -> Refusal | None:
    """Return why a node that the importer would take is refused all the same, or None."""
    rule = _RULES.get(node.op_type)
    text = rule(node) if rule is not None else ""
    return Refusal("attribute", f"{node.op_type}: {text}") if text else None


def _when(differs: Callable[[Node], object], text: str) -> _Rule:
    return lambda node: text if differs(node) else ""


def _is_float(node: Node) -> bool:
    return node.dtype() in _FLOATS


def _bit_shift(node: Node) -> str:
    by, bits = node.constant(1), node.dtype().bits
    if by is not None and ((by >= 0) & (by < bits)).all():
        return ""
    return f"LLVM makes anything of shifts by less than 0 or more than {bits - 1} bits"


def _dropout(node: Node) -> str:
    mode = 2
    if len(node.inputs) <= mode or not node.inputs[mode]:
        return ""
    given = node.constant(mode)
    return "TVM computes inference only" if given is None or given.any() else ""


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
    for axis, size in enumerate(sizes):
        padded = pads[axis] + size + pads[axis + len(kernel)]
        if kernel[axis] > padded:
            return f"TVM pads a size of {padded} to the {kernel[axis]} of a window"
    return ""


_SCALES_AFTER_REGIONS: Final = 11


def _resize(node: Node) -> str:
    if node.attribute("antialias", 0):
        return "TVM has no antialiasing"
    if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "TVM stretches"
    if node.attribute("mode", "nearest") != "nearest" and not _is_float(node):
        return "TVM drops the fractions of whole numbers"
    if node.op_type == "Upsample" and node.attribute("scales"):
        return "TVM overlooks scales that are an attribute"
    place = 2 if node.op_type == "Resize" and node.opset >= _SCALES_AFTER_REGIONS else 1
    scales, shape = node.constant(place), node.shape()
    if scales is None or not scales.size or shape is None:
        return ""
    axes = node.attribute("axes") or range(len(shape))
    lengths = [shape[axis] for axis in axes]
    exact = all(
        isinstance(length, int) and float(length * scale).is_integer()
        for length, scale in zip(lengths, scales.tolist(), strict=False)
    )
    return "" if exact else "TVM derives scales from sizes, which were rounded"


def _always(text: str) -> _Rule:
    return lambda _: text


def _grid_sample(node: Node) -> str:
    if node.dtype() is not DataType.FLOAT:
        return "TVM computes places in float32 whatever the type"
    match node.attribute("mode", "linear"), node.attribute("padding_mode", "zeros"):
        case (("cubic" | "bicubic"), "border"):
            return "TVM clips cubic places before it looks around them"
        case "nearest", "reflection":
            return "TVM takes another of two elements that are as near, where it reflects"
        case _:
            return ""


def _scatter(node: Node) -> str:
    shape, places = node.shape() or (), node.shape(1) or ()
    axis = node.attribute("axis", 0) % max(len(shape), 1)
    same = all(a == b for at, (a, b) in enumerate(zip(shape, places, strict=True)) if at != axis)
    return "" if same else "TVM writes elsewhere unless indices cover all other axes"


def _shrink(node: Node) -> str:
    if node.attribute("lambd", 0.5) < 0:
        return "TVM drops what is within a limit below 0 on both sides"
    return "" if _is_float(node) else "TVM clips integers where ONNX wraps them around"


_SQUARES: Final = ("L1", "L2", "LogSum", "LogSumExp", "SumSquare")

_RULES: Final[Mapping[str, _Rule]] = {
    **{f"Reduce{name}": _reduction for name in _SQUARES},
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("Cosh", "Sinh"), _always(_NO_INTRINSIC)),
    **dict.fromkeys(("Max", "Min", "ReduceMax", "ReduceMin"), _extreme),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(
        ("HardSigmoid", "HardSwish"),
        _when(lambda n: n.dtype() is DataType.DOUBLE, "TVM rounds factors to float32"),
    ),
    **dict.fromkeys(
        ("ArgMax", "ArgMin"), _always("TVM answers -1 where no number is better than any")
    ),
    "BatchNormalization": _when(
        lambda node: node.attribute("training_mode", 0), "TVM computes inference only"
    ),
    "BitShift": _bit_shift,
    "CastLike": _when(
        lambda node: node.is_constant(0) or node.is_constant(1), "TVM fails to fold a constant here"
    ),
    "Dropout": _dropout,
    **dict.fromkeys(
        ("EyeLike", "Shape", "Size"), _always("TVM hands out the same memory in every run")
    ),
    "Gelu": _when(lambda n: n.dtype() is DataType.FLOAT16, "TVM cancels digits of a half"),
    "GridSample": _grid_sample,
    "IsInf": _when(
        lambda n: not (n.attribute("detect_negative", 1) and n.attribute("detect_positive", 1)),
        "TVM looks for infinities of both signs",
    ),
    "LpPool": _always("TVM divides by what a window has inside"),
    "MeanVarianceNormalization": _always("TVM loses digits in a difference of squares"),
    "Mod": _when(_is_float, "TVM's remainder of floats fails for infinities"),
    "ReduceMean": _when(lambda node: not _is_float(node), "TVM answers in int64"),
    "RoiAlign": _always("TVM answers what memory holds for a region without a size"),
    **dict.fromkeys(("Scatter", "ScatterElements"), _scatter),
    "Shrink": _shrink,
    "SpaceToDepth": _when(
        lambda node: node.attribute("mode", "DCR") != "DCR", "TVM knows the mode DCR only"
    ),
    "ThresholdedRelu": _always("TVM multiplies what is below by 0, which is NaN of infinities"),
    "TopK": lambda n: "" if n.dtype() in _SORTED else f"TVM does not sort {n.dtype().label}",
}
