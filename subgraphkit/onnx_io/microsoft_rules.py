"""Types of the outputs of ONNX Runtime's own operators, domain ``com.microsoft``.

Optimised and quantised models consist of them. onnx knows none, and a model seldom states the types
of its inner values.

Source: ONNX Runtime, ``docs/ContribOperators.md``.
"""

from collections.abc import Mapping
from typing import Any, Final

from subgraphkit.onnx_io.operator_rules import (
    Call,
    Rule,
    Types,
    as_standard,
    like,
    product,
    shape_of,
    swap_axes,
    type_of,
    with_shapes,
)
from subgraphkit.types import DataType, Dim, Shape, TensorType

_DOMAIN: Final = "com.microsoft"
_PACKED_RANK: Final = 5
_CACHE_RANK: Final = 4


def _times(left: Dim, right: Dim) -> Dim:
    return left * right if isinstance(left, int) and isinstance(right, int) else None


def _per(dim: Dim, divisor: Any) -> Dim:
    return dim // divisor if isinstance(dim, int) and divisor else None


def _plus(left: Dim, right: Dim) -> Dim:
    if left == 0 or right == 0:
        return right if left == 0 else left
    return left + right if isinstance(left, int) and isinstance(right, int) else None


def _channels_first(shape: Shape | None) -> Shape | None:
    return (shape[0], shape[-1], *shape[1:-1]) if shape and len(shape) > 1 else shape


def _channels_last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1]) if len(shape) > 1 else shape


def _in_channels_last(rule: Rule) -> Rule:
    """Return the rule of an operator that computes the same on images whose channels are last."""

    def turn_axes(call: Call) -> Types:
        first = type_of(call.dtype(0), _channels_first(call.shape(0)))
        made = rule(call._replace(inputs=[first, *call.inputs[1:]], values={}))
        return with_shapes(made, _channels_last)

    return turn_axes


def _in_either_layout(rule: Rule) -> Rule:
    """Return the rule of an operator that an attribute turns to channels that are last."""
    turned = _in_channels_last(rule)
    return lambda call: turned(call) if call.attribute("channels_last", 0) else rule(call)


def _dtype_of(rule: Rule, *places: int, otherwise: DataType = DataType.UNDEFINED) -> Rule:
    """Return the rule with the element type of the first of some inputs that is there."""

    def set_dtype(call: Call) -> Types:
        found = (call.dtype(place) for place in places)
        dtype = next(filter(None, found), otherwise)
        return [type_of(dtype, shape_of(type_)) for type_ in rule(call)]

    return set_dtype


def _fused_matmul(call: Call) -> Types:
    sides: list[Shape | None] = []
    for place, side in enumerate("AB"):
        shape = call.shape(place)
        if shape and call.attribute(f"transBatch{side}", 0):
            shape = (*shape[1:-1], shape[0], shape[-1])
        sides.append(swap_axes(shape) if call.attribute(f"trans{side}", 0) else shape)
    return [type_of(call.dtype(0), product(call, *sides))]


def _gemm(right: int) -> Rule:
    """Return the rule of ``Gemm`` with the input of another place on its right."""

    def rule(call: Call) -> Types:
        rows = call.dim(0, 1 if call.attribute("transA", 0) else 0)
        columns = call.dim(right, 0 if call.attribute("transB", 0) else 1)
        return [type_of(call.dtype(0), (rows, columns))]

    return rule


def _product(call: Call) -> Types:
    return [type_of(call.dtype(0), product(call, call.shape(0), call.shape(1)))]


def _skip_normalization(call: Call) -> Types:
    shape = call.shape(0)
    statistic = TensorType(DataType.FLOAT, None if shape is None else (*shape[:-1], 1))
    return [call.type(0), statistic, statistic, call.type(0)]


def _root_mean_square(call: Call) -> Types:
    """Type ``SimplifiedLayerNormalization``; the result has the element type of the scale."""
    shape, rows = call.shape(0), None
    if shape is not None:
        axis = call.attribute("axis", -1) % max(len(shape), 1)
        rows = tuple(1 if place >= axis else dim for place, dim in enumerate(shape))
    return [
        type_of(call.dtype(1), shape),
        TensorType(DataType(call.attribute("stash_type", 1)), rows),
    ]


def _embeddings(call: Call) -> Types:
    embedded = type_of(call.dtype(2), (call.dim(0, 0), call.dim(0, 1), call.dim(2, 1)))
    return [embedded, TensorType(DataType.INT32, (call.dim(0, 0),)), embedded]


def _attention(call: Call) -> Types:
    batch, length = call.dim(0, 0), call.dim(0, 1)
    sizes = call.attribute("qkv_hidden_sizes")
    width: Dim = sizes[2] if sizes else _per(call.dim(1, 1), 3)
    heads = call.attribute("num_heads")
    if (past := call.shape(4)) is None:
        total = length if call.type(4) is None else None
        cache: Shape = (2, batch, heads, total, _per(width, heads))
    elif call.attribute("past_present_share_buffer", 0):
        cache = past
    else:
        cache = (*past[:3], _plus(past[3], length), past[4])
    return [type_of(call.dtype(0), (batch, length, width)), type_of(call.dtype(0), cache)]


