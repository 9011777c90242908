"""Costs of a node, counted from the shapes of its inputs and outputs: the one model of them.

Everything is counted in operations; a multiply-add, as in each term of a matrix product, counts as
two. Dimensions that are not known before a run count as 1, so estimates with symbolic shapes hold
for one sample. Use the numbers to compare shares of a model, not to predict times.

Formulas (``out`` and ``in`` are element counts of first output and first input):

========================================  ==========================================
operators                                 operations
========================================  ==========================================
Conv, ConvInteger, QLinearConv            2 * out * (input channels / groups) * kernel
ConvTranspose                             2 * in * (output channels / groups) * kernel
MatMul, Gemm and their integer forms      2 * out * length of the contracted axis
LSTM, GRU, RNN                            2 * steps * batch * directions * gates * hidden
                                          * (input + hidden)
Attention                                 4 * batch * heads * queries * keys * head size
AveragePool, MaxPool, LpPool              out * kernel, up to the input
DFT, STFT                                 out * binary digits of the longest axis read
Softmax, LogSoftmax                       5 * out
normalisations                            8 * out
reductions, global pools, ArgMax, ArgMin  in
Shape, Reshape and others that move data  0
DequantizeLinear of what is stored        0
everything else                           out
========================================  ==========================================

Source: operator definitions of the ONNX specification.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isqrt, prod
from typing import Final

from subgraphkit.ir.graph import Node
from subgraphkit.types import DataType, Shape, SparseTensorType, TensorType, ValueType

MOST_AT_BIND: Final = 1 << 29
"""Operations of which computing something beforehand is not noticed."""

# Assumed for a string, and for an element type that is not known: two words.
_BITS_OF_TEXT: Final = 128

# Axes of the inputs of convolutions of rows, and of volumes.
_OF_ROWS: Final = 3
_WITH_DEPTH: Final = 5

# The operator set from which on a softmax runs along one axis.
_FIRST_COLUMNS: Final = 13

# Groups that add up so many products for an element are computed as if there was one group.
_LONG_SUM: Final = 200

# The weight of writing an element, beside the operations that compute it.
_OF_AN_ELEMENT: Final = 10

_Shape = tuple[int, ...]


# -- sizes -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def elements(shape: Shape | None) -> int:
    """Return the number of elements, open dimensions counted as 1."""
    return prod([dim for dim in shape or () if isinstance(dim, int)])


def bytes_of(type_: ValueType | None) -> int:
    """Return the size of a value, at least 1; dimensions not known count as one element."""
    if isinstance(type_, TensorType | SparseTensorType):
        return max(1, (elements(type_.shape) * (type_.dtype.bits or _BITS_OF_TEXT) + 7) // 8)
    return _BITS_OF_TEXT // 8


def is_open(node: Node) -> bool:
    """Say whether a tensor that a node reads or makes has a dimension that is not known."""
    inner = (one for body in node.bodies.values() for one in body.nodes)
    types = (node.graph.types.get(name) for name in (*node.inputs, *node.outputs) if name)
    return any(map(is_open, inner)) or any(
        isinstance(type_, TensorType) and type_.element_count is None for type_ in types
    )


# -- what is computed --------------------------------------------------------------------------


def estimate_flops(node: Node) -> int:
    """Return the operations of one run of a node."""
    if node.bodies:
        return sum(estimate_flops(inner) for body in node.bodies.values() for inner in body.nodes)
    formula = _FORMULAS.get(node.op_type, _per_output)
    return formula(node)


def work_of(node: Node) -> tuple[str, int]:
    """Return the class of a node and how much of its work there is: operations, or bytes.

    Memory bounds the classes ``elementwise`` and ``movement``, so their bytes are counted.
    """
    kind = _kind_of(node)
    if kind is not None:
        return kind, estimate_flops(node)
    if node.op_type in _VIEWS:
        return "movement", 0
    read = node.outputs if node.op_type in _PICKING else node.inputs  # as much as is made of it
    names = [name for name in (*read, *node.outputs) if name]
    moved = sum(bytes_of(node.graph.types.get(name)) for name in names)
    if not estimate_flops(node):
        return "movement", moved
    return ("short" if _is_short(node) else "elementwise"), moved


def _kind_of(node: Node) -> str | None:
    """Return the class of a node whose operations are counted; None for one of memory."""
    kind = _BY_OPERATIONS.get(node.op_type)
    if kind == "convolution":
        kind = _kind_of_convolution(node)
    if kind in _OF_SHORT and _is_short(node):
        return f"short {kind}"
    applies = _WHERE.get(kind or "")
    return kind if applies is None or applies(node) else None


def _is_short(node: Node) -> bool:
    return node.dtype() in (DataType.FLOAT16, DataType.BFLOAT16)


def _kind_of_convolution(node: Node) -> str:
    axes, filters = len(_input(node, 0)), _input(node, 1)
    if axes == _WITH_DEPTH:
        return "volume"
    if node.op_type == "ConvTranspose":
        return "transposed"
    # windows of one element are a product, over any axes
    along_rows = axes == _OF_ROWS and filters[-1:] > (1,)
    if node.attribute("group", 1) > 1 and prod(filters[1:]) < _LONG_SUM:
        return "depthwise rows" if along_rows else "depthwise"
    return "rows" if along_rows else "convolution"


def _runs_along_rows(node: Node) -> bool:
    """Say whether the elements of a softmax lie without gaps, as always before opset 13."""
    behind = _input(node, 0)[int(node.attribute("axis", -1)) :][1:]
    return node.opset < _FIRST_COLUMNS or prod(behind) == 1


def weight_of(node: Node) -> float:
    """Return the weight of a node where a model is cut: its operations and its writing."""
    made = sum(elements(node.graph.shape(name)) for name in node.outputs)
    return 1.0 + estimate_flops(node) + _OF_AN_ELEMENT * made


def _dims(type_: ValueType | None) -> _Shape:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return ()
    return tuple(dim if isinstance(dim, int) else 1 for dim in type_.shape)


def _input(node: Node, index: int) -> _Shape:
    return _dims(node.input_type(index))


def _per_output(node: Node) -> int:
    return prod(_dims(node.output_type(0)))


def _convolution(weight: int) -> Callable[[Node], int]:
    def formula(node: Node) -> int:
        # The first axis of the weight is that of the output channels.
        return 2 * _per_output(node) * prod(_input(node, weight)[1:])

    return formula


def _matrix_product(node: Node) -> int:
    left = _input(node, 0)
    contracted = left[0 if node.attribute("transA", 0) else -1] if left else 1
    return 2 * _per_output(node) * contracted


def _recurrent(gates: int) -> Callable[[Node], int]:
    def formula(node: Node) -> int:
        # The axes of x are steps, batch and input; of the weight, directions, gates times hidden
        # and input.
        x, weight = _input(node, 0), _input(node, 1)
        if len(x) != 3 or len(weight) != 3:  # noqa: PLR2004 (both have three axes)
            return _per_output(node)
        hidden = weight[1] // gates
        return 2 * x[0] * x[1] * weight[0] * weight[1] * (weight[2] + hidden)

    return formula


def _attention(node: Node) -> int:
    query, key = _input(node, 0), _input(node, 1)
    return 4 * prod(query) * (key[-2] if len(key) > 1 else 1)


def _pool(node: Node) -> int:
    # A window may be larger than its input, as exporters write a pool of everything.
    kernel: Sequence[int] = node.attribute("kernel_shape", ())
    sizes = (node.shape() or ())[2:]
    if len(sizes) == len(kernel):
        both = zip(sizes, kernel, strict=True)
        kernel = [min(size, reach) if isinstance(size, int) else reach for size, reach in both]
    return _per_output(node) * prod(kernel)


_NORMALISING = (
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
    "LpNormalization", "LRN", "MeanVarianceNormalization", "RMSNormalization",
)  # fmt: skip
_REDUCING = (
    "ArgMax", "ArgMin", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
PASSING_ON: Final = (
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators of whose results every element is one of the first input's."""

