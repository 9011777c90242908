"""A language model with a cache of keys and values, written as exporters write it."""

import numpy as np
import onnx
from onnx import numpy_helper

from tests.models import parsed

HEADS, HEAD_SIZE, VOCABULARY, LAYERS = 2, 8, 32, 2
WIDTH = HEADS * HEAD_SIZE

_HEAD = """
hidden = Gather(embedding, input_ids)
ids_shape = Shape(input_ids)
batch = Gather(ids_shape, zero)
length = Gather(ids_shape, one)
past_shape = Shape(past_key_0)
past = Gather(past_shape, two)
total = Add(past, length)
steps = Range(past, total, one)
columns = Range(zero, total, one)
steps_column = Unsqueeze(steps, at1)
later = Greater(columns, steps_column)
lowest = CastLike(least, hidden)
none = CastLike(nothing, hidden)
causal2 = Where(later, lowest, none)
causal4 = Unsqueeze(causal2, at01)
b1 = Unsqueeze(batch, at0)
l1 = Unsqueeze(length, at0)
t1 = Unsqueeze(total, at0)
mask_shape = Concat<axis = 0>(b1, list1, l1, t1)
causal = Expand(causal4, mask_shape)
padding1 = Flatten<axis = 1>(attention_mask) padding2 = Slice(padding1, from0, far, at1)
padding4 = Unsqueeze(padding2, at12)
is_padding = Equal(padding4, zero)
masked = Where(is_padding, lowest, causal)
positions = Unsqueeze(position_ids, at2)
angles_of = Cast<to = 1>(positions)
angles = Mul(angles_of, frequencies)
twice = Concat<axis = -1>(angles, angles)
cosines3 = Cos(twice)
sines3 = Sin(twice)
cosines = Unsqueeze(cosines3, at1)
sines = Unsqueeze(sines3, at1)
split_shape = Concat<axis = 0>(b1, l1, heads, head_size)
joined_shape = Concat<axis = 0>(b1, l1, width)
"""

_LAYER = """
squared_{i} = Mul({x}, {x})
mean_{i} = ReduceMean(squared_{i}, last)
shifted_{i} = Add(mean_{i}, epsilon)
root_{i} = Sqrt(shifted_{i})
normed_{i} = Div({x}, root_{i})
q3_{i} = MatMul(normed_{i}, wq_{i})
k3_{i} = MatMul(normed_{i}, wk_{i})
v3_{i} = MatMul(normed_{i}, wv_{i})
q4_{i} = Reshape(q3_{i}, split_shape)
k4_{i} = Reshape(k3_{i}, split_shape)
v4_{i} = Reshape(v3_{i}, split_shape)
qt_{i} = Transpose<perm = [0, 2, 1, 3]>(q4_{i})
kt_{i} = Transpose<perm = [0, 2, 1, 3]>(k4_{i})
vt_{i} = Transpose<perm = [0, 2, 1, 3]>(v4_{i})
{q_turned}
{k_turned}
present_key_{i} = Concat<axis = 2>(past_key_{i}, kr_{i})
present_value_{i} = Concat<axis = 2>(past_value_{i}, vt_{i})
keys_{i} = Transpose<perm = [0, 1, 3, 2]>(present_key_{i})
products_{i} = MatMul(qr_{i}, keys_{i})
scaled_{i} = Mul(products_{i}, scale)
scores_{i} = Add(scaled_{i}, masked)
weights_{i} = Softmax<axis = -1>(scores_{i})
mixed_{i} = MatMul(weights_{i}, present_value_{i})
back_{i} = Transpose<perm = [0, 2, 1, 3]>(mixed_{i})
joined_{i} = Reshape(back_{i}, joined_shape)
projected_{i} = MatMul(joined_{i}, wo_{i})
added_{i} = Add({x}, projected_{i})
"""