def _multi_head_attention(call: Call) -> Types:
    heads = call.attribute("num_heads")
    batch, length = call.dim(0, 0), call.dim(0, 1)
    query, key, value = (call.shape(place) for place in (0, 1, 2))
    width: Dim = None
    if query and len(query) == _PACKED_RANK:
        width = _times(query[2], query[4])
    elif key and len(key) == _PACKED_RANK:
        width = call.dim(0, 2)
    elif value:
        width = _times(value[1], value[3]) if len(value) == _CACHE_RANK else value[2]
    new = length if query and len(query) == _PACKED_RANK else _length_of(key)
    caches = [
        (batch, heads, _total(call, 6, new), _head_size(call, key, query, heads)),
        (batch, heads, _total(call, 7, new), _per(width, heads)),
    ]
    dtype = call.dtype(0)
    scores = type_of(dtype, (batch, heads, length, caches[0][2]))
    return [type_of(dtype, (batch, length, width)), *(type_of(dtype, c) for c in caches), scores]


def _length_of(key: Shape | None) -> Dim:
    if key is None:
        return None
    return key[2] if len(key) == _CACHE_RANK else key[1]


def _head_size(call: Call, key: Shape | None, query: Shape | None, heads: Any) -> Dim:
    if query and len(query) == _PACKED_RANK:
        return query[4]
    if key and len(key) in {_CACHE_RANK, _PACKED_RANK}:
        return key[-1]
    return _per(call.dim(0, 2), heads)


def _total(call: Call, past: int, new: Dim) -> Dim:
    """Return the length of a cache after the new entries are behind those of the past."""
    if call.type(past) is None:
        return new
    if call.attribute("past_present_share_buffer", 0):
        return call.dim(past, 2)
    return _plus(call.dim(past, 2), new)


def _group_query_attention(call: Call) -> Types:
    heads, key_heads = call.attribute("num_heads"), call.attribute("kv_num_heads")
    batch, length, width = (call.dim(0, axis) for axis in range(3))
    if call.type(1) is None:  # queries, keys and values are packed into one
        size = _per(width, (heads or 0) + 2 * (key_heads or 0))
        width = _times(size, heads)
    else:
        size = _per(width, heads)
    total: Dim = length if call.type(3) is None else None
    stated, past = call.values.get(6), call.dim(3, 2)
    if stated is not None and isinstance(past, int):
        total = max(int(stated.item()), past)
    cache = (batch, key_heads, total, size)
    dtype = call.dtype(0)
    caches = [type_of(call.dtype(place) or dtype, cache) for place in (3, 4)]
    return [type_of(dtype, (batch, length, width)), *caches]


def _lstm_of_integers(call: Call) -> Types:
    hidden, directions = call.attribute("hidden_size"), call.dim(1, 0)
    state = TensorType(DataType.FLOAT, (directions, call.dim(0, 1), hidden))
    steps = TensorType(DataType.FLOAT, (call.dim(0, 0), directions, call.dim(0, 1), hidden))
    return [steps, state, state]


def _tokens(call: Call) -> Types:
    shape = call.shape(0)
    return [TensorType(DataType.STRING, None if shape is None else (*shape, None))]


_CONV: Final = as_standard("Conv", 11, slice(3))

_SAME_AS_FIRST: Final = (
    "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "Inverse", "QLinearLeakyRelu", "QLinearSigmoid",
    "QLinearSoftmax", "QuickGelu", "RotaryEmbedding",
)  # fmt: skip
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_SAME_AS_FIRST, like(0)),
    "Attention": _attention,
    "DequantizeLinear": _dtype_of(like(0), 1),
    "DynamicQuantizeLSTM": _lstm_of_integers,
    "DynamicQuantizeMatMul": _product,
    "EmbedLayerNormalization": _embeddings,
    "FusedConv": _CONV,
    "FusedGemm": _gemm(1),
    "FusedMatMul": _fused_matmul,
    "GroupQueryAttention": _group_query_attention,
    "MatMulInteger16": _dtype_of(_product, otherwise=DataType.INT32),
    "MatMulIntegerToFloat": _dtype_of(_product, 2),
    "MatMulNBits": lambda it: with_shapes([it.type(0)], lambda s: (*s[:-1], it.attribute("N"))),
    "MultiHeadAttention": _multi_head_attention,
    "NhwcConv": _in_channels_last(_CONV),
    "NhwcFusedConv": _in_channels_last(_CONV),
    "NhwcMaxPool": _in_channels_last(as_standard("MaxPool", 12)),
    "QGemm": _dtype_of(_gemm(3), 8, otherwise=DataType.FLOAT),
    "QLinearAdd": as_standard("Add", 13, (0, 3)),
    "QLinearAveragePool": _in_either_layout(as_standard("AveragePool", 22, (0,))),
    "QLinearConcat": as_standard("Concat", 13, slice(2, None, 3)),
    "QLinearConv": _in_either_layout(as_standard("QLinearConv", 10)),
    "QLinearGlobalAveragePool": _in_either_layout(as_standard("GlobalAveragePool", 1, (0,))),
    "QLinearMul": as_standard("Mul", 13, (0, 3)),
    "QuantizeLinear": lambda call: [type_of(call.dtype(2) or DataType.UINT8, call.shape(0))],
    "SimplifiedLayerNormalization": _root_mean_square,
    "SkipLayerNormalization": _skip_normalization,
    "SkipSimplifiedLayerNormalization": _skip_normalization,
    "Tokenizer": _tokens,
    "TransposeMatMul": _fused_matmul,
}

MICROSOFT: Final[Mapping[tuple[str, str], Rule]] = {
    **{(_DOMAIN, op_type): rule for op_type, rule in _RULES.items()},
    # ONNX Runtime writes these into the default domain, of any version.
    ("", "LayerNormalization"): as_standard("LayerNormalization", 17),
    ("", "SimplifiedLayerNormalization"): _root_mean_square,
}