_MOVING = (
    *PASSING_ON, "Cast", "CastLike", "Concat", "Constant", "ConstantOfShape", "Pad", "Shape", "Size"
)  # fmt: skip

_FORMULAS: Mapping[str, Callable[[Node], int]] = {
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    # The first axis of the weight is that of the input channels.
    "ConvTranspose": lambda node: 2 * prod(_input(node, 0)) * prod(_input(node, 1)[1:]),
    "MatMul": _matrix_product,
    "MatMulInteger": _matrix_product,
    "QLinearMatMul": _matrix_product,
    "Gemm": _matrix_product,
    # Stored values are computed beforehand, or read as they are.
    "DequantizeLinear": lambda node: 0 if node.is_constant(0) else _per_output(node),
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "Attention": _attention,
    **dict.fromkeys(
        ("DFT", "STFT"),
        lambda node: _per_output(node) * max(_input(node, 0), default=1).bit_length(),
    ),
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), _pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), lambda node: 5 * _per_output(node)),
    **dict.fromkeys(_NORMALISING, lambda node: 8 * _per_output(node)),
    **dict.fromkeys(_REDUCING, lambda node: prod(_input(node, 0))),
    **dict.fromkeys(_MOVING, lambda _: 0),
}

_BY_OPERATIONS: Final = {
    **dict.fromkeys(("Conv", "ConvTranspose", "DeformConv"), "convolution"),
    **dict.fromkeys(("MatMul", "Gemm", "Attention"), "product"),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "recurrent"),
    **dict.fromkeys(("DFT", "STFT"), "fourier"),
    "LRN": "power",
    "PRelu": "slope",
    "Resize": "cubic",
    **dict.fromkeys(("Softmax", "LogSoftmax"), "columns"),
    **dict.fromkeys(("Mish", "Softplus"), "logarithm"),
    **dict.fromkeys(("Celu", "Elu", "Selu"), "exponential"),
    **dict.fromkeys(("Acos", "Asin", "Atan", "Cos", "Cosh", "Log", "Sin", "Sinh", "Tan"), "sine"),
    "Where": "choice",
    "CumSum": "running sum",
    **dict.fromkeys(("ArgMax", "ArgMin"), "extreme"),
    **dict.fromkeys(("Clip", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"), "short curve"),
    "GridSample": "sampling",
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), "steps"),
    **dict.fromkeys(("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"), "quantized"),
}
_OF_SHORT: Final = frozenset({"convolution", "product"})
"""Classes that have one of their own for numbers of 16 bits."""
_WHERE: Final[Mapping[str, Callable[[Node], bool]]] = {
    "columns": lambda node: not _runs_along_rows(node),
    "cubic": lambda node: node.attribute("mode", "") == "cubic",
    "sampling": lambda node: bool(node.attribute("align_corners", 0)),
    "choice": lambda node: prod(_input(node, 0)) == _per_output(node),
    "extreme": lambda node: prod(_input(node, 0)[int(node.attribute("axis", 0)) :][1:]) == 1,
    "short curve": _is_short,
}
"""Conditions for a node to be of its class; otherwise memory bounds it."""
_VIEWS: Final = frozenset({"Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"})


