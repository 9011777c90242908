"""Types of the outputs of operators whose types onnx cannot infer.

A rule returns the types of the outputs of one ``Call`` by position. None stands for an unknown
type; outputs it leaves out are unknown, too. Rules here are of ONNX's own operator sets; those of
ONNX Runtime's are in ``microsoft_rules``.

Source: ONNX operator schemas, all versions; ONNX-ML operator schemas.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Node
from subgraphkit.types import DataType, Dim, MapType, Shape, TensorType, ValueType

Array = npt.NDArray[Any]
Types = Sequence[ValueType | None]
Rule = Callable[["Call"], Types]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ML: Final = "ai.onnx.ml"


class Call(NamedTuple):
    """One use of an operator, as far as its output types depend on it.

    Attributes:
        inputs: Types of its inputs; None for an absent or unknown one.
        standard: Asks onnx for the output types of a standard operator, in the same way as the
            function ``as_standard``.
    """

    inputs: Types
    values: Mapping[int, Array]
    attributes: Mapping[str, Any]
    outputs: int
    standard: Callable[[str, int, Mapping[str, Any], Types, Mapping[int, Array]], Types]

    def type(self, place: int) -> ValueType | None:
        """Return the type of an input, None if it is absent or not known."""
        return self.inputs[place] if place < len(self.inputs) else None

    def dtype(self, place: int) -> DataType:
        """Return the element type of an input; UNDEFINED if it has none or it is not known."""
        type_ = self.type(place)
        return type_.dtype if isinstance(type_, TensorType) else DataType.UNDEFINED

    def shape(self, place: int) -> Shape | None:
        """Return the shape of an input; None if it has none or it is not known."""
        return shape_of(self.type(place))

    def dim(self, place: int, axis: int) -> Dim:
        """Return a dimension of an input; None if it is not known."""
        shape = self.shape(place)
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default where the node does not state it."""
        return self.attributes.get(name, default)


def shape_of(type_: ValueType | None) -> Shape | None:
    """Return the shape of a tensor; None if it is not known, or the value is of another kind."""
    return type_.shape if isinstance(type_, TensorType) else None


def with_shapes(types: Types, change: Callable[[Shape], Shape]) -> Types:
    """Return types with other shapes, where they have any."""
    return [
        replace(one, shape=change(one.shape))
        if isinstance(one, TensorType) and one.shape is not None
        else one
        for one in types
    ]


def type_of(dtype: DataType, shape: Shape | None = None) -> TensorType | None:
    """Return the type of a tensor; None if the element type is not known."""
    return None if dtype is DataType.UNDEFINED else TensorType(dtype, shape)


def like(*places: int) -> Rule:
    """Return the rule by which every output has the type of the input at its place."""
    return lambda call: [call.type(place) for place in places]


def swap_axes(shape: Shape | None) -> Shape | None:
    """Return the shape with its last two axes exchanged."""
    return (*shape[:-2], shape[-1], shape[-2]) if shape and len(shape) > 1 else shape


def product(call: Call, left: Shape | None, right: Shape | None) -> Shape | None:
    """Return the shape of a matrix product."""
    types = [TensorType(DataType.FLOAT, left), TensorType(DataType.FLOAT, right)]
    return shape_of(call.standard("MatMul", 13, _NOTHING, types, {})[0])


def as_standard(op_type: str, version: int, places: Sequence[int] | slice = slice(None)) -> Rule:
    """Return the rule by which an operator has the output types of a standard one."""

    def rule(call: Call) -> Types:
        count = len(call.inputs)
        taken = range(count)[places] if isinstance(places, slice) else places
        values = {new: call.values[old] for new, old in enumerate(taken) if old in call.values}
        types = [call.type(place) for place in taken]
        return call.standard(op_type, version, call.attributes, types, values)

    return rule


def _cast_by_name(call: Call) -> Types:
    name = str(call.attribute("to", "")).upper()
    return [type_of(DataType.__members__.get(name, DataType.UNDEFINED), call.shape(0))]


def _concat_along_1(call: Call) -> Types:
    stated = {"axis": 1, **call.attributes}
    return call.standard("Concat", 4, stated, call.inputs, {})


def _reshape_by_attribute(call: Call) -> Types:
    target = np.array(call.attribute("shape", ()), np.int64)
    types = [call.type(0), TensorType(DataType.INT64, target.shape)]
    return call.standard("Reshape", 5, _NOTHING, types, {1: target})


