"""The operator table: element types, versions and rules of each operator TensorRT has.

Where the documentation is known to be stricter than parsers, the table has what parsers take. Some
rules refuse a node that the parser takes, because the result is wrong or fails to build.

Source: the ONNX operator support pages of TensorRT 10.16 and 11.1. Also the parser and builder of
TensorRT for RTX 1.7, which were asked about the official node tests of ONNX 1.23.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from subgraphkit_tensorrt.library.capabilities import release_of
from subgraphkit_tensorrt.rules import operator_rules as ruled
from subgraphkit_tensorrt.rules.judged_node import MAX_RANK, JudgedNode, Objections

FIRST_OPSET: Final = 9
"""The oldest version of ONNX's operators that TensorRT takes."""
_FLOATS: Final = "f32 f16 bf16"
_HALVES: Final = "f32 f16"
_NUMBERS: Final = "f32 f16 bf16 i32 i64"
_ANY: Final = "f32 f16 bf16 i32 i64 bool"


@dataclass(frozen=True, slots=True)
class Operator:
    """The entry of one operator in the table.

    Attributes:
        of: Whose element types these are: ``input 0``, ``input 1``, ``inputs``, ``output 0`` or
            ``outputs``.
        since: The release that brought it; empty if all known ones have it.
        inside: Inputs that must not come from outside a network, because they are float shape
            tensors.
    """

    types: str
    of: str = "input 0"
    since: str = ""
    opset: int = FIRST_OPSET
    inside: tuple[int, ...] = ()
    rules: Callable[[JudgedNode], Objections] = lambda _: ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names: str, operator: Operator) -> dict[str, Operator]:
    return dict.fromkeys(names.split(), operator)


