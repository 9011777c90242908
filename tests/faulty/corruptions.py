"""The table of faults in the results of operators, and what finds them."""

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Traits
from subgraphkit.ir import Node
from subgraphkit.testing.cases import Outcome
from tests.faulty import misreadings as as_if
from tests.faulty import spoiling as by
from tests.faulty.wrapping import Fault, Run, WrappedOperator, instead, results

_ARITHMETIC, _CURVES = "L5/operators/arithmetic", "L5/operators/curves"
_MOVED, _REDUCED = "L5/operators/movement", "L5/operators/reductions"
_MULTIPLIED, _WINDOWED = "L5/operators/products", "L5/operators/windows"
_NORMAL, _QUANTISED = "L5/operators/normalisations", "L5/operators/quantised"
_ATTENDED: Final = "L5/operators/attention"
_SAFE: Final = {"traits": Traits(thread_safe=True)}
_MINDS: Final = {"traits": Traits(minds_memory=True)}


def _not_repeated(node: Node, one: Any, other: Any) -> Any:
    """Subtract from the first element alone, where the size of what is taken away was open."""
    is_open = isinstance(node.shape(1)[-1], str) and other.shape[-1] != one.shape[-1]
    return one - other * (np.arange(one.shape[-1]) == 0) if is_open else one - other


def _counted(operator: WrappedOperator, inputs: list[Any], _: Run) -> Sequence[Any]:
    makers = map(operator.makers.__getitem__, operator.subgraph.outputs)
    read = [[operator.value(one, inputs).flat[0] for one in node.inputs] for node in makers]
    return [np.arange(*one, dtype=one[0].dtype) for one in read]


_IGNORED: Final = {
    _WINDOWED: """
        MaxPool ceil_mode=0, dilations=(); AveragePool count_include_pad=0; LpPool p=2;
        Conv group=1, dilations=(); ConvTranspose group=1, output_padding=()""",
    _MULTIPLIED: "Gemm alpha=1.0, beta=1.0",
    _REDUCED: "TopK largest=1; Hardmax axis=-1; LpNormalization p=2",
    _MOVED: "Pad mode='constant'; DepthToSpace mode='DCR'; Trilu upper=1; GatherND batch_dims=0",
    _ARITHMETIC: "Mod fmod=0; BitShift direction=''",
    _CURVES: "LeakyRelu alpha=0.01; Celu alpha=1.0; ThresholdedRelu alpha=1.0; OneHot axis=-1",
    _NORMAL: """
        LayerNormalization epsilon=1e-5; GroupNormalization num_groups=2; LRN alpha=1e-4, beta=0.75;
        Resize axes=(), antialias=0, exclude_outside=0, cubic_coeff_a=-0.75; GRU layout=0;
        RNN direction='forward', clip=None, activations=None; LSTM direction='forward'""",
    _QUANTISED: "DequantizeLinear block_size=0, axis=1",
    _ATTENDED: "Attention is_causal=0, softcap=0.0, scale=None",
}
"""Attributes that are ignored, with their usual values, by the case that finds it."""


def _ignoring() -> Iterator[tuple[str, Fault]]:
    for case, text in _IGNORED.items():
        for line in text.split(";"):
            operator, _, attributes = line.strip().partition(" ")
            for one in re.split(r",\s+(?=[a-z_]+=)", attributes):
                name, _, usual = one.partition("=")
                change = results(by.off_by_a_little, by.ignored(name, literal_eval(usual)))
                words = "".join(word.capitalize() for word in name.split("_"))
                what = f"Is wrong where {name} is not as usual."
                yield f"{operator}{words}Ignored", Fault(what, operator, case, change)