def _pad_by_paddings(call: Call) -> Types:
    stated = {**call.attributes, "pads": call.attribute("paddings", ())}
    return call.standard("Pad", 2, stated, call.inputs, {})


def _split_evenly(call: Call) -> Types:
    stated = {name: call.attributes[name] for name in ("axis", "split") if name in call.attributes}
    if (sizes := call.values.get(1)) is not None:
        stated["split"] = tuple(sizes.tolist())
    elif call.type(1) is not None:
        return [type_of(call.dtype(0))] * call.outputs
    return call.standard("Split", 2, stated, call.inputs[:1], {})


def _upsample(call: Call) -> Types:
    if call.type(1) is not None:  # a deprecated use of it in operator sets from 10 on
        return as_standard("Upsample", 9)(call)
    if (shape := call.shape(0)) is None:
        return [type_of(call.dtype(0))]
    scales = (1.0, 1.0, call.attribute("height_scale", 1.0), call.attribute("width_scale", 1.0))
    scaled = (
        floor(dim * scale) if isinstance(dim, int) else None
        for dim, scale in zip(shape, scales, strict=False)
    )
    return [type_of(call.dtype(0), tuple(scaled))]


def _as_floats(call: Call) -> Types:
    return [TensorType(DataType.FLOAT, call.shape(0))]


def _float_rows(width: Callable[[Call], Dim]) -> Rule:
    """Return the rule of operators that make one row of floats of each row they are given."""

    def rule(call: Call) -> Types:
        # A single row may come without its axis.
        shape = call.shape(0)
        rows = 1 if shape is not None and len(shape) == 1 else call.dim(0, 0)
        return [TensorType(DataType.FLOAT, (rows, width(call)))]

    return rule


def _classifier(scores: Callable[[Call, int], Dim]) -> Rule:
    """Return the rule of operators that name the class of each row and score it."""

    def rule(call: Call) -> Types:
        names = call.attribute("classlabels_strings")
        numbers = call.attribute("classlabels_int64s", call.attribute("classlabels_ints"))
        classes = len(names or numbers or ())
        (table,) = _float_rows(lambda call: scores(call, classes))(call)
        label = DataType.STRING if names else DataType.INT64
        return [TensorType(label, (shape_of(table) or (None,))[:1]), table]

    return rule