_OPERATORS: Final[Mapping[str, Operator]] = {
    **_each(
        "Abs Add ArgMax ArgMin Clip DepthToSpace Div Equal Greater IsNaN Less Max Min Mul Neg Pad "
        "Pow ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare Relu Scatter Sign SpaceToDepth Sub Sum",
        Operator(_NUMBERS),
    ),
    **_each(
        "Acos Acosh Asin Asinh Atan Atanh BatchNormalization Ceil Conv ConvTranspose Cos Cosh "
        "Dropout Elu Erf Exp Floor Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool HardSigmoid "
        "Hardmax ImageScaler InstanceNormalization LRN LeakyRelu Log LogSoftmax LpNormalization "
        "MatMul MeanVarianceNormalization PRelu ParametricSoftplus Reciprocal ScaledTanh Selu "
        "Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh",
        Operator(_FLOATS),
    ),
    **_each("And Not Or Xor", Operator("bool")),
    **_each(
        "Concat Expand Flatten Gather Identity OneHot Reshape Shape Size Slice Split Tile "
        "Unsqueeze",
        Operator(_ANY),
    ),
    **_each("AveragePool LpPool MaxPool", Operator(_FLOATS, rules=ruled.pool)),
    **_each(
        "BlackmanWindow HammingWindow HannWindow",
        Operator(_HALVES, of="output 0", since="10.4", opset=17),
    ),
    **_each("Constant ConstantOfShape", Operator(f"{_ANY} f8 f4 i4", of="output 0")),
    **_each("GRU LSTM RNN", Operator(_FLOATS, rules=ruled.recurrent)),
    **_each("GatherElements GatherND", Operator(_ANY, opset=11)),
    **_each("GreaterOrEqual LessOrEqual", Operator(_NUMBERS, opset=12)),
    **_each("IsInf ThresholdedRelu", Operator(_FLOATS, opset=10)),
    **_each("NonMaxSuppression RoiAlign", Operator(_HALVES, opset=10)),
    **_each("Range ScatterElements ScatterND", Operator(_NUMBERS, opset=11)),
    **_each("RMSNormalization RotaryEmbedding", Operator(_FLOATS, since="10.15", opset=23)),
    "Attention": Operator("f32 f16 bf16 i8 f8", since="10.14", opset=23, rules=ruled.attention),
    "Cast": Operator("f32 f16 bf16 i32 i64 u8 bool", rules=ruled.cast),
    "CastLike": Operator("f32 f16 bf16 i32 i64 u8 bool", of="inputs", opset=15),
    "Celu": Operator(_FLOATS, opset=12),
    "CumSum": Operator(_FLOATS, opset=11, rules=lambda one: [one.constant(1, "axis")]),
    "DeformConv": Operator(_HALVES, opset=19),
    "DequantizeLinear": Operator("i8 f8 f4 i4", opset=10, rules=ruled.quantization),
    "Einsum": Operator(_FLOATS, opset=12),
    "EyeLike": Operator(_ANY, of="output 0"),
    "Gelu": Operator("f32 f16 bf16 i8 i32 i64", opset=20),
    "GridSample": Operator(_HALVES, opset=16, rules=lambda one: [one.rank(0, 4)]),
    "GroupNormalization": Operator(_FLOATS, opset=18),
    "HardSwish": Operator("f32 f16 bf16 i8", opset=14),
    "If": Operator(_ANY, of="outputs", rules=ruled.branches),
    "LayerNormalization": Operator(_FLOATS, opset=17, rules=ruled.normalization),
    "Loop": Operator(_ANY, of="outputs", rules=ruled.loop),
    "Mean": Operator("f32 f16 bf16 f8 i32 i64"),
    "Mish": Operator(_HALVES, opset=18),
    "Mod": Operator(_NUMBERS, opset=10),
    "NonZero": Operator("f32 f16 bf16 i32 i64 i8 bool"),
    "QuantizeLinear": Operator(_FLOATS, opset=10, rules=ruled.quantization),
    "Resize": Operator(_FLOATS, opset=10, inside=(1, 2)),
    "ReverseSequence": Operator(_ANY, opset=10),
    "Round": Operator(_FLOATS, opset=11),
    "STFT": Operator("f32", since="10.5", opset=17),
    "Scan": Operator(_FLOATS, of="outputs"),
    "Shrink": Operator("f32 f16 bf16 i32 i64 i8"),
    "Squeeze": Operator(_ANY, rules=ruled.squeeze),
    "Swish": Operator(_FLOATS, since="11.0", opset=24),
    "TensorScatter": Operator("f32 f16 bf16 i32", since="10.15", opset=24),
    "TopK": Operator(_NUMBERS, rules=ruled.top_k),
    "Transpose": Operator(_ANY, rules=lambda one: [one.rank(0, *range(MAX_RANK + 1))]),
    "Trilu": Operator(_ANY, opset=14),
    "Upsample": Operator(_FLOATS, inside=(1,)),
    "Where": Operator(_ANY, of="input 1"),
}

RANDOM: Final = _words(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
)
"""Operators whose seed TensorRT ignores."""

_MISSING: Final = RANDOM | _words(
    "AffineGrid BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
    "CausalConvWithState CenterCropPad Col2Im Compress ConcatFromSequence ConvInteger CumProd "
    "Det DFT DynamicQuantizeLinear ImageDecoder LinearAttention MatMulInteger MaxRoiPool "
    "MaxUnpool MelWeightMatrix NegativeLogLikelihoodLoss Optional OptionalGetElement "
    "OptionalHasElement QLinearConv QLinearMatMul RegexFullMatch SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
    "SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit SwiGLU "
    "TfIdfVectorizer Unique"
)
_LACKS: Final = {"tensorrt_rtx": _words("Attention DeformConv NonMaxSuppression NonZero RoiAlign")}
"""By flavour: plugins it lacks, and operators that its builder has no kernel for, or few."""


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """The operators of one release.

    Attributes:
        newer: Those that came later, with the release that brought them.
        missing: Those that no release has, or not this flavour.
    """

    operators: Mapping[str, Operator]
    newer: Mapping[str, str]
    missing: frozenset[str]


@cache
def operator_table(generation: tuple[int, ...], flavour: str) -> OperatorTable:
    """Return the table for a release."""
    missing = _MISSING | _LACKS.get(flavour, frozenset())
    known = {name: row for name, row in _OPERATORS.items() if name not in missing}
    dated = {name: row.since for name, row in known.items() if row.since}
    newer = {name: since for name, since in dated.items() if generation < release_of(since)}
    operators = {name: row for name, row in known.items() if name not in newer}
    return OperatorTable(operators, newer, missing)