_TURNED = """
{n}_half_{i} = Slice({n}t_{i}, from0, to_half, at3)
{n}_rest_{i} = Slice({n}t_{i}, to_half, far, at3)
{n}_minus_{i} = Neg({n}_rest_{i})
{n}_other_{i} = Concat<axis = -1>({n}_minus_{i}, {n}_half_{i})
{n}_along_{i} = Mul({n}t_{i}, cosines)
{n}_across_{i} = Mul({n}_other_{i}, sines)
{n}r_{i} = Add({n}_along_{i}, {n}_across_{i})
"""


def decoder() -> onnx.ModelProto:
    """Make the model; its inputs are of any batch, length and cache."""
    cache = f"float[B, {HEADS}, P, {HEAD_SIZE}]"
    grown = f"float[B, {HEADS}, T, {HEAD_SIZE}]"
    kinds = ("key", "value")
    past = [f"{cache} past_{kind}_{i}" for i in range(LAYERS) for kind in kinds]
    present = [f"{grown} present_{kind}_{i}" for i in range(LAYERS) for kind in kinds]
    ids = ["int64[B, S] input_ids", "int64[B, T] attention_mask", "int64[B, S] position_ids"]
    lines = [_HEAD]
    x = "hidden"
    for i in range(LAYERS):
        turned = {f"{n}_turned": _TURNED.format(n=n, i=i) for n in "qk"}
        lines.append(_LAYER.format(i=i, x=x, **turned))
        x = f"added_{i}"
    lines.append(f"logits = MatMul({x}, head)")
    outputs = [f"float[B, S, {VOCABULARY}] logits", *present]
    text = f"g ({', '.join(ids + past)}) => ({', '.join(outputs)}) {{ {' '.join(lines)} }}"
    model = parsed(text)
    model.graph.initializer.extend(_constants())
    return model


def _constants() -> list[onnx.TensorProto]:
    rng = np.random.default_rng(0)
    whole = {
        "zero": 0,
        "one": 1,
        "two": 2,
        "at0": [0],
        "at1": [1],
        "at2": [2],
        "at3": [3],
        "at01": [0, 1],
        "at12": [1, 2],
        "from0": [0],
        "far": [2**63 - 1],
        "last": [-1],
        "list1": [1],
        "heads": [HEADS],
        "head_size": [HEAD_SIZE],
        "width": [WIDTH],
        "to_half": [HEAD_SIZE // 2],
    }
    frequencies = 1.0 / 100 ** (np.arange(HEAD_SIZE // 2) * 2 / HEAD_SIZE)
    real = {"least": np.finfo(np.float32).min, "nothing": 0.0, "epsilon": 1e-5}
    real |= {"scale": HEAD_SIZE**-0.5, "frequencies": frequencies}
    real["embedding"] = rng.standard_normal((VOCABULARY, WIDTH))
    real["head"] = rng.standard_normal((WIDTH, VOCABULARY))
    for i in range(LAYERS):
        real |= {f"w{n}_{i}": rng.standard_normal((WIDTH, WIDTH)) / 4 for n in "qkvo"}
    arrays = {name: np.array(value, np.int64) for name, value in whole.items()}
    arrays |= {name: np.array(value, np.float32) for name, value in real.items()}
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def feeds_of(batch: int, length: int, past: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Make inputs for some sizes; the first sequence begins with padding where it is long."""
    rng = np.random.default_rng(seed)
    mask = np.ones((batch, past + length), np.int64)
    mask[0, : (past + length) // 4] = 0
    feeds = {
        "input_ids": rng.integers(0, VOCABULARY, (batch, length)),
        "attention_mask": mask,
        "position_ids": np.tile(np.arange(past, past + length), (batch, 1)),
    }
    for i in range(LAYERS):
        for kind in ("key", "value"):
            shape = (batch, HEADS, past, HEAD_SIZE)
            feeds[f"past_{kind}_{i}"] = rng.standard_normal(shape).astype(np.float32)
    return feeds
