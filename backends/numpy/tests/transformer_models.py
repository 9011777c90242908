"""A small transformer with seeded weights, written as exporters write it."""

import numpy as np
import onnx
from onnx import numpy_helper, parser

__all__ = ["HEADS", "HIDDEN", "WORDS", "encoder"]

HEADS, HIDDEN, _WIDE, WORDS, _LAYERS = 4, 32, 64, 50, 2

_CONSTANTS = f"""
int64[1] one_axis = {{1}}, int64[1] two_axis = {{2}}, int64[1] zero = {{0}}, int64[1] top = {{1}},
int64[4] split = {{0, 0, {HEADS}, {HIDDEN // HEADS}}}, int64[3] merged = {{0, 0, {HIDDEN}}},
float one = {{1.0}}, float half = {{0.5}}, float low = {{-10000.0}},
float root = {{{(HIDDEN // HEADS) ** 0.5}}}, float root2 = {{1.4142135381698608}},
int64 scalar_one = {{1}}, int64[1, {WORDS}] places = {{{", ".join(map(str, range(WORDS)))}}}
"""

_HEADS = """
{p}_{n}m = MatMul({x}, {p}_w{n}) {p}_{n}a = Add({p}_b{n}, {p}_{n}m)
{p}_{n}r = Reshape({p}_{n}a, split) {p}_{n} = Transpose<perm={perm}>({p}_{n}r)
"""

_ATTENTION = """
{heads}
{p}_s = MatMul({p}_q, {p}_k) {p}_d = Div({p}_s, root) {p}_z = Add({p}_d, bias)
{p}_p = Softmax<axis=-1>({p}_z) {p}_c = MatMul({p}_p, {p}_v)
{p}_ct = Transpose<perm=[0, 2, 1, 3]>({p}_c) {p}_cr = Reshape({p}_ct, merged)
{p}_om = MatMul({p}_cr, {p}_wo) {p}_o = Add({p}_bo, {p}_om)
"""

_ENCODER_LAYER = """
{attention}
{p}_r1 = Add({p}_o, {x}) {p}_n1 = LayerNormalization<axis=-1, epsilon=1e-5>({p}_r1, {p}_g1, {p}_h1)
{p}_fm = MatMul({p}_n1, {p}_wf) {p}_f = Add({p}_bf, {p}_fm)
{p}_e1 = Div({p}_f, root2) {p}_e2 = Erf({p}_e1) {p}_e3 = Add({p}_e2, one)
{p}_e4 = Mul({p}_f, {p}_e3) {p}_e = Mul({p}_e4, half)
{p}_ym = MatMul({p}_e, {p}_wy) {p}_y = Add({p}_by, {p}_ym)
{p}_r2 = Add({p}_y, {p}_n1)
{p}_out = LayerNormalization<axis=-1, epsilon=1e-5>({p}_r2, {p}_g2, {p}_h2)
"""

_ENCODER = """
<ir_version: 9, opset_import: ["": 17]>
encoder (int64[batch, length] ids, int64[batch, length] kinds, int64[batch, length] mask)
    => (float[batch, length, {hidden}] y) <{constants}, {weights}> {{
  u1 = Unsqueeze(mask, one_axis) u2 = Unsqueeze(u1, two_axis) uc = Cast<to=1>(u2)
  us = Sub(one, uc) bias = Mul(us, low)
  word = Gather(words, ids) kind = Gather(types, kinds) wk = Add(word, kind)
  shape = Shape(ids) length_ = Gather(shape, scalar_one) stop = Unsqueeze(length_, zero)
  place = Slice(places, zero, stop, one_axis) at = Gather(table, place)
  sum = Add(wk, at)
  x0 = LayerNormalization<axis=-1, epsilon=1e-5>(sum, gamma, beta)
  {layers}
  y = Identity({last})
}}
"""


def _attention(prefix: str, x: str) -> str:
    orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    heads = "".join(_HEADS.format(p=prefix, n=n, x=x, perm=order) for n, order in orders.items())
    return _ATTENTION.format(p=prefix, heads=heads)


def encoder() -> onnx.ModelProto:
    """Return an encoder as BERT's: words, kinds and places, masked attention, exact Gelu."""
    shapes = {"words": (WORDS, HIDDEN), "types": (2, HIDDEN), "table": (WORDS, HIDDEN)}
    shapes |= {"gamma": (HIDDEN,), "beta": (HIDDEN,)}
    layers, x = [], "x0"
    for index in range(_LAYERS):
        p = f"l{index}"
        shapes |= {f"{p}_w{name}": (HIDDEN, HIDDEN) for name in "qkvo"}
        shapes |= {f"{p}_b{name}": (HIDDEN,) for name in "qkvoy"}
        shapes |= {f"{p}_{name}": (HIDDEN,) for name in ("g1", "h1", "g2", "h2")}
        shapes |= {f"{p}_wf": (HIDDEN, _WIDE), f"{p}_bf": (_WIDE,), f"{p}_wy": (_WIDE, HIDDEN)}
        layers.append(_ENCODER_LAYER.format(p=p, x=x, attention=_attention(p, x)))
        x = f"{p}_out"
    model = parser.parse_model(
        _ENCODER.format(
            hidden=HIDDEN,
            constants=_CONSTANTS,
            weights=", ".join(f"float[{str(s)[1:-1].strip(',')}] {n}" for n, s in shapes.items()),
            layers="".join(layers),
            last=x,
        )
    )
    rng = np.random.default_rng(3)
    kept = [one for one in model.graph.initializer if one.name not in shapes]
    del model.graph.initializer[:]
    for name, shape in shapes.items():
        array = (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)
        kept.append(numpy_helper.from_array(array, name))
    model.graph.initializer.extend(kept)
    return model
