"""Rules of operators that take more than a line, one function each; see ``operators``."""

import re
from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.rules.judged_node import (
    JudgedNode,
    Objections,
    plain,
    rounded_up,
    too_wide,
    types_of,
)

_TF: Final = "tf_half_pixel_for_nn"
_INTERPOLATED: Final = 3
"""Most axes that are interpolated along."""
_LARGEST_K: Final = 3840


def attention(one: JudgedNode) -> Objections:
    """Attention has four axes, no cache and a mask or causality, not both."""
    for place in (0, 1, 2, *([3] if one.has(3) else [])):
        yield one.rank(place, 4)
    for place, name in enumerate(("past_key", "past_value", "nonpad_kv_seqlen"), start=4):
        if one.has(place):
            yield Refusal("attribute", f"{one.label(place, name)} is given, TensorRT takes none")
    for place, name in enumerate(("present_key", "present_value", "qk_matmul_output"), start=1):
        yield one.unused(place, name)
    yield one.attribute("softcap", 0.0)
    yield one.attribute("qk_matmul_output_mode", 0)
    if "If" in one.around:
        yield Refusal("op_unsupported", f"{one.name} inside If fails to build")
    if one.node.shape(1) != one.node.shape(2):
        yield Refusal("shape", f"inputs 1, 2 of {one.name} differ in shape")
    if one.value("is_causal", 0) == 1 and one.has(3):
        text = f"{one.name} with is_causal=1 and input 3, TensorRT takes one of them"
        yield Refusal("attribute", text)


def pool(one: JudgedNode) -> Objections:
    """Windows of AveragePool, LpPool and MaxPool are dense, and not more than ONNX keeps."""
    if any(step != 1 for step in one.value("dilations", ())):
        yield one.wrong("dilations", "1 everywhere")
    if one.node.op_type == "LpPool":
        yield one.attribute("p", 1, 2, default=2)
    else:
        yield one.rank(0, 4, 5, 3)
    if one.node.op_type == "MaxPool":
        yield one.unused(1, "Indices")
    yield rounded_up(one.node)
    if one.node.op_type != "LpPool":
        yield too_wide(one.node)


def cast(one: JudgedNode) -> Objections:
    """Cast makes types that TensorRT has."""
    if one.value("to") is not None:
        yield one.makes(DataType(one.value("to")), "f32 f16 bf16 i32 i64 u8 bool")


def constant(one: JudgedNode) -> Objections:
    """Constant is neither sparse nor a string."""
    for name in ("sparse_value", "value_string", "value_strings"):
        if name in one.node.attributes:
            yield one.wrong(name, "none")