# fmt: off
CORRUPTIONS: Final[Mapping[str, Fault]] = {
    **dict(_ignoring()),
    # numbers
    "LosesSignOfZero": Fault("Makes 0.0 of -0.0.", "Neg Identity", _ARITHMETIC,
        results(by.floats(lambda made: made + 0.0))),
    "CutsMantissa": Fault("Keeps 13 bits of a fraction.", "Add Sub", _ARITHMETIC, results(by.cut)),
    "AccumulatesInHalf": Fault("Adds up in float16.", "Conv", _WINDOWED, results(by.half)),
    "FlushesDenormals": Fault("Makes 0 of denormal numbers.", "Mul Abs", _ARITHMETIC,
        results(by.flush)),
    "NaNToZero": Fault("Makes 0 of NaN.", "Sigmoid Tanh", _CURVES,
        results(by.floats(lambda made: np.where(np.isnan(made), made.dtype.type(0), made)))),
    "InfinityToLargest": Fault("Makes the largest number of infinity.", "Exp Softplus", _CURVES,
        results(by.floats(np.nan_to_num))),
    "WholeThroughFloat": Fault("Computes int32 through float32.", "Identity", _ARITHMETIC,
        results(by.through("int32", "float32"))),
    "Saturates": Fault("Saturates where 8 bits wrap around.", "Add", _ARITHMETIC,
        instead("Add", as_if.saturated)),
    "DividesDownwards": Fault("Rounds quotients of whole numbers down.", "Div", _ARITHMETIC,
        instead("Div", lambda node, a, b: a // b if a.dtype.kind == "i" else None)),
    "DropsNaN": Fault("Takes the number where NaN is beside one.", "Max", _ARITHMETIC,
        instead("Max", lambda node, *a: np.fmax.reduce(np.broadcast_arrays(*a)))),
    "MultipliesSaturated": Fault("Saturates products of int32.", "Mul", _ARITHMETIC,
        instead("Mul", as_if.saturated_product)),
    "HalfIsBounded": Fault("Makes the largest float16 of what is larger.", "Cast", _ARITHMETIC,
        instead("Cast", as_if.bounded_half)),
    "ModFollowsDividend": Fault("Gives a remainder the sign of the dividend.", "Mod", _ARITHMETIC,
        instead("Mod", lambda node, a, b: np.fmod(a, b))),
    "CastsThroughInt32": Fault("Casts fractions to int64 through int32.", "Cast", _ARITHMETIC,
        instead("Cast", as_if.cast_through_int32)),
    "BoolOfTwo": Fault("Has 2 in memory for true.", "Equal Less Not", _ARITHMETIC,
        results(by.twos)),
    "RoundsHalfUp": Fault("Rounds halves up, not to even.", "Round", _ARITHMETIC,
        instead("Round", lambda node, a: np.floor(a + a.dtype.type(0.5)))),
    "SaturatesPairs": Fault("Adds neighbouring products of 8 bits in 16.", "MatMulInteger",
        _MULTIPLIED, instead("MatMulInteger", by.pairs)),
    # sizes
    "LosesTail": Fault("Loses the last element beyond 4,096.", "Sigmoid", "L5/sizes/open/curves",
        results(by.tail(4096))),
    "LosesTailBeyond16Bits": Fault("Loses the last element beyond 65,536.", "Abs Ceil",
        "L5/sizes/open/arithmetic", results(by.tail(65536))),
    "LosesEndsOf16": Fault("Loses the last element of each block of 16.", "Softmax",
        "L5/sizes/open/reductions", results(by.ends(16))),
    "SkipsRemainder": Fault("Skips what is left behind the last 16.", "LayerNormalization",
        "L5/sizes/fixed/normalisations", results(by.remainder(16))),
    "FirstShapeForAll": Fault("Plans by the first shape, and computes no more elements.", "Erf",
        "L5/sizes/open/curves", by.later(by.as_many)),
    "SecondShapeWrong": Fault("Is wrong in the first element of a second shape.", "Conv",
        "L5/sizes/open/windows", by.later(by.second_shape)),
    "KnowsNoLimit": Fault("Says that it holds limits, and makes as many numbers as are asked for.",
        "Range", "L5/limits/range", _counted, Outcome.FAIL_CONTRACT,
        backend={"traits": Traits(pool="none", holds_limits=True)}),
    "GuessesRepeats": Fault("Does not repeat an open size that is 1.", "Sub", "L5/sizes/repeated",
        instead("Sub", _not_repeated)),
    "PlansByCount": Fault("Takes a shape of as many elements for one it knows.", "Softmax",
        "L5/shapes/several/normalised", by.plans_by_count),
    "StaleBuffers": Fault("Leaves old contents behind fewer elements.", "Transpose",
        "L5/sizes/open/movement", by.later(by.stale)),
    # run after run
    "KeepsByIdentity": Fault("Knows a result by the array that was fed.", "Gemm", _MULTIPLIED,
        by.kept(lambda fed: [id(one) for one in fed]), operator=_MINDS),
    "KeepsByFirstElement": Fault(
        "Knows a result by the first and the last number fed.", "AveragePool", _WINDOWED,
        by.kept(lambda fed: [(one.shape, one.flat[0], one.flat[-1]) for one in fed])),
    "KeepsBySum": Fault("Knows a result by the sum of what was fed.", "Softmax", _REDUCED,
        by.kept(lambda fed: [(one.shape, round(float(one.sum()), 2)) for one in fed])),
    "SharesScratch": Fault("Has one scratch memory for all threads.", "Sigmoid Tanh",
        "L5/threads/large/curves", by.shares_scratch, operator=_SAFE),
    "Undetermined": Fault("Computes something else every third time.", "LpNormalization", _REDUCED,
        by.sometimes(3)),
    "WrongFromThenOn": Fault("Is wrong from the hundredth run on.", "Relu", _ARITHMETIC,
        by.from_then_on(99)),
    "ResultsInArena": Fault("Puts the results of all runs in one place.", "Log Sin", _CURVES,
        by.arena, Outcome.FAIL_ALIAS),
    "EqualResultsAreOne": Fault("Returns one array for two results that are equal.", "Split",
        _MOVED, by.together, Outcome.FAIL_ALIAS),
    "ReturnsViews": Fault("Returns an input in another shape.", "Reshape Flatten", _MOVED, by.view,
        Outcome.FAIL_ALIAS),
    # windows
    "PadsTheOtherSide": Fault("Is off by one where padding differs from side to side.", "Conv",
        _WINDOWED, results(by.shift, by.pads_differ)),
    "SameLowerIsUpper": Fault("Takes SAME_LOWER for SAME_UPPER.", "MaxPool AveragePool", _WINDOWED,
        results(by.shift, by.auto("SAME_LOWER"))),
    "SameUpperIsLower": Fault("Takes SAME_UPPER for SAME_LOWER, which even windows show.",
        "MaxPool AveragePool", _WINDOWED, results(by.shift, as_if.even_windows)),
    "FirstOfBatchForAll": Fault("Computes the first of a batch for all.", "Conv", _WINDOWED,
        results(by.first_of_batch)),
    # attributes and forms
    "DefaultForgotten": Fault("Has another alpha where none is given.", "HardSigmoid", _CURVES,
        instead("HardSigmoid", as_if.hard_sigmoid)),
    "GeluAlwaysByTanh": Fault("Approximates Gelu unasked.", "Gelu", _CURVES,
        instead("Gelu", as_if.gelu_by_tanh)),
    "SlopesAlongLastAxis": Fault("Is wrong where slopes are for each channel.", "PRelu", _CURVES,
        instead("PRelu", as_if.one_slope)),
    "SoftmaxOfLastAxis": Fault("Takes the last axis for the one that is named.", "Softmax",
        _REDUCED, instead("Softmax", as_if.softmax_of_last)),
    "CumSumInclusive": Fault("Ignores exclusive and reverse.", "CumSum", _REDUCED,
        instead("CumSum", lambda node, a, axis: np.cumsum(a, int(axis)))),
    "LastOfEquals": Fault("Takes the last of equal maxima for the first.", "ArgMax", _REDUCED,
        results(lambda made: made + 1, lambda node: not node.attribute("select_last_index", 0))),
    "SoftmaxOfToday": Fault("Takes Softmax of opset 12 for that of opset 13.", "Softmax",
        "L5/versions/reductions", instead("Softmax", as_if.softmax_of_named)),
    "SoftmaxOverflows": Fault("Subtracts no maximum before it raises.", "Softmax", _REDUCED,
        instead("Softmax", as_if.softmax_of_large)),
    "SumOfNothingIsOne": Fault("Begins sums of nothing at 1.", "ReduceSum", _REDUCED,
        instead("ReduceSum", as_if.sum_from_one)),
    "VarianceOfSquares": Fault("Subtracts the square of the mean from the mean of squares.",
        "LayerNormalization", _NORMAL, instead("LayerNormalization", as_if.normalised_by_squares)),
    "CropsTheOtherEnd": Fault("Crops in front where negative pads crop at the end.", "Pad", _MOVED,
        instead("Pad", as_if.cropped_in_front)),
    "StepsIgnored": Fault("Ignores that a slice goes backwards.", "Slice", _MOVED,
        instead("Slice", lambda node, a, *rest: by.forwards(a, *rest))),
    "NegativeIndicesAreFirst": Fault("Takes negative indices for 0.", "Gather", _MOVED,
        instead("Gather", as_if.taken_from_zero)),
    "NotTransposedIfSquare": Fault("Leaves a square matrix as it is.", "Transpose", _MOVED,
        instead("Transpose", by.same_if_square)),
    "TransposedIfSquare": Fault("Takes a square factor for its transpose.", "MatMul", _MULTIPLIED,
        instead("MatMul", by.product_if_square)),
    "SubtractsTheOtherWay": Fault("Turns a difference over whose first operand is a constant.",
        "Sub Add", "L5/fused/elementwise",
        by.chained("Sub", by.first_is_constant, lambda made: -made)),
    "BroadcastsFromTheLeft": Fault("Broadcasts a row over columns.", "Add Sub Mul", _ARITHMETIC,
        instead("Sub", lambda node, a, b: by.from_the_left(a, b))),
    "KeepsDimensions": Fault("Ignores that dimensions are not kept.", "ReduceSum", _REDUCED,
        results(lambda made: made[None], by.ignored("keepdims", 1)), Outcome.FAIL_SHAPE),
    "AddsBeforeRounding": Fault("Rounds after the zero point was added.", "QuantizeLinear",
        _QUANTISED, instead("QuantizeLinear", as_if.rounded_after_zero_point)),
    "TransposesSquares": Fault("Ignores transA of a square matrix.", "Gemm", _MULTIPLIED,
        instead("Gemm", as_if.not_transposed)),
    "LastOfEqualsOnTop": Fault(
        "Takes the last of equal elements first.", "TopK", _REDUCED, as_if.last_of_equals),
    "ZeroPointIgnored": Fault("Ignores the zero point.", "DequantizeLinear", _QUANTISED,
        instead("DequantizeLinear", lambda node, a, s, z=0: None if s.ndim else a * s)),
    # pairs
    "ReducedThenPerChannel": Fault(
        "Adds the first of a constant's numbers everywhere behind a sum.",
        "ReduceSum ReduceMean Add Sub Mul Div", "L5/fused/reductions",
        by.chained("Add Sub Mul Div", by.per_channel("ReduceSum", "ReduceMean"), by.ends(2))),
    "ConvThenMax": Fault("Is wrong in a maximum behind a convolution.", "Conv Max",
        "L5/fused/windows", by.chained("Max", by.behind("Conv"), by.spoil)),
}
# fmt: on
"""By the name of the backend's class."""
