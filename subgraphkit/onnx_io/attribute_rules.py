"""The values that attributes of operators may have, as one table.

A key is the name of an attribute. ``Operator.attribute`` wins where an operator has its own
meaning. Values are judged before anybody else sees the model: libraries, and onnx's inference, cast
64-bit numbers of ONNX to 32 bits.

Source: ONNX operator schemas, all versions; ONNX Runtime, ``docs/ContribOperators.md``.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, helper

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Initializer
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.protos import read_type
from subgraphkit.onnx_io.weights import array_of, initializer_of, sparse_initializer_of
from subgraphkit.texts import cut_word, printable
from subgraphkit.types import DataType, TensorType

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


class LazyAttributes(Mapping[str, Any]):
    """The attributes of a node other than bodies.

    Numbers are ``int`` and ``float``, text is ``str`` (``bytes`` where it is not UTF-8), lists are
    tuples, tensors are read-only arrays, types are subgraphkit types.

    Thread-safety: safe; two threads may at worst decode the same attributes twice.
    """

    __slots__ = ("_folders", "_proto", "_values")

    def __init__(self, proto: onnx.NodeProto, folders: DataFolders | None) -> None:
        self._proto = proto
        self._folders = folders
        self._values: dict[str, Any] | None = None

    def _decode_all(self) -> dict[str, Any]:
        if self._values is None:
            self._values = {
                attribute.name: _decode(attribute, self._folders)
                for attribute in self._proto.attribute
                if attribute.type not in _GRAPHS
            }
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._decode_all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decode_all())

    def __len__(self) -> int:
        return len(self._decode_all())

    def __repr__(self) -> str:
        """Render as the mapping it is."""
        return repr(self._decode_all())


def body_protos(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """Return the graphs held by a node's attributes, lists of graphs as ``name[0]``, ..."""
    bodies: dict[str, onnx.GraphProto] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            bodies[attribute.name] = attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            bodies |= {f"{attribute.name}[{i}]": body for i, body in enumerate(attribute.graphs)}
    return bodies