def conv_transpose(one: JudgedNode) -> Objections:
    """ConvTranspose begins in the padding, not behind it."""
    yield one.rank(0, 3, 4, 5)
    pads = list(one.value("pads", ()))
    if any(pad < 0 for pad in pads[: len(pads) // 2]):
        yield Refusal("attribute", f"pads {pads}, TensorRT takes no negative ones")


def deform_conv(one: JudgedNode) -> Objections:
    """DeformConv is padded alike at both ends and of one element type."""
    yield one.rank(0, 3, 4)
    pads = list(one.value("pads", ()))
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        text = f"pads {pads}, TensorRT takes the same at both ends of an axis"
        yield Refusal("attribute", text)
    found = {one.node.dtype(place) for place in range(5) if one.has(place)}
    if len(found) != 1 or not found <= set(types_of("f32 f16")):
        labels = ", ".join(sorted(each.label for each in found))
        yield Refusal("dtype", f"inputs of {one.name} are {labels}")


def einsum(one: JudgedNode) -> Objections:
    """Einsum has lowercase letters and no ellipsis."""
    if not re.fullmatch(r"[a-z .,>-]*", str(one.value("equation", ""))):
        yield one.wrong("equation", "simple ones")


def hardmax(one: JudgedNode) -> Objections:
    """Hardmax runs along an axis of known length."""
    shape, axis = one.node.shape(0), one.value("axis", -1)
    if not (shape and -len(shape) <= axis < len(shape) and isinstance(shape[axis], int)):
        yield Refusal("dynamic_shape", f"axis {axis} of {one.label(0)} is not known")


def branches(one: JudgedNode) -> Objections:
    """Branches of If make values of the same ranks under names of their own."""
    bodies = one.node.bodies.values()
    shapes = [[body.shape(name) for name in body.outputs] for body in bodies]
    for place, pair in enumerate(zip(*shapes, strict=True)):
        if len({None if shape is None else len(shape) for shape in pair}) > 1:
            yield Refusal("rank", f"the branches disagree on the axes of output {place}")
    shared = frozenset.intersection(*(body.output_names for body in bodies))
    if shared:
        yield Refusal("attribute", f"both branches call an output {min(shared)!r}")


def loop(one: JudgedNode) -> Objections:
    """Loop stacks up a known number of values and carries values that keep their shapes."""
    node, body = one.node, one.node.bodies["body"]
    stacked = any(node.outputs[max(0, len(node.inputs) - 2) :])
    if stacked and (not node.is_constant(0) or one.has(1)):
        text = "the number of values that the loop stacks up is not known"
        yield Refusal("dynamic_shape", text)
    for place, name in enumerate(node.inputs[2:]):
        before = node.graph.shape(name) if name else None
        after = body.shape(body.outputs[1 + place])
        if before is not None and after is not None and _differ(before, after):
            yield Refusal("shape", f"carried value {place} of the loop changes its shape")


def _differ(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    """Say whether shapes are known to differ."""
    if len(first) != len(second):
        return True
    pairs = zip(first, second, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def mat_mul(one: JudgedNode) -> Objections:
    """MatMul does not multiply a vector by a stack of matrices."""
    first, second = one.node.shape(0), one.node.shape(1)
    if first is not None and second is not None and len(first) == 1 and len(second) > 2:  # noqa: PLR2004 (a matrix)
        yield Refusal("rank", "a vector times a stack of matrices, TensorRT takes it the other way")


def mod(one: JudgedNode) -> Objections:
    """Mod is of whole numbers, unless it is that of C."""
    if one.value("fmod", 0) == 0:
        yield one.typed(0, "i32 i64")


def quantization(one: JudgedNode) -> Objections:
    """QuantizeLinear and DequantizeLinear are symmetric, with known positive scales."""
    is_quantize = one.node.op_type == "QuantizeLinear"
    zero = one.node.constant(2)
    if one.has(2):
        label = one.label(2, "y_zero_point" if is_quantize else "x_zero_point")
        if zero is None:
            yield Refusal("not_constant", f"{label} is not constant")
        elif zero.astype("float32").any():
            yield Refusal("attribute", f"{label} is not 0, TensorRT quantizes symmetrically")
    scale, label = one.node.constant(1), one.label(1, "scale")
    if scale is None:
        yield Refusal("not_constant", f"{label} is not constant")
    elif not (scale.astype("float32") > 0).all():
        yield Refusal("attribute", f"{label} is not positive everywhere")
    if is_quantize:
        type_ = one.node.output_type()
        dtype = type_.dtype if isinstance(type_, TensorType) else DataType.UNDEFINED
        yield one.makes(dtype, "i8 f8 i4 f4")


def recurrent(one: JudgedNode) -> Objections:
    """GRU, LSTM and RNN have one set of activations, and the sequence comes first."""
    names = [str(plain(name)).lower() for name in one.value("activations", ())]
    half = len(names) // 2
    if one.value("direction", "forward") == "bidirectional" and names[:half] != names[half:]:
        text = "activations differ between the directions, TensorRT has one set"
        yield Refusal("attribute", text)
    if one.node.op_type == "LSTM":
        yield one.attribute("input_forget", 0)
    yield one.attribute("layout", 0, silent=True)


def resize(one: JudgedNode) -> Objections:
    """Resize has modes that TensorRT has, and interpolates along few axes."""
    coordinates, nearest = "coordinate_transformation_mode", "nearest_mode"
    usual = "round_prefer_floor"
    ways = ("half_pixel", "pytorch_half_pixel", _TF, "asymmetric", "align_corners")
    yield one.attribute(coordinates, *ways)
    yield one.attribute("mode", "nearest", "linear", "cubic")
    yield one.attribute(nearest, "floor", "ceil", usual, "round_prefer_ceil", default=usual)
    yield one.attribute("keep_aspect_ratio_policy", "stretch")
    yield one.attribute("antialias", 0)
    if one.value(coordinates) == _TF:
        yield one.attribute(nearest, usual)
    axes, count = one.value("axes"), _resized_dims(one.node)
    scaled = one.has(2) and not one.node.is_constant(2)
    if axes is not None and scaled and list(axes) != list(range(len(axes))):
        yield Refusal("attribute", f"axes {list(axes)} with scales that are not constant")
    if one.value("mode", "nearest") != "nearest" and count > _INTERPOLATED:
        text = f"interpolation along {count} axes, TensorRT does {_INTERPOLATED}"
        yield Refusal("attribute", text)


def _resized_dims(node: Node) -> int:
    """Count the axes along which a Resize interpolates; all if that cannot be told."""
    axes = node.attribute("axes")
    if axes is not None:
        return len(axes)
    before, type_ = node.shape(0), node.output_type()
    after = getattr(type_, "shape", None)
    if before is None:
        return 0
    scales = node.constant(2 if node.opset > 10 else 1)  # noqa: PLR2004 (roi came with opset 11)
    if scales is not None and scales.size == len(before):
        return int((scales != 1).sum())
    if after is None or len(after) != len(before):
        return len(before)
    pairs = zip(before, after, strict=True)
    return sum(a is None or a != b for a, b in pairs)


def reverse_sequence(one: JudgedNode) -> Objections:
    """ReverseSequence distinguishes batch and time."""
    batch = one.value("batch_axis")
    if batch is not None and batch == one.value("time_axis"):
        text = f"batch_axis and time_axis of {one.name} are both {batch}"
        yield Refusal("attribute", text)


def scatter_elements(one: JudgedNode) -> Objections:
    """ScatterElements does not reduce in TensorRT for RTX."""
    if one.flavour == "tensorrt_rtx":
        yield one.attribute("reduction", "none")


def split(one: JudgedNode) -> Objections:
    """Split is given sizes or a number of outputs."""
    present = one.has(1) + ("num_outputs" in one.node.attributes)
    if one.node.opset >= 18 and present != 1:  # noqa: PLR2004 (num_outputs came with it)
        text = f"{one.name} with {present} of input:1(split) and attr:num_outputs, "
        yield Refusal("attribute", text + "TensorRT wants one of them")


def squeeze(one: JudgedNode) -> Objections:
    """Squeeze is given axes, or they follow from the shape."""
    yield one.constant(1, "axes")
    if not one.has(1) and "axes" not in one.node.attributes:
        yield one.static(0)


def stft(one: JudgedNode) -> Objections:
    """STFT has real signals, and steps and windows that are known."""
    yield one.constant(1, "frame_step")
    yield one.constant(2, "window")
    shape = one.node.shape(0)
    if not shape or shape[-1] != 1:
        yield Refusal("shape", f"the last axis of {one.label(0)} is not 1")


def top_k(one: JudgedNode) -> Objections:
    """TopK sorts, and takes few."""
    yield one.attribute("sorted", 1)
    count = one.node.constant(1)
    if count is not None and not (count <= _LARGEST_K).all():
        text = f"{one.label(1, 'K')} is {count.max()}, TensorRT takes {_LARGEST_K}"
        yield Refusal("shape", text)
