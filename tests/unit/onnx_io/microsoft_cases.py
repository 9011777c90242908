"""Nodes of ONNX Runtime's own operators with inputs, in the forms that change their types."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from subgraphkit.types import DataType

_RANDOM = np.random.default_rng(0)
_SCALE: Final = np.array(0.1, np.float32)
_ZERO: Final = np.array(3, np.uint8)


@dataclass(frozen=True)
class MicrosoftCase:
    """A node and what it is fed; None is an absent input, False an absent output."""

    op_type: str
    inputs: tuple[Any, ...]
    outputs: tuple[bool, ...]
    attributes: dict[str, Any]
    domain: str = "com.microsoft"

    @property
    def feeds(self) -> dict[str, Any]:
        return {f"x{place}": v for place, v in enumerate(self.inputs) if v is not None}

    @property
    def model(self) -> onnx.ModelProto:
        """The node alone, its outputs without types."""
        named = [f"x{place}" if v is not None else "" for place, v in enumerate(self.inputs)]
        made = [f"y{place}" if there else "" for place, there in enumerate(self.outputs)]
        node = helper.make_node(self.op_type, named, made, domain=self.domain, **self.attributes)
        fed = [
            helper.make_tensor_value_info(n, DataType.of(v.dtype), v.shape)
            for n, v in self.feeds.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in made if name]
        graph = helper.make_graph([node], "g", fed, outputs)
        opsets = [helper.make_opsetid("", 12), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _f(*shape: int) -> Any:
    return _RANDOM.normal(size=shape).astype(np.float32)


def _u(*shape: int) -> Any:
    return _RANDOM.integers(0, 255, size=shape).astype(np.uint8)


def _i(*values: Any) -> Any:
    return np.array(values, np.int32)


def _case(op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> MicrosoftCase:
    return MicrosoftCase(op_type, inputs, (True,) * outputs, attributes)


def _of_default_domain(case: MicrosoftCase) -> MicrosoftCase:
    return MicrosoftCase(case.op_type, case.inputs, case.outputs, case.attributes, domain="")


_IMAGE, _KERNEL, _BIAS = _f(1, 2, 5, 5), _f(3, 2, 3, 3), _f(3)
_S, _Z = _SCALE, _ZERO
_EMBEDDED = (_f(6, 8), _f(7, 8), _f(2, 8), _f(8), _f(8))
_IDS = _i([0, 1, 2], [3, 4, 0])
_FIRST_AND_LAST = (True, False, False, True)
_QUERY, _HEADS = _f(2, 3, 8), {"num_heads": 2}
_GROUPS = {"num_heads": 4, "kv_num_heads": 2}
_PAST = (_f(2, 2, 6, 8), _f(2, 2, 6, 8))
_THREE = np.array(3, np.int32)

CASES: Final = [
    _case("FusedMatMul", _f(2, 3, 4), _f(2, 4, 5)),
    _case("FusedMatMul", _f(2, 3, 4), _f(4)),
    _case("FusedMatMul", _f(2, 4, 3), _f(2, 5, 4), transA=1, transB=1, alpha=2.0),
    _case("FusedMatMul", _f(3, 2, 4), _f(2, 4, 5), transBatchA=1),
    _case("FusedMatMul", _f(4, 2, 3), _f(2, 4, 5), transBatchA=1, transA=1),
    _case("FusedMatMul", _f(2, 3, 4), _f(5, 2, 4), transBatchB=1, transB=1),
    _case("TransposeMatMul", _f(4, 2), _f(4, 3), transA=1),
    _case("FusedGemm", _f(2, 3), _f(3, 4), _f(4), activation="Relu"),
    _case("FusedGemm", _f(3, 2), _f(4, 3), transA=1, transB=1, activation="Relu"),
    _case("FusedConv", _IMAGE, _KERNEL, _BIAS, activation="Relu", pads=[1, 1, 1, 1]),
    _case("FusedConv", _IMAGE, _KERNEL, _BIAS, _f(1, 3, 3, 3), activation="Relu"),
    _case("SkipLayerNormalization", _f(2, 3, 4), _f(3, 4), _f(4), None, _f(4)),
    MicrosoftCase("SkipLayerNormalization", (*(_f(2, 3, 4),) * 2, _f(4)), _FIRST_AND_LAST, {}),
    MicrosoftCase(
        "SkipSimplifiedLayerNormalization", (*(_f(2, 3, 4),) * 2, _f(4)), _FIRST_AND_LAST, {}
    ),
    _of_default_domain(_case("SimplifiedLayerNormalization", _f(2, 3, 4), _f(4), outputs=2)),
    _of_default_domain(_case("SimplifiedLayerNormalization", _f(2, 3, 4).astype("f2"), _f(4))),
    _of_default_domain(_case("LayerNormalization", _f(2, 3, 4), _f(4), _f(4), outputs=3, axis=-1)),
    _case("EmbedLayerNormalization", _IDS, _IDS % 2, *_EMBEDDED, outputs=3),
    _case("EmbedLayerNormalization", _IDS, None, *_EMBEDDED[:2], None, _f(8), _f(8), outputs=2),
    _case("BiasGelu", _f(2, 3, 4), _f(4)),
    _case("FastGelu", _f(2, 3, 4), _f(4)),
    _case("QuickGelu", _f(2, 3), alpha=1.7),
    _case("Gelu", _f(2, 3)),
    _case("Attention", _QUERY, _f(8, 24), _f(24), outputs=2, **_HEADS),
    _case("Attention", _QUERY, _f(8, 24), _f(24), None, _f(2, 2, 2, 5, 4), outputs=2, **_HEADS),
    _case("Attention", _QUERY, _f(8, 20), _f(20), qkv_hidden_sizes=[8, 8, 4], **_HEADS),
    _case("MultiHeadAttention", _QUERY, _f(2, 5, 8), _f(2, 5, 12), **_HEADS),
    _case("MultiHeadAttention", _QUERY, _f(2, 2, 5, 4), _f(2, 2, 5, 4), **_HEADS),
    _case("MultiHeadAttention", *(_QUERY,) * 3, outputs=3, **_HEADS),
    _case("MultiHeadAttention", *(_QUERY,) * 3, None, None, None, *(_f(2, 2, 6, 4),) * 2,
          outputs=3, **_HEADS),
    _case("GroupQueryAttention", _f(2, 3, 32), _f(2, 3, 16), _f(2, 3, 16), *_PAST, _i(2, 2),
          _THREE, outputs=3, **_GROUPS),
    _case("GroupQueryAttention", _f(2, 1, 32), _f(2, 1, 16), _f(2, 1, 16), *_PAST, _i(6, 6),
          np.array(7, np.int32), outputs=3, **_GROUPS),
    _case("GroupQueryAttention", _f(2, 3, 64), None, None, *_PAST, _i(2, 2), _THREE,
          outputs=3, **_GROUPS),
    _case("GroupQueryAttention", _f(2, 3, 64), None, None, None, None, _i(2, 2), _THREE,
          outputs=3, **_GROUPS),
    _case("RotaryEmbedding", _f(2, 3, 16), np.array([[0, 1, 2]] * 2), _f(8, 4), _f(8, 4), **_HEADS),
    _case("RotaryEmbedding", _f(2, 2, 3, 8), np.array([0]), _f(8, 4), _f(8, 4)),
    _case("MatMulNBits", _f(2, 3, 32), _u(5, 2, 8), _f(10), K=32, N=5, bits=4, block_size=16),
    _case("QGemm", _u(2, 3), _S, _Z, _u(3, 4), _S, _Z, None, _S, _Z),
    _case("QGemm", _u(2, 3), _S, _Z, _u(4, 3), _S, _Z, transB=1),
    _case("QLinearAdd", _u(2, 3), _S, _Z, _u(3), _S, _Z, _S, _Z),
    _case("QLinearMul", _u(2, 3), _S, _Z, _u(2, 1), _S, _Z, _S, _Z),
    _case("QLinearConcat", _S, _Z, _u(2, 3), _S, _Z, _u(2, 1), _S, _Z, axis=1),
    _case("QLinearConv", _u(1, 5, 5, 2), _S, _Z, _u(3, 2, 3, 3), _S, _Z, _S, _Z, channels_last=1),
    _case("QLinearAveragePool", _u(1, 2, 5, 5), _S, _Z, _S, _Z, kernel_shape=[2, 2],
          strides=[2, 2], pads=[1, 0, 1, 0], ceil_mode=1),
    _case("QLinearAveragePool", _u(1, 5, 5, 2), _S, _Z, _S, _Z, kernel_shape=[3, 3],
          channels_last=1),
    _case("QLinearGlobalAveragePool", _u(1, 2, 5, 5), _S, _Z, _S, _Z, channels_last=0),
    _case("QLinearGlobalAveragePool", _u(1, 5, 5, 2), _S, _Z, _S, _Z, channels_last=1),
    _case("QLinearLeakyRelu", _u(2, 3), _S, _Z, _S, _Z, alpha=0.1),
    _case("QLinearSigmoid", _u(2, 3), _S, _Z, _S, _Z),
    _case("QLinearSoftmax", _u(2, 3), _S, _Z, _S, _Z, axis=-1, opset=13),
    _case("NhwcMaxPool", _u(1, 5, 5, 2), kernel_shape=[3, 3]),
    _case("DynamicQuantizeMatMul", _f(2, 3, 4), _u(4, 5), _S, _Z, _f(5)),
    _case("DynamicQuantizeLSTM", _f(4, 2, 3), _u(1, 3, 20), _u(1, 5, 20), _f(1, 40), None, None,
          None, None, _f(1), _u(1), _f(1), _u(1), outputs=3, hidden_size=5),
    _case("MatMulIntegerToFloat", _u(2, 4), _u(4, 5), _S, _S, _Z, _Z, _f(5)),
    _case("MatMulInteger16", _u(2, 3).astype(np.int16), _u(3, 4).astype(np.int16)),
    _case("QuantizeLinear", _f(2, 3), _S, np.array(3, np.uint16)),
    _case("DequantizeLinear", _u(2, 3).astype(np.int16), _S, np.array(3, np.int16)),
    _case("Inverse", _f(2, 3, 3)),
    _case("Tokenizer", np.array([["a b"], ["c"]], object), mark=0, mincharnum=1, pad_value="#",
          separators=[" "]),
]  # fmt: skip
"""All but operators that ONNX Runtime has no kernel of for a processor."""
