"""The operators of ONNX Runtime that are computed here: what they take, and what not.

ONNX knows no schema of them, so that one is made of a line each. An attribute or an input that is
not in the line is refused: it may come from a later ONNX Runtime and change the result.

Source: operator schemas of ONNX Runtime 1.32, domain ``com.microsoft``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from onnx.defs import OpSchema

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node

MICROSOFT: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_HALVES: Final = ("float", "float16", "bfloat16")
_BYTES: Final = ("int8", "uint8")
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "T": _HALVES,
    **dict.fromkeys("DE", (*_HALVES, "double")),
    "S": ("float",),
    "F": ("float", "float16"),
    "G": ("float", "float16", "double"),
    "M": ("int32",),
    "L": ("int64",),
    **dict.fromkeys("ABC", _BYTES),
    "Y": ("float", *_BYTES),
    "Z": ("uint8", *_HALVES),
    "P": ("uint8",),
    "Q": (*_BYTES, "int16", "uint16", "int4", "uint4"),
    "U": ("string",),
    "V": (*_BYTES, "int16", "uint16", "int4", "uint4", "int32"),
}
"""Type variables: values with the same letter are of the same of its types."""

_WINDOWS: Final = "auto_pad dilations group kernel_shape pads strides"
_POOL: Final = "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides"

_LINES: Final = f"""
Attention TTTMTTM! TT do_rotary=0 mask_filter_value num_heads past_present_share_buffer=0
 qkv_hidden_sizes rotary_embedding_dim=0 scale unidirectional
BiasGelu DD D
DequantizeLinear VFV F axis
DynamicQuantizeLSTM SAASM!SSSSASA SSS activation_alpha activation_beta activations clip direction
 hidden_size input_forget
DynamicQuantizeMatMul SASAS S
EmbedLayerNormalization MMFFFFFMM FMF epsilon mask_index_type
FastGelu DD D
FusedConv GGGG G activation activation_params {_WINDOWS}
FusedGemm GGG G activation activation_alpha activation_beta activation_gamma alpha beta transA
 transB
FusedMatMul DD D alpha transA transB transBatchA transBatchB
Gelu D D
GroupQueryAttention TTTTTMMTTLTTS!S!T!T!M! TTTT causal do_rotary k_norm_epsilon k_quant_type=NONE
 kv_cache_bit_width=0 kv_num_heads local_window_size num_heads q_norm_epsilon qk_norm_epsilon
 qk_output rotary_interleaved scale sliding_window_cache=0 smooth_softmax softcap v_quant_type=NONE
MatMulIntegerToFloat ABFFABF F
MatMulNBits TPTZMT T K N accuracy_level bits block_size weight_prepacked=0
MultiHeadAttention TTTTMTTTM!M! TTTT mask_filter_value num_heads scale unidirectional
NhwcConv GGG G {_WINDOWS}
NhwcFusedConv FFFF F activation activation_params {_WINDOWS}
NhwcMaxPool A A auto_pad ceil_mode dilations kernel_shape pads strides
QAttention ABFFFMABF FF do_rotary=0 mask_filter_value num_heads past_present_share_buffer=0 scale
 unidirectional
QEmbedLayerNormalization MMAAAAAMSSSSSAAAAA SM epsilon
QGemm ASABSBMSC Y alpha transA transB
QLinearAdd ASAASASA A
QLinearAveragePool ASASA A {_POOL}
QLinearConcat SA* A axis
QLinearConv ASABSBSCM C channels_last {_WINDOWS}
QLinearGlobalAveragePool ASASA A channels_last
QLinearLeakyRelu ASASA A alpha
QLinearMul ASAASASA A
QLinearSigmoid ASASA A
QLinearSoftmax ASASA A axis opset
QuantizeLinear FFQ Q axis
QuickGelu D D alpha
RotaryEmbedding TLTT T interleaved is_packed_batching num_heads rotary_embedding_dim scale
SimplifiedLayerNormalization DE ES axis epsilon stash_type=1
SkipLayerNormalization TTTTT TS!S!T epsilon
SkipSimplifiedLayerNormalization TTTT TS!S!T epsilon
Tokenizer U U mark mincharnum pad_value separators tokenexp
""".replace("\n ", " ")
"""By operator: inputs, outputs, and attributes, with the value they must have if there is one.

