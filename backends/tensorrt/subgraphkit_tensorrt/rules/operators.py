"""The operator table: element types, versions and rules of each operator TensorRT has.

Where the documentation is known to be stricter than parsers, the table has what parsers take. Some
rules hold although the parser takes the node: what it makes of it is something else, or fails to
build.

Source: the ONNX operator support pages of TensorRT 10.0, 10.1, 10.16 and 11.1, and the
parser and builder of TensorRT for RTX 1.7 asked about the official node tests of ONNX 1.23.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from subgraphkit.types import DataType
from subgraphkit_tensorrt.library.capabilities import release_of
from subgraphkit_tensorrt.rules import operator_rules as ruled
from subgraphkit_tensorrt.rules.judged_node import MAX_RANK, JudgedNode, Objections, types_of

_Release = tuple[int, ...]
_FLOATS: Final = "f32 f16 bf16"
_HALVES: Final = "f32 f16"
_NUMBERS: Final = "f32 f16 bf16 i32 i64"
_ANY: Final = "f32 f16 bf16 i32 i64 bool"
_ALL_TYPES: Final[_Release] = (10, 2)


@dataclass(frozen=True, slots=True)
class Operator:
    """The entry of one operator in the table.

    Attributes:
        of: Whose element types these are: ``input 0``, ``input 1``, ``inputs``, ``output 0`` or
            ``outputs``.
        early: Those up to TensorRT 10.1, where there are fewer.
        since: The release that brought it; empty if all known ones have it.
        inside: Inputs that must not come from outside a network, because they are float shape
            tensors.
    """

    types: str
    of: str = "input 0"
    early: str = ""
    since: str = ""
    opset: int = 9
    inside: tuple[int, ...] = ()
    rules: Callable[[JudgedNode], Objections] = lambda _: ()

    def dtypes(self, generation: _Release) -> tuple[DataType, ...]:
        """Return the element types that a release takes."""
        return types_of(self.early if self.early and generation < _ALL_TYPES else self.types)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names: str, operator: Operator) -> dict[str, Operator]:
    return dict.fromkeys(names.split(), operator)


_OPERATORS: Final[Mapping[str, Operator]] = {
    **_each(
        "Abs Add DepthToSpace Div Equal Greater IsNaN Less Max Min Mul Neg SpaceToDepth Sub Sum",
        Operator(_NUMBERS),
    ),
    **_each(
        "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor ImageScaler "
        "InstanceNormalization LRN Log LogSoftmax MeanVarianceNormalization Reciprocal Sin "
        "Sinh Softmax Sqrt Tan",
        Operator(_FLOATS),
    ),
    **_each("And Not Or Xor", Operator("bool")),
    **_each("ArgMax ArgMin", Operator(_NUMBERS)),
    **_each("Concat Identity Reshape Shape Size Slice", Operator(_ANY)),
    **_each(
        "Conv Elu GlobalAveragePool GlobalLpPool GlobalMaxPool HardSigmoid LeakyRelu PRelu "
        "ParametricSoftplus ScaledTanh Selu Sigmoid Softplus Softsign Tanh",
        Operator(_FLOATS),
    ),
    **_each("Expand Flatten Tile", Operator(_ANY)),
    **_each("Pad Scatter Sign", Operator(_NUMBERS)),
    **_each("Gather", Operator(_ANY)),
    "Attention": Operator("f32 f16 bf16 i8 f8", since="10.14", opset=23, rules=ruled.attention),
    "AveragePool": Operator(_FLOATS, rules=ruled.pool),
    "BatchNormalization": Operator(_FLOATS, rules=lambda one: [one.attribute("training_mode", 0)]),
    **_each(
        "BlackmanWindow HammingWindow HannWindow",
        Operator(_HALVES, of="output 0", since="10.4", opset=17),
    ),
    "Cast": Operator("f32 f16 bf16 i32 i64 u8 bool", rules=ruled.cast),
    "CastLike": Operator("f32 f16 bf16 i32 i64 u8 bool", of="inputs", opset=15),
    "Celu": Operator(_FLOATS, opset=12),
    "Clip": Operator(_NUMBERS),
    "Constant": Operator(
        "f32 f16 bf16 f8 f4 i4 i32 i64 bool", of="output 0", early=_ANY, rules=ruled.constant
    ),
    "ConstantOfShape": Operator("f32 f16 bf16 f8 f4 i4 i32 i64 bool", of="output 0", early=_ANY),
    "ConvTranspose": Operator(_FLOATS, rules=ruled.conv_transpose),
    "CumSum": Operator(_FLOATS, opset=11, rules=lambda one: [one.constant(1, "axis")]),
    "DeformConv": Operator(_HALVES, since="10.1", opset=19, rules=ruled.deform_conv),
    "DequantizeLinear": Operator(
        "i8 f8 f4 i4", early="i8 f8 i4", opset=10, rules=ruled.quantization
    ),
    "Dropout": Operator(_FLOATS, rules=lambda one: [one.constant(2, "training_mode")]),
    "Einsum": Operator(_FLOATS, opset=12, rules=ruled.einsum),
    "EyeLike": Operator(_ANY, of="output 0", rules=lambda one: [one.static(0), one.rank(0, 2)]),
    **_each("GRU LSTM RNN", Operator(_FLOATS, rules=ruled.recurrent)),
    **_each("GatherElements GatherND", Operator(_ANY, opset=11)),
    "Gelu": Operator(
        "f32 f16 bf16 i8 i32 i64",
        opset=20,
        rules=lambda one: [one.attribute("approximate", "none", "tanh")],
    ),
    "Gemm": Operator(_FLOATS, rules=lambda one: [one.rank(0, 2)]),
    **_each("GreaterOrEqual LessOrEqual", Operator(_NUMBERS, opset=12)),
    "GridSample": Operator(_HALVES, opset=16, rules=lambda one: [one.rank(0, 4)]),
    "GroupNormalization": Operator(_FLOATS, opset=18),
    "HardSwish": Operator("f32 f16 bf16 i8", opset=14),
    "Hardmax": Operator(_FLOATS, rules=ruled.hardmax),
    "If": Operator(_ANY, of="outputs", rules=ruled.branches),
    "IsInf": Operator(_FLOATS, opset=10),
    "LayerNormalization": Operator(
        _FLOATS,
        opset=17,
        rules=lambda one: [one.unused(1, "Mean"), one.unused(2, "InvStdDev")],
    ),
    "Loop": Operator(_ANY, of="outputs", rules=ruled.loop),
    "LpNormalization": Operator(_FLOATS, rules=lambda one: [one.attribute("p", 1, 2, default=2)]),
    **_each("LpPool MaxPool", Operator(_FLOATS, rules=ruled.pool)),
    "MatMul": Operator(_FLOATS, rules=ruled.mat_mul),
    "Mean": Operator("f32 f16 bf16 f8 i32 i64"),
    "Mish": Operator(_HALVES, opset=18),
    "Mod": Operator(_NUMBERS, opset=10, rules=ruled.mod),
    "NonMaxSuppression": Operator(
        _HALVES, opset=10, rules=lambda one: [one.rank(0, 3), one.rank(1, 3)]
    ),
    "NonZero": Operator("f32 f16 bf16 i32 i64 i8 bool"),
    "OneHot": Operator(_ANY, rules=lambda one: [one.constant(1, "depth")]),
    "Pow": Operator(_NUMBERS, early=_FLOATS),
    "QuantizeLinear": Operator(_FLOATS, opset=10, rules=ruled.quantization),
    "RMSNormalization": Operator(_FLOATS, since="10.15", opset=23),
    "Range": Operator(_NUMBERS, opset=11),
    **_each(
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare",
        Operator(_NUMBERS, rules=lambda one: [one.constant(1, "axes")]),
    ),
    "Relu": Operator(_NUMBERS),
    "Resize": Operator(_FLOATS, opset=10, inside=(1, 2), rules=ruled.resize),
    "ReverseSequence": Operator(_ANY, opset=10, rules=ruled.reverse_sequence),
    "RoiAlign": Operator(
        _HALVES,
        opset=10,
        rules=lambda one: [
            one.attribute("mode", "avg", "max"),
            one.attribute("coordinate_transformation_mode", "half_pixel", "output_half_pixel"),
        ],
    ),
    "RotaryEmbedding": Operator(
        _FLOATS,
        since="10.15",
        opset=23,
        rules=lambda one: [one.typed(3, "i64", "position_ids")],
    ),
    "Round": Operator(_FLOATS, opset=11),
    "STFT": Operator("f32", since="10.5", opset=17, rules=ruled.stft),
    "Scan": Operator(_FLOATS, of="outputs"),
    "ScatterElements": Operator(_NUMBERS, opset=11, rules=ruled.scatter_elements),
    "ScatterND": Operator(
        _NUMBERS, opset=11, rules=lambda one: [one.attribute("reduction", "none")]
    ),
    "Shrink": Operator("f32 f16 bf16 i32 i64 i8"),
    "Split": Operator(_ANY, rules=ruled.split),
    "Squeeze": Operator(_ANY, rules=ruled.squeeze),
    "Swish": Operator(_FLOATS, since="11.0", opset=24),
    "TensorScatter": Operator(
        "f32 f16 bf16 i32",
        since="10.15",
        opset=24,
        rules=lambda one: [
            one.rank(0, 4),
            one.rank(1, 4),
            one.attribute("axis", -2),
            one.attribute("mode", "linear"),
        ],
    ),
    "ThresholdedRelu": Operator(_FLOATS, opset=10),
    "TopK": Operator(_NUMBERS, rules=ruled.top_k),
    "Transpose": Operator(_ANY, rules=lambda one: [one.rank(0, *range(MAX_RANK + 1))]),
    "Trilu": Operator(
        _ANY,
        opset=14,
        rules=lambda one: [one.rank(0, *range(2, MAX_RANK + 1), expected="2 or more")],
    ),
    "Unsqueeze": Operator(_ANY, rules=lambda one: [one.constant(1, "axes")]),
    "Upsample": Operator(_FLOATS, inside=(1,)),
    "Where": Operator(_ANY, of="input 1"),
}

RANDOM: Final = _words(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
)
"""Operators whose seed TensorRT ignores."""

_MISSING: Final = RANDOM | _words(
    "AffineGrid BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im "
    "Compress ConcatFromSequence ConvInteger DFT Det DynamicQuantizeLinear ImageDecoder "
    "MatMulInteger MaxRoiPool MaxUnpool MelWeightMatrix NegativeLogLikelihoodLoss Optional "
    "OptionalGetElement OptionalHasElement QLinearConv QLinearMatMul RegexFullMatch "
    "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SequenceMap SoftmaxCrossEntropyLoss SplitToSequence StringConcat "
    "StringNormalizer StringSplit TfIdfVectorizer Unique"
)
_MISSING_IN: Final = {
    "tensorrt_rtx": _words(
        "Attention CausalConvWithState DeformConv LinearAttention NonMaxSuppression NonZero "
        "RoiAlign"
    )
}
"""By flavour: plugins it lacks, and operators that its builder has no kernel for, or few."""

_OPSETS: Final[Mapping[_Release, int]] = {(10, 16): 24, (): 20}
"""The last documented version of the operator set, by the first release that documents it."""


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """The operators of one release.

    Attributes:
        newer: Those that came later, with the release that brought them.
        missing: Those that no release has, or not this flavour.
        last_opset: The last version of the default operator set that is documented.
    """

    operators: Mapping[str, Operator]
    newer: Mapping[str, str]
    missing: frozenset[str]
    last_opset: int


@cache
def operator_table(generation: _Release, flavour: str) -> OperatorTable:
    """Return the table for a release."""
    missing = _MISSING | _MISSING_IN.get(flavour, frozenset())
    known = {name: row for name, row in _OPERATORS.items() if name not in missing}
    newer = {
        name: row.since
        for name, row in known.items()
        if row.since and generation < release_of(row.since)
    }
    operators = {name: row for name, row in known.items() if name not in newer}
    last_opset = next(last for release, last in _OPSETS.items() if generation >= release)
    return OperatorTable(operators, newer, missing, last_opset)
