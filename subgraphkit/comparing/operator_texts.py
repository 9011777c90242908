"""Operators, and runs of operators that libraries fuse, written from ``x`` to ``y``.

In bodies and weights, ``T`` is the element type, ``C`` the number of features (``4C`` four times as
many), ``CHANNELS`` the shape of a weight for each channel, and ``PLACES`` the places of an axis of
``C``, the last first.
"""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMS", "Form"]


@dataclass(frozen=True, slots=True)
class Form:
    """Nodes from ``x`` to ``y``, in onnx's text form.

    Attributes:
        name: The operators it is about, with a hyphen between them.
        body: The nodes.
        weights: Declarations of what the nodes read besides.
        kinds: The ranks it is for, the usual one first.
        base_type: The usual element type.
        opset: Version of the operator set.
    """

    name: str
    body: str
    weights: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("vector",)
    base_type: str = "float"
    opset: int = 17

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it is about, in order."""
        return tuple(self.name.partition(" ")[0].split("-"))

    @property
    def is_heavy(self) -> bool:
        """Whether it is of those that backends are made for: products of whole axes."""
        products = self.operators[0] in {"Attention", "MatMul"}
        return products or any("C,C" in text for text in self.weights)

    @property
    def declared(self) -> tuple[str, ...]:
        """The names of its weights."""
        return tuple(text.split("=")[0].split()[-1] for text in self.weights)

    @property
    def made(self) -> tuple[str, ...]:
        """The names of what its nodes make."""
        results = re.findall(r"(\w+(?:, \w+)*) = [A-Z]", self.body)
        return tuple(name for names in results for name in names.split(", "))


_RANKS: Final = ("vector", "picture", "sequence", "flat")
_PICTURE: Final = ("picture",)
_KERNEL: Final = "T[C,C,3,3] w"
_SAME: Final = "kernel_shape=[3,3], pads=[1,1,1,1]"
_NORMS: Final = ("T[C] g", "T[C] h", "T[C] m", "T[C] var")
_QUANTIZED: Final = ("float sx = {0.037}", "T z = {3}", "float sw = {0.041}", "float sy = {0.113}")
_GATES: Final = "T[1,4C,C] w", "T[1,4C,C] r"

_UNARY: Final = (
    "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish", "Elu", "Selu", "Softplus",
    "Softsign", "Erf", "Abs", "Neg", "Identity", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos",
    "Atan", "Celu", "ThresholdedRelu", "Not",
)  # fmt: skip
_LATER: Final = {"Gelu": 20, "Mish": 20}
_OF_POSITIVE: Final = ("Sqrt", "Log", "Reciprocal")
_BINARY: Final = ("Add", "Mul", "Sub", "Max", "Min")
_COMPARED: Final = ("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")
_REDUCED: Final = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd")


def _elementwise() -> tuple[Form, ...]:
    unary = [
        Form(name, f"y = {name}(x)", (), _RANKS, "bool" if name == "Not" else "float")
        for name in _UNARY
    ]
    later = [Form(name, f"y = {name}(x)", (), _RANKS, opset=at) for name, at in _LATER.items()]
    positive = [
        Form(name, f"a = Abs(x) b = Add(a, one) y = {name}(b)", ("T one = {1}",), _RANKS)
        for name in _OF_POSITIVE
    ]
    weighted = [Form(name, f"y = {name}(x, w)", ("T[CHANNELS] w",), _RANKS) for name in _BINARY]
    itself = [Form(f"{name} itself", f"y = {name}(x, x)", (), _RANKS) for name in ("Add", "Mul")]
    compared = [
        Form(name, f"c = {name}(x, w) y = Where(c, x, w)", ("T[CHANNELS] w",), _RANKS)
        for name in _COMPARED
    ]
    logical = [
        Form(name, f"y = {name}(x, w)", ("bool[CHANNELS] w",), _RANKS, "bool")
        for name in ("And", "Or", "Xor")
    ]
    return (*unary, *later, *positive, *weighted, *itself, *compared, *logical)


_OTHERS: Final = (
    Form("Exp", "e = Exp(x) y = Sigmoid(e)", (), _RANKS),
    Form("Div", "y = Div(x, two)", ("T two = {2}",), _RANKS),
    Form("Pow", "p = Pow(x, two) y = Sigmoid(p)", ("T two = {2}",), _RANKS),
    Form("Mod", "y = Mod(x, three)", ("T three = {3}",), _RANKS, "int64"),
    Form("PRelu", "y = PRelu(x, w)", ("T[CHANNELS] w",), _RANKS),
    Form("Clip", "y = Clip(x, low, high)", ("T low = {0}", "T high = {1}"), _RANKS),
    Form("Where", "y = Where(c, x, w)", ("bool[CHANNELS] c", "T[CHANNELS] w"), _RANKS),
    Form("Cast", "h = Cast<to=11>(x) s = Sin(h) y = CastLike(s, x)", (), _RANKS),
    Form("Dropout", "y = Dropout(x)", (), _RANKS),
    Form("MatMul", "y = MatMul(x, w)", ("T[C,C] w",), ("vector", "sequence", "heads")),
    Form("MatMul itself", "t = Transpose<perm=[0,2,1]>(x) s = MatMul(x, t) y = MatMul(s, x)", (),
         ("sequence",)),
    Form("Gemm", "y = Gemm(x, w, b)", ("T[C,C] w", "T[C] b")),
    Form("Gemm transposed", "y = Gemm<transB=1>(x, w, b)", ("T[C,C] w", "T[C] b")),
    Form("Gemm plain", "y = Gemm(x, w)", ("T[C,C] w",)),
    Form("Einsum", 'y = Einsum<equation="ij,jk->ik">(x, w)', ("T[C,C] w",)),
    Form("Conv", f"y = Conv<{_SAME}>(x, w, b)", (_KERNEL, "T[C] b"), _PICTURE),
    Form("Conv plain", f"y = Conv<{_SAME}>(x, w)", (_KERNEL,), _PICTURE),
    Form("Conv pointwise", "y = Conv<kernel_shape=[1,1]>(x, w, b)", ("T[C,C,1,1] w", "T[C] b"),
         _PICTURE),
    Form("Conv depthwise", f"y = Conv<{_SAME}, group=C>(x, w, b)", ("T[C,1,3,3] w", "T[C] b"),
         _PICTURE),
    Form("Conv 1-D", "y = Conv<kernel_shape=[3], pads=[1,1]>(x, w)", ("T[4,4,3] w",),
         ("sequence",)),
    Form("Conv 3-D", "y = Conv<kernel_shape=[3,3,3], pads=[1,1,1,1,1,1]>(x, w)",
         ("T[C,C,3,3,3] w",), ("volume",)),
    Form("ConvTranspose", f"y = ConvTranspose<{_SAME}>(x, w)", (_KERNEL,), _PICTURE),
    Form("MaxPool", f"y = MaxPool<{_SAME}>(x)", (), _PICTURE),
    Form("AveragePool", f"y = AveragePool<{_SAME}>(x)", (), _PICTURE),
    Form("GlobalAveragePool", "g = GlobalAveragePool(x) y = Sub(x, g)", (), _PICTURE),
    Form("GlobalMaxPool", "g = GlobalMaxPool(x) y = Sub(x, g)", (), _PICTURE),
    Form("BatchNormalization", "y = BatchNormalization(x, g, h, m, var)", _NORMS,
         ("picture", "vector")),
    Form("InstanceNormalization", "y = InstanceNormalization(x, g, h)", _NORMS[:2], _PICTURE),
    Form("LayerNormalization", "y = LayerNormalization<axis=-1>(x, g, h)", _NORMS[:2],
         ("vector", "sequence")),
    Form("RMSNormalization", "y = RMSNormalization<axis=-1>(x, g)", _NORMS[:1],
         ("vector", "sequence"), opset=23),
    Form("GroupNormalization", "y = GroupNormalization<num_groups=2>(x, g, h)", _NORMS[:2],
         _PICTURE, opset=23),
    Form("LRN", "y = LRN<size=3>(x)", (), _PICTURE),
    Form("LpNormalization", "y = LpNormalization<axis=1>(x)", (), ("vector", "picture")),
    Form("Softmax", "y = Softmax<axis=-1>(x)", (), _RANKS),
    Form("LogSoftmax", "y = LogSoftmax<axis=-1>(x)", (), _RANKS),
    Form("Attention", "y = Attention<q_num_heads=2, kv_num_heads=2>(x, x, x)", (),
         ("sequence",), opset=23),
    Form("Attention of heads", "y = Attention(x, x, x)", (), ("heads",), opset=23),
    Form("LSTM", "h, n, c = LSTM<hidden_size=C>(x, w, r) y = Squeeze(h, axis)",
         (*_GATES, "int64[1] axis = {1}"), ("sequence",)),
    Form("GRU", "h, n = GRU<hidden_size=C>(x, w, r) y = Squeeze(h, axis)",
         ("T[1,3C,C] w", "T[1,3C,C] r", "int64[1] axis = {1}"), ("sequence",)),
    Form("RNN", "h, n = RNN<hidden_size=C>(x, w, r) y = Squeeze(h, axis)",
         ("T[1,C,C] w", "T[1,C,C] r", "int64[1] axis = {1}"), ("sequence",)),
    *(Form(name, f"r = {name}<axes=[1], keepdims=1>(x) y = Sub(x, r)", (),
           ("vector", "sequence", "picture")) for name in _REDUCED),
    Form("ReduceSum", "r = ReduceSum<keepdims=1>(x, axis) y = Sub(x, r)",
         ("int64[1] axis = {1}",), ("vector", "sequence", "picture")),
    Form("ArgMax", "r = ArgMax<axis=1>(x) f = CastLike(r, x) y = Sub(x, f)", (), ("vector",)),
    Form("TopK", "y, i = TopK<axis=1>(x, k)", ("int64[1] k = {C}",), ("vector",)),
    Form("CumSum", "y = CumSum(x, axis)", ("int64 axis = {1}",), ("vector", "sequence")),
    Form("Transpose", "t = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(t)"),
    Form("Reshape", "y = Reshape(x, s)", ("int64[2] s = {-1, C}",)),
    Form("Flatten", "y = Flatten(x)"),
    *(Form(name, "u = Unsqueeze(x, axis) y = Squeeze(u, axis)", ("int64[1] axis = {1}",), _RANKS)
      for name in ("Unsqueeze", "Squeeze")),
    Form("Expand", "y = Expand(x, s)", ("int64[2] s = {1, C}",)),
    Form("Concat", "c = Concat<axis=0>(x, x) y, n = Split<axis=0>(c)", (), _RANKS),
    Form("Split", "a, b = Split<axis=1>(x) y = Concat<axis=1>(b, a)", (),
         ("vector", "picture")),
    Form("Slice", "y = Slice(x, s, e, axis, p)",
         ("int64[1] s = {-1}", "int64[1] e = {-1000}", "int64[1] axis = {1}", "int64[1] p = {-1}"),
         ("vector", "picture", "sequence")),
    Form("Gather", "y = Gather<axis=1>(x, i)", ("int64[C] i = {PLACES}",), ("vector", "picture")),
    Form("Pad", "p = Pad(x, s) y = Slice(p, one, e, axis)",
         ("int64[4] s = {0, 1, 0, 0}", "int64[1] one = {1}", "int64[1] e = {1000}",
          "int64[1] axis = {1}")),
    Form("Tile", "t = Tile(x, r) y, n = Split<axis=1>(t)", ("int64[2] r = {1, 2}",)),
    Form("Resize", 'u = Resize<mode="nearest">(x, "", s) y = MaxPool<kernel_shape=[2,2], '
         "strides=[2,2]>(u)", ("float[4] s = {1, 1, 2, 2}",), _PICTURE),
    *(Form(name, "d = DepthToSpace<blocksize=2>(x) y = SpaceToDepth<blocksize=2>(d)", (), _PICTURE)
      for name in ("DepthToSpace", "SpaceToDepth")),
    Form("QLinearConv", f"y = QLinearConv<{_SAME}>(x, sx, z, w, sw, z, sy, z)",
         (*_QUANTIZED, _KERNEL), _PICTURE, "uint8"),
    Form("QLinearConv signed", f"y = QLinearConv<{_SAME}>(x, sx, z, w, sw, zw, sy, z)",
         (*_QUANTIZED, "int8 zw = {0}", "int8[C,C,3,3] w"), _PICTURE, "uint8"),
    Form("QLinearMatMul", "y = QLinearMatMul(x, sx, z, w, sw, z, sy, z)",
         (*_QUANTIZED, "T[C,C] w"), ("vector", "sequence"), "uint8"),
    Form("ConvInteger", f"h = ConvInteger<{_SAME}>(x, w, z, z) y = CastLike(h, x)",
         ("T z = {3}", _KERNEL), _PICTURE, "uint8"),
    Form("MatMulInteger", "h = MatMulInteger(x, w, z, z) y = CastLike(h, x)",
         ("T z = {3}", "T[C,C] w"), ("vector", "sequence"), "uint8"),
    *(Form(name, "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
           ("float s = {0.037}", "uint8 z = {128}"), ("vector", "picture", "sequence"), opset=20)
      for name in ("QuantizeLinear", "DequantizeLinear")),
    Form("DequantizeLinear-Conv-QuantizeLinear",
         f"f = DequantizeLinear(x, sx, z) k = DequantizeLinear(w, sw, zw) c = Conv<{_SAME}>(f, k) "
         "y = QuantizeLinear(c, sy, z)",
         (*_QUANTIZED, "int8 zw = {0}", "int8[C,C,3,3] w"), _PICTURE, "uint8", 20),
    Form("DynamicQuantizeLinear", "q, s, z = DynamicQuantizeLinear(x) "
         "y = DequantizeLinear(q, s, z)", opset=20),
)  # fmt: skip

_RUNS: Final = (
    Form("MatMul-Add-Relu", "a = MatMul(x, w) b = Add(a, x) y = Relu(b)", ("T[C,C] w",),
         ("vector", "sequence")),
    Form("Add-Relu-Mul", "a = Add(x, x) b = Relu(a) y = Mul(b, x)", (), _RANKS),
    Form("Relu-Sigmoid-Tanh", "a = Relu(x) b = Sigmoid(a) y = Tanh(b)", (), _RANKS),
    Form("MatMul-Add", "a = MatMul(x, w) y = Add(a, b)", ("T[C,C] w", "T[C] b"),
         ("vector", "sequence")),
    Form("MatMul-Add-Gelu", "a = MatMul(x, w) d = Add(a, b) y = Gelu(d)",
         ("T[C,C] w", "T[C] b"), ("vector", "sequence"), opset=20),
    Form("Gemm-Relu-Gemm", "h = Gemm(x, w, b) r = Relu(h) y = Gemm(r, k, c)",
         ("T[C,2C] w", "T[2C] b", "T[2C,C] k", "T[C] c")),
    Form("Conv-Relu", f"c = Conv<{_SAME}>(x, w, b) y = Relu(c)", (_KERNEL, "T[C] b"), _PICTURE),
    Form("Conv-BatchNormalization-Relu",
         f"c = Conv<{_SAME}>(x, w) n = BatchNormalization(c, g, h, m, var) y = Relu(n)",
         (_KERNEL, *_NORMS), _PICTURE),
    Form("Conv-BatchNormalization", f"c = Conv<{_SAME}>(x, w) "
         "y = BatchNormalization(c, g, h, m, var)", (_KERNEL, *_NORMS), _PICTURE),
    Form("Conv-Clip", f"c = Conv<{_SAME}>(x, w, b) y = Clip(c, low, high)",
         (_KERNEL, "T[C] b", "T low = {0}", "T high = {6}"), _PICTURE),
    Form("Conv-Sigmoid-Mul", f"c = Conv<{_SAME}>(x, w, b) s = Sigmoid(c) y = Mul(c, s)",
         (_KERNEL, "T[C] b"), _PICTURE),
    Form("Conv-Add-Relu", f"c = Conv<{_SAME}>(x, w, b) a = Add(c, x) y = Relu(a)",
         (_KERNEL, "T[C] b"), _PICTURE),
    Form("Conv-BatchNormalization-Relu-Conv-BatchNormalization-Add-Relu",
         f"c = Conv<{_SAME}>(x, w) n = BatchNormalization(c, g, h, m, var) r = Relu(n) "
         f"d = Conv<{_SAME}>(r, w) e = BatchNormalization(d, g, h, m, var) a = Add(e, x) "
         "y = Relu(a)", (_KERNEL, *_NORMS), _PICTURE),
    Form("Transpose-MatMul-Div-Softmax-MatMul",
         "t = Transpose<perm=[0,2,1]>(x) s = MatMul(x, t) k = Div(s, three) "
         "p = Softmax<axis=-1>(k) y = MatMul(p, x)", ("T three = {3}",), ("sequence",)),
    Form("Add-LayerNormalization", "a = Add(x, w) y = LayerNormalization<axis=-1>(a, g, h)",
         ("T[C] w", *_NORMS[:2]), ("vector", "sequence")),
)  # fmt: skip

FORMS: Final = (*_elementwise(), *_OTHERS, *_RUNS)
"""Every form, those of one node first."""
