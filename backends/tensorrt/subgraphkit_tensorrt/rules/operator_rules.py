"""Rules of operators that take more than a line, one function each; see ``operators``.

They refuse what the parser takes and then computes otherwise, and what the builder fails at. They
also name what is converted. Anything else that TensorRT lacks, the parser itself refuses.
"""

from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.rules.judged_node import JudgedNode, Objections, rounded_up, too_wide

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
    """Windows of AveragePool, LpPool and MaxPool are not more than ONNX keeps, nor too wide."""
    yield rounded_up(one.node)
    if one.node.op_type != "LpPool":
        yield too_wide(one.node)


def cast(one: JudgedNode) -> Objections:
    """Cast makes types that TensorRT has."""
    if one.value("to") is not None:
        yield one.makes(DataType(one.value("to")), "f32 f16 bf16 i32 i64 u8 bool")


def branches(one: JudgedNode) -> Objections:
    """Branches of If make values under names of their own."""
    shared = frozenset.intersection(*(body.output_names for body in one.node.bodies.values()))
    if shared:
        yield Refusal("attribute", f"both branches call an output {min(shared)!r}")


def loop(one: JudgedNode) -> Objections:
    """Loop stacks up a known number of values."""
    node = one.node
    stacked = any(node.outputs[max(0, len(node.inputs) - 2) :])
    if stacked and (not node.is_constant(0) or one.has(1)):
        text = "the number of values that the loop stacks up is not known"
        yield Refusal("dynamic_shape", text)


def normalization(one: JudgedNode) -> Objections:
    """LayerNormalization makes neither mean nor deviation."""
    yield from (one.unused(1, "Mean"), one.unused(2, "InvStdDev"))


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
    """GRU, LSTM and RNN have the sequence first."""
    yield one.attribute("layout", 0, "; TensorRT takes it and computes something else")


def squeeze(one: JudgedNode) -> Objections:
    """Squeeze is given axes, or they follow from the shape."""
    if not one.has(1) and "axes" not in one.node.attributes:
        yield one.static(0)


def top_k(one: JudgedNode) -> Objections:
    """TopK takes few."""
    count = one.node.constant(1)
    if count is not None and not (count <= _LARGEST_K).all():
        text = f"{one.label(1, 'K')} is {count.max()}, TensorRT takes {_LARGEST_K}"
        yield Refusal("shape", text)