def nodes_with_bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Go through nodes and those of the bodies in them, at any depth."""
    stack = [nodes]
    while stack:
        for node in stack.pop():
            yield node
            stack += [body.node for body in body_protos(node).values()]


def constant_of(node: onnx.NodeProto, folders: DataFolders | None) -> Initializer | None:
    """Return the value of a ``Constant`` node, or None if it states none of the known forms.

    Source: ONNX operator ``Constant`` (exactly one of its attributes is present).
    """
    name = node.output[0]
    for attribute in node.attribute:
        if attribute.name == "value":
            return initializer_of(attribute.t, folders, name)
        if attribute.name == "sparse_value":
            sparse = sparse_initializer_of(attribute.sparse_tensor, folders)
            return Initializer(name, sparse.type, sparse.array)
        if attribute.name in _CONSTANT_DTYPES:
            dtype = _CONSTANT_DTYPES[attribute.name]
            array = np.asarray(_decode(attribute, folders), dtype=dtype.numpy)
            array.setflags(write=False)
            return Initializer(name, TensorType(dtype, array.shape), partial(np.asarray, array))
    return None


_DTYPES = {"float": DataType.FLOAT, "int": DataType.INT64, "string": DataType.STRING}
_CONSTANT_DTYPES = {f"value_{kind}{s}": dtype for kind, dtype in _DTYPES.items() for s in ("", "s")}


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _decode(attribute: AttributeProto, folders: DataFolders | None) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return _text(value)
        if isinstance(value, onnx.TensorProto):
            return array_of(value, folders)
        if isinstance(value, onnx.SparseTensorProto):
            return sparse_initializer_of(value, folders).array()
        return read_type(value) if isinstance(value, onnx.TypeProto) else value

    value = helper.get_attribute_value(attribute)
    return tuple(map(plain, value)) if isinstance(value, list) else plain(value)


_LEAST, _MOST = -(2**31), 2**31 - 1
# Cells for a value in a message.
_WIDTH: Final = 80


class Rule(NamedTuple):
    """The values that an attribute may have.

    Attributes:
        holds: Says whether it may; of a list, asked of each element.
        is_of_list: Whether a list is asked about as a whole.
    """

    text: str
    holds: Callable[[Any], bool]
    kinds: frozenset[int]
    is_of_list: bool = False


_WHOLE: Final = frozenset({AttributeProto.INT, AttributeProto.INTS})
_REAL: Final = frozenset({AttributeProto.FLOAT, AttributeProto.FLOATS})
_TEXT: Final = frozenset({AttributeProto.STRING, AttributeProto.STRINGS})


def _span(least: int, most: int = _MOST) -> Rule:
    return Rule(f"{least} to {most}", lambda value: least <= value <= most, _WHOLE)


def _words(*known: str) -> Rule:
    raw = frozenset(word.encode() for word in known)
    return Rule(f"one of {', '.join(known)}", lambda value: value in raw, _TEXT)


def _is_type(value: int | bytes) -> bool:
    if isinstance(value, bytes):  # before operator set 6
        return value.upper() in _TYPE_NAMES
    return value in _TYPE_NUMBERS


def _is_equation(value: bytes) -> bool:
    text = re.sub(rb"\s", b"", value)
    if not _EQUATION.fullmatch(text):
        return False
    read, arrow, made = text.replace(b"...", b"").partition(b"->")
    return not arrow or (len(set(made)) == len(made) and set(made) <= set(read))


_TYPE_NUMBERS = frozenset(map(int, DataType)) - {0}
_TYPE_NAMES = frozenset(one.name.encode() for one in DataType if one)
_TERM = rb"[A-Za-z]*(\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(rb"%b(,%b)*(->%b)?" % (_TERM, _TERM, _TERM))
_ACTIVATIONS = frozenset(
    b"relu tanh sigmoid affine leakyrelu thresholdedrelu scaledtanh hardsigmoid elu softsign "
    b"softplus".split()
)


def _each(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_ANY: Final = Rule("any", lambda _: True, _WHOLE)
_NUMBER: Final = _span(_LEAST)
_SIZE: Final = _span(0)
_POSITIVE: Final = _span(1)
_FLAG: Final = _span(0, 1)
_FINITE: Final = Rule("a finite number", math.isfinite, _REAL)
_BOUND: Final = Rule("a number of 0 or more", lambda value: value >= 0, _REAL)
_SCALE: Final = Rule("a finite number above 0", lambda value: 0 < value < math.inf, _REAL)
_TYPE: Final = Rule("a data type of ONNX", _is_type, _WHOLE | _TEXT)
_TYPE_OR_NONE: Final = Rule(
    "a data type of ONNX, or 0", lambda value: not value or _is_type(value), _WHOLE
)
_ADDING: Final = _words("none", "add", "mul", "max", "min")
_KERNELS: Final = _words("LINEAR", "POLY", "RBF", "SIGMOID")

_RULES: Final[Mapping[str, Rule]] = {
    **_each(
        _FLAG,
        "align_corners allowzero antialias batch_axis broadcast ceil_mode center_point_box "
        "channels_last count_include_pad detect_negative detect_positive directions do_rotary "
        "exclude_outside exclusive fmod input_forget interleaved inverse is_case_sensitive "
        "is_causal is_test keepdims largest layout linear_before_reset new_axis "
        "noop_with_empty_axes onesided output_sequence periodic reverse saturate "
        "scan_input_directions scan_output_directions select_last_index sorted spatial "
        "storage_order time_axis training_mode transA transB transBatchA transBatchB "
        "unidirectional upper",
    ),
    **_each(_BOUND, "clip"),
    **_each(
        _POSITIVE,
        "bits blocksize chunk_size dilations group hidden_size kernel_shape kv_num_heads "
        "max_gram_length min_gram_length n_targets num_groups num_heads num_outputs "
        "num_scan_inputs offset_group output_height output_width pooled_shape q_num_heads "
        "strides Attention.num_heads GlobalLpPool.p LRN.size LpNormalization.p LpPool.p",
    ),
    **_each(
        _SIZE,
        "batch_dims block_size max_skip_count output_padding output_shape pads "
        "rotary_embedding_dim sample_size sampling_ratio split RandomNormal.shape "
        "RandomUniform.shape RotaryEmbedding.num_heads TopK.k",
    ),
    **_each(
        _ANY, "end ends ignore_index maxsplit pool_int64s seed start starts value_int value_ints"
    ),
    **_each(
        _FINITE,
        "activation_alpha activation_beta alpha beta bias cubic_coeff_a epsilon gamma high low "
        "mean momentum ratio scale softcap spatial_scale",
    ),
    **_each(_SCALE, "height_scale scales width_scale"),
    **_each(_TYPE, "dtype output_datatype softmax_precision stash_type to"),
    **_each(_TYPE_OR_NONE, "output_dtype precision"),
    **_each(_KERNELS, "SVMClassifier.kernel_type SVMRegressor.kernel_type"),
    **_each(_ADDING, "ScatterElements.reduction ScatterND.reduction"),
    **_each(_words("DCR", "CRD"), "DepthToSpace.mode SpaceToDepth.mode"),
    "Attention.qk_matmul_output_mode": _span(0, 3),
    "BitShift.direction": _words("LEFT", "RIGHT"),
    "CastMap.cast_to": _words("TO_FLOAT", "TO_STRING", "TO_INT64"),
    "CastMap.map_form": _words("DENSE", "SPARSE"),
    "CausalConvWithState.activation": _words("silu", "swish", "none"),
    "GridSample.mode": _words("nearest", "linear", "cubic", "bilinear", "bicubic"),
    "ImageDecoder.pixel_format": _words("RGB", "BGR", "Grayscale"),
    "LinearAttention.update_rule": _words("linear", "gated", "delta", "gated_delta"),
    "LpNormalization.p": _span(1, 2),
    "Normalizer.norm": _words("MAX", "L1", "L2"),
    "Pad.mode": _words("constant", "reflect", "edge", "wrap"),
    "Pad.pads": _NUMBER,
    "Resize.mode": _words("nearest", "linear", "cubic"),
    "RoiAlign.mode": _words("avg", "max"),
    "TensorScatter.mode": _words("linear", "circular"),
    "TfIdfVectorizer.mode": _words("TF", "IDF", "TFIDF"),
    "TreeEnsemble.aggregate_function": _span(0, 3),
    "TreeEnsemble.post_transform": _span(0, 4),
    "Upsample.mode": _words("nearest", "linear", "bilinear", "cubic"),
    "activations": Rule("names of activations", lambda value: value.lower() in _ACTIVATIONS, _TEXT),
    "aggregate_function": _words("AVERAGE", "SUM", "MIN", "MAX"),
    "approximate": _words("none", "tanh"),
    "auto_pad": _words("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "case_change_action": _words("LOWER", "UPPER", "NONE"),
    "coordinate_transformation_mode": _words(
        *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
        *("asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize", "output_half_pixel"),
    ),
    "direction": _words("forward", "reverse", "bidirectional"),
    "equation": Rule("terms of letters and '...', as 'ij,jk->ik'", _is_equation, _TEXT),
    "keep_aspect_ratio_policy": _words("stretch", "not_larger", "not_smaller"),
    "nearest_mode": _words("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": _words("zeros", "border", "reflection"),
    "perm": Rule(
        "every axis once",
        lambda value: sorted(value) == [*range(len(value))],
        _WHOLE,
        is_of_list=True,
    ),
    "post_transform": _words("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"),
    "reduction": _words("none", "mean", "sum"),
    "round_mode": _words("up", "down", "nearest"),
}


def rule_of(op_type: str, name: str, kind: int, *, is_standard: bool) -> Rule | None:
    """Return the rule of an attribute by itself; None if it may be anything."""
    found = _RULES.get(f"{op_type}.{name}") or _RULES.get(name)
    if found is not None and kind in found.kinds:
        return None if found is _ANY else found
    return _NUMBER if kind in _WHOLE and is_standard else None


def not_allowed(
    label: str, name: str, found: str, allowed: str, kind: str = "attribute"
) -> InvalidModelError:
    """Word that an operator does not allow an attribute, or an input (SGK218)."""
    return InvalidModelError(
        "SGK218",
        f"{label}: {kind} {name!r} is {found}, expected {allowed}",
        hint=f"Correct the {kind} where the model is made, or export it again.",
        attribute=name,
    )


def show_value(value: Any) -> str:
    """Write the value of an attribute for people."""
    written = [*value] if isinstance(value, tuple) else value
    if isinstance(value, bytes):
        written = value.decode("utf-8", "backslashreplace")
    return cut_word(printable(repr(written)), _WIDTH)