def _score_of_each_or_pair(call: Call, classes: int) -> Dim:
    if not call.attribute("vectors_per_class") or call.attribute("prob_a"):
        return classes or None
    return max(classes * (classes - 1) // 2, 2)


def _label_encoder_1(call: Call) -> Types:
    is_text = call.dtype(0) is DataType.STRING
    return [TensorType(DataType.INT64 if is_text else DataType.STRING, call.shape(0))]


def _cast_map(call: Call) -> Types:
    dtypes = {"TO_STRING": DataType.STRING, "TO_INT64": DataType.INT64}
    dtype = dtypes.get(call.attribute("cast_to", "TO_FLOAT"), DataType.FLOAT)
    is_sparse = call.attribute("map_form", "DENSE") == "SPARSE"
    return [TensorType(dtype, (1, call.attribute("max_map", 1) if is_sparse else None))]


def _dict_vectorizer(call: Call) -> Types:
    type_ = call.type(0)
    value = type_.value if isinstance(type_, MapType) else None
    dtype = value.dtype if isinstance(value, TensorType) else DataType.UNDEFINED
    words = call.attribute("string_vocabulary", call.attribute("int64_vocabulary", ()))
    return [type_of(dtype, (1, len(words)))]


def _attention(call: Call) -> Types:
    """Leave sizes open that onnx computes as 0 of open ones, or of which it leaves out a past.

    Lengths say nothing of types, and onnx takes caches that are left out for stated ones.
    """
    found = call.standard("Attention", 25, call.attributes, call.inputs[:6], {})
    given = {size for place in range(6) for size in call.shape(place) or ()}
    if any(call.inputs[4:5]) and not all(isinstance(n, int) for n in call.shape(4) or (None,)):
        found = [*found[:3], *with_shapes(found[3:], lambda shape: (*shape[:3], None))]
    return with_shapes(found, lambda s: tuple(size if size or 0 in given else None for size in s))


def _einsum(call: Call) -> Types:
    """Let a size of 1 stand for any, as NumPy does; onnx takes the first size under a letter."""
    terms, arrow, made = call.attribute("equation").replace(" ", "").partition("->")
    found: dict[str | int, set[Dim]] = {}
    for place, term in enumerate(terms.split(",")):
        first, _, last = term.partition("...")
        shape = call.shape(place) or ()
        spread = range(len(first) + len(last) - len(shape), 0)
        for key, size in zip((*first, *spread, *last), shape, strict=False):
            found.setdefault(key, set()).add(size)
    once = sorted(key for key in found if isinstance(key, str) and terms.count(key) == 1)
    first, dots, last = (made if arrow else "..." + "".join(once)).partition("...")
    axes = sorted(key for key in found if isinstance(key, int)) if dots else ()
    sizes = [_spread_to(found.get(key, {None})) for key in (*first, *axes, *last)]
    standard = call.standard("Einsum", 12, call.attributes, call.inputs, {})
    return with_shapes(standard, lambda _: tuple(sizes))


def _spread_to(sizes: set[Dim]) -> Dim:
    """Return the size to which all of them are spread; None if that is one of several names."""
    wide = sizes - {1} or sizes
    numbers = [size for size in wide if isinstance(size, int)]
    return max(numbers) if numbers else min(wide, key=str) if len(wide) == 1 else None


# In operator set 1, these broadcast to their first input.
_SAME_AS_FIRST: Final = (
    "Abs", "Add", "Ceil", "Clip", "Div", "Elu", "Exp", "Floor", "GroupNormalization",
    "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean",
    "MeanVarianceNormalization", "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Selu",
    "Sigmoid", "Sqrt", "Sub", "Sum", "Tanh",
)  # fmt: skip


def _window_rule(standard: Rule, filters: int = 0) -> Rule:
    """Return onnx's answer, unless windows are larger than their input.

    There the specification rounds a negative quotient down or up, and onnx truncates it.
    """

    def rule(call: Call) -> Types:
        found, sizes = standard(call), (call.shape(0) or ())[2:]
        kernel = call.attribute("kernel_shape") or (call.shape(filters) or ())[2:]
        padding, ones = call.attribute("auto_pad", "NOTSET"), (1,) * len(kernel)
        if len(kernel) != len(sizes):
            return found
        kernel = ones if padding.startswith("SAME") else kernel  # onnx makes 1 of nothing
        strides, dilations = (call.attribute(name) or ones for name in ("strides", "dilations"))
        pads = (call.attribute("pads") if padding == "NOTSET" else None) or (0,) * 2 * len(kernel)
        counts: dict[int, int] = {}
        for axis, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
            if not isinstance(size, int) or not isinstance(taps, int):
                continue
            room = size + pads[axis] + pads[axis + len(kernel)] - (taps - 1) * dilations[axis] - 1
            up, step = call.attribute("ceil_mode", 0), strides[axis]
            if room < 0:
                counts[axis + 2] = max((-(-room // step) if up else room // step) + 1, 0)
        return with_shapes(found, lambda s: tuple(counts.get(at, dim) for at, dim in enumerate(s)))

    return rule


def _conv_transpose(call: Call) -> Types:
    """Let operators that pad to the same size, or to a stated one, have that size.

    onnx adds ``output_padding`` to the one, and drops axes where the other is less than there was.
    """
    stated, sizes = call.attribute("output_shape"), (call.shape(0) or ())[2:]
    if not stated and not call.attribute("auto_pad", "NOTSET").startswith("SAME"):
        return as_standard("ConvTranspose", 22)(call)
    told = {"auto_pad", "output_padding", "output_shape", "pads"}
    plain = {name: one for name, one in call.attributes.items() if name not in told}
    strides, ones = call.attribute("strides"), (1,) * len(sizes)
    more = call.attribute("output_padding") or (0,) * len(sizes)

    def pad_shape(shape: Shape) -> Shape:
        rows = zip(sizes, strides or ones, shape[2:], more, strict=True)
        same = [
            min(size * step, full + add)
            if isinstance(size, int) and isinstance(full, int)
            else None
            for size, step, full, add in rows
        ]
        return (*shape[:2], *(stated or same)[-len(sizes) :])

    return with_shapes(call.standard("ConvTranspose", 22, plain, call.inputs, {}), pad_shape)


_POOL: Final = _window_rule(as_standard("MaxPool", 22))
_FILTERS: Final = {("", "Conv"): 1, ("", "ConvInteger"): 1, ("", "QLinearConv"): 3}
_WINDOWS: Final = {
    **{("", op_type): _POOL for op_type in ("AveragePool", "LpPool", "MaxPool")},
    **{
        kind: _window_rule(as_standard(kind[1], 22 if kind[1] == "Conv" else 10), filters)
        for kind, filters in _FILTERS.items()
    },
}


def is_covered(node: Node, types: Mapping[str, ValueType]) -> bool:
    """Say whether a convolution's window fits into any input: onnx types that rightly.

    Filters have to be known, and a size that is not known counts as 0. onnx types many nodes at a
    time; the rest is typed singly.
    """
    if (place := _FILTERS.get((node.domain, node.op_type))) is None:
        return False
    read, stated = node.inputs, node.attributes
    sizes = (shape_of(types.get(read[0])) or ())[2:]
    taps = (shape_of(types.get(read[place])) or ())[2:]
    pads, ones = stated.get("pads") or (0,) * 2 * len(taps), (1,) * len(taps)
    strides, dilations = stated.get("strides") or ones, stated.get("dilations") or ones
    sizes = (*[size if isinstance(size, int) else 0 for size in sizes], *[0] * len(taps))
    rows = zip(sizes, taps, dilations, strides, pads, pads[len(taps) :], strict=False)
    for size, tap, dilation, stride, before, after in rows:
        room = size + before + after
        if not isinstance(tap, int) or (tap - 1) * dilation + (stride > 1) > room:
            return False
    return bool(taps)


STANDARD: Final[Mapping[tuple[str, str], Rule]] = {
    **{("", op_type): like(0) for op_type in _SAME_AS_FIRST},
    **_WINDOWS,
    ("", "Attention"): _attention,
    ("", "BatchNormalization"): like(0, 1, 2, 3, 4),
    ("", "Cast"): _cast_by_name,
    ("", "Compress"): as_standard("Compress", 11),
    ("", "ConvTranspose"): _conv_transpose,
    ("", "Concat"): _concat_along_1,
    ("", "Dropout"): like(0, 0),
    ("", "Einsum"): _einsum,
    ("", "GRU"): as_standard("GRU", 7),
    ("", "Gemm"): as_standard("Gemm", 7),
    ("", "GlobalLpPool"): as_standard("GlobalAveragePool", 1),
    ("", "GreaterOrEqual"): as_standard("GreaterOrEqual", 16),
    ("", "LessOrEqual"): as_standard("LessOrEqual", 16),
    ("", "Pad"): _pad_by_paddings,
    ("", "Reshape"): _reshape_by_attribute,
    ("", "Scatter"): as_standard("ScatterElements", 11),
    ("", "Split"): _split_evenly,
    ("", "Upsample"): _upsample,
    (_ML, "CastMap"): _cast_map,
    (_ML, "DictVectorizer"): _dict_vectorizer,
    (_ML, "FeatureVectorizer"): _float_rows(
        lambda call: sum(call.attribute("inputdimensions", ())) or None
    ),
    (_ML, "Imputer"): like(0),
    (_ML, "LabelEncoder"): _label_encoder_1,
    (_ML, "LinearRegressor"): _float_rows(lambda call: int(call.attribute("targets", 1))),
    (_ML, "Normalizer"): _as_floats,
    (_ML, "SVMClassifier"): _classifier(_score_of_each_or_pair),
    (_ML, "SVMRegressor"): _float_rows(lambda _: 1),
    (_ML, "Scaler"): _as_floats,
    (_ML, "TreeEnsembleClassifier"): _classifier(lambda _, count: count if count > 1 else None),
    (_ML, "TreeEnsembleRegressor"): _float_rows(lambda call: int(call.attribute("n_targets", 1))),
    ("ai.onnx.preview.training", "Gradient"): lambda call: call.inputs,
}
"""The rules, by domain and operator; used where onnx has no inference or has deprecated it."""

WITHOUT_SHAPE: Final[Mapping[tuple[str, str], int]] = {
    **dict.fromkeys((*_WINDOWS, ("", "ConvTranspose")), 1 << 30),
    ("", "Attention"): 25,
    ("", "Einsum"): 12,
    (_ML, "CastMap"): 1,
    (_ML, "DictVectorizer"): 1,
    (_ML, "LabelEncoder"): 1,
    (_ML, "SVMClassifier"): 1,
    (_ML, "TreeEnsembleClassifier"): 1,
}
"""The last versions of operators of which onnx infers element types alone, or a wrong shape. These
are pools with windows that begin in the end padding or exceed the input. Others are transposed
convolutions that pad to a size, Attention and Einsum."""