# -- what it takes at most, to compute something beforehand -------------------------------------

# The estimate where sizes say nothing: the work follows from data or attributes.
_WITHOUT_END: Final = 1 << 63

# An operator that looks at each element once takes as long for it as this many operations do.
_PER_ELEMENT: Final = 32

# The same where elements are texts, or looked up in a node's table.
_PER_OBJECT: Final = 1024


def effort_of(node: Node, read: Sequence[int] | None = None) -> int:
    """Return about how many operations a node takes; rather too many than too few.

    Args:
        node: The node.
        read: Elements of its inputs; by their types, open dimensions counted as 1, if not given.
    """
    if node.op_type in _ENDLESS:
        return _WITHOUT_END
    shape = node.graph.shape
    most_read = max(
        [elements(shape(name)) for name in node.inputs] if read is None else read, default=0
    )
    most_made = max([elements(shape(name)) for name in node.outputs], default=0)
    largest = max(most_read, most_made)
    if node.domain or DataType.STRING in map(node.graph.dtype, node.outputs):
        return _PER_OBJECT * largest
    if node.op_type in _PICKING:
        return _PER_ELEMENT * most_made
    effort = max(estimate_flops(node), _PER_ELEMENT * largest)
    if node.op_type == "LRN":
        effort += 2 * most_made * int(node.attribute("size", 1))
    elif node.op_type in _SEARCHING:
        effort = max(effort, 2 * most_made * isqrt(most_read), 2 * _combinations(node))
    return effort


def _combinations(node: Node) -> int:
    """Count every combination of the sizes of an equation's letters."""
    equation = str(node.attribute("equation", ""))
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, place in zip(terms, range(len(node.inputs)), strict=False):
        for letter, dim in zip(term, _input(node, place), strict=False):
            sizes[letter] = max(sizes.get(letter, 1), dim)
    return prod(sizes.values())


_SEARCHING: Final = frozenset({"DFT", "Einsum", "Resize", "TopK"})
_PICKING: Final = frozenset({"Gather", "GatherElements", "GatherND", "Reshape", "Slice"})
_ENDLESS: Final = frozenset(
    {"Attention", "CausalConvWithState", "Col2Im", "DeformConv", "Det", "FlexAttention", "GRU",
     "GridSample", "If", "LSTM", "LinearAttention", "Loop", "MaxRoiPool", "MultiHeadAttention",
     "NonMaxSuppression", "RNN", "RegexFullMatch", "RoiAlign", "STFT", "Scan", "SequenceMap",
     "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
     "Unique"}
)  # fmt: skip