What is followed by ``!`` must be left out; ``*`` is any number of values of any type.
"""

_OWN_DOMAINS: Final = frozenset({"SimplifiedLayerNormalization"})
"""Operators that ONNX Runtime writes into the default domain."""

_WRITTEN_EARLIER: Final[Mapping[tuple[str, str], int]] = {("", "LayerNormalization"): 17}
"""Operators that ONNX Runtime writes into older operator sets, and the first that has them."""


def opset_of(domain: str, op_type: str, opset: int) -> int:
    """Return the version of the operator set that an operator means, where it is written."""
    return max(opset, _WRITTEN_EARLIER.get((domain, op_type), 0))


@dataclass(frozen=True, slots=True)
class _Form:
    """The line of one operator.

    Attributes:
        inputs: For every input its type variable, and whether it must be left out.
        attributes: For every attribute the text of the value it must have, or None.
    """

    inputs: tuple[tuple[str, bool], ...]
    outputs: tuple[tuple[str, bool], ...]
    attributes: Mapping[str, str | None]
    is_variadic: bool


def _places(text: str) -> tuple[tuple[str, bool], ...]:
    letters = [place for place, letter in enumerate(text) if letter not in "!*"]
    return tuple((text[place], text[place + 1 : place + 2] == "!") for place in letters)


@lru_cache(maxsize=1)
def _forms() -> Mapping[str, _Form]:
    forms = {}
    for line in _LINES.strip().splitlines():
        name, inputs, outputs, *attributes = line.split()
        pairs = (attribute.partition("=") for attribute in attributes)
        forms[name] = _Form(
            _places(inputs),
            _places(outputs),
            {key: value if mark else None for key, mark, value in pairs},
            inputs.endswith("*"),
        )
    return forms


def is_foreign(domain: str, op_type: str) -> bool:
    """Say whether an operator is one of ONNX Runtime's that is computed here."""
    return op_type in (_OWN_DOMAINS if domain == "" else _forms()) and domain in {"", MICROSOFT}


@lru_cache(maxsize=128)
def schema_of(op_type: str) -> OpSchema:
    """Return the schema of an operator that ``is_foreign``."""
    form = _forms()[op_type]
    formal, variadic = OpSchema.FormalParameter, OpSchema.FormalParameterOption.Variadic
    inputs = [formal(f"i{place}", letter) for place, (letter, _) in enumerate(form.inputs)]
    if form.is_variadic:
        rest = formal("rest", "R", param_option=variadic, is_homogeneous=False)
        inputs = [*inputs, rest]
    outputs = [formal(f"o{place}", letter) for place, (letter, _) in enumerate(form.outputs)]
    letters = dict.fromkeys(letter for letter, _ in (*form.inputs, *form.outputs))
    kinds = [(letter, _dense(_TYPES[letter]), "") for letter in letters]
    if form.is_variadic:
        kinds.append(("R", _dense(("float", *_BYTES)), ""))
    return OpSchema(op_type, MICROSOFT, 1, inputs=inputs, outputs=outputs, type_constraints=kinds)


def _dense(names: tuple[str, ...]) -> list[str]:
    return [f"tensor({name})" for name in names]


def refused_form(node: Node) -> Refusal | None:
    """Return a refusal if an operator that ``is_foreign`` is used as nothing here computes it."""
    form, label = _forms()[node.op_type], node.qualified_op_type
    for name in node.attributes:
        if name not in form.attributes:
            return Refusal("attribute", f"{label}: nothing implements its attribute {name!r}")
        wanted = form.attributes[name]
        if wanted is not None and str(node.attribute(name)) != wanted:
            text = f"{label} with {name}={node.attribute(name)}: nothing implements it"
            return Refusal("attribute", f"{text}, only {name}={wanted}")
    for kind, names, places in (
        ("input", node.inputs, form.inputs),
        ("output", node.outputs, form.outputs),
    ):
        for place, (name, (_, is_refused)) in enumerate(zip(names, places, strict=False)):
            if name and is_refused:
                text = f"{label} with its {kind} {place} ({name!r}): nothing implements it"
                return Refusal("attribute", text)
    return None
