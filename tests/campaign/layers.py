"""How operators of networks are given what is legal: windows, products, norms, recurrence, text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.campaign.drawing import Draw
from tests.campaign.growing import Skip
from tests.campaign.recipes import HALVES, broadcasts, recipe, varied


def _window(d: Draw, sizes: tuple[int, ...], *, pool: bool, kernel: Any = None) -> list[int]:
    """State a window that fits over an input of these sizes, mostly."""
    rank = len(sizes)
    kernel = kernel or [d.pick(1, 2, 3, 3) for _ in sizes]
    strides = [d.pick(1, 1, 2, 3) for _ in sizes]
    dilations = [d.pick(1, 1, 2) for _ in sizes]
    d.set("kernel_shape", kernel, 0.6)
    d.set("strides", strides)
    if d.knows("dilations"):
        d.set("dilations", dilations, 0.4)
    dilations = d.attributes.get("dilations", [1] * rank)
    pads = [d.rng.randint(0, kernel[a % rank] - 1 if pool else 2) for a in range(2 * rank)]
    way = d.pick("pads", "pads", "none", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    if way in {"pads", "NOTSET"}:
        d.set("pads", pads, 1.0)
    if way not in {"pads", "none"}:
        d.set("auto_pad", way, 1.0)
    d.set("ceil_mode", d.pick(0, 1))
    padded = [sizes[a] + (pads[a] + pads[a + rank]) * ("pads" in d.attributes) for a in range(rank)]
    spans = [(kernel[a] - 1) * dilations[a] + 1 for a in range(rank)]
    # of open sizes, a library finds out when running that there is nothing; with strides,
    # ONNX Runtime rounds towards an element
    less = 0 if d.growth.manner.open_sizes or max(d.attributes.get("strides", [1])) > 1 else 2
    if not way.startswith("SAME") and any(p < s - less for p, s in zip(padded, spans, strict=True)):
        raise Skip
    return kernel


@recipe("MaxPool", "AveragePool", "LpPool")
def _pool(d: Draw) -> None:
    x = d.read(
        rank=(3, 5),
        new=(d.size(), d.size(), *(d.rng.randint(1, 6) for _ in range(d.pick(1, 2, 2, 3)))),
    )
    _window(d, x.shape[2:], pool=True)
    d.set("count_include_pad", d.pick(0, 1))
    d.set("p", d.pick(1, 2, 3))
    if d.knows("storage_order"):
        d.set("storage_order", d.pick(0, 0, 1), 0.4)
        d.outputs = [True, d.chance(0.3)]


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global(d: Draw) -> None:
    d.read(rank=(3, 5))
    d.set("p", d.pick(1, 2, 3))


@recipe("MaxUnpool")
def _unpool(d: Draw) -> None:
    shape = (1, d.pick(1, 2), 2, 2)
    d.read(shape)
    places = np.arange(np.prod(shape)).reshape(shape)
    rows = np.array([[0, 2], [9, 11]]) + d.pick(0, 1, 4)
    d.give(np.broadcast_to(rows, shape) + places // 4 * 16)
    d.set("kernel_shape", [2, 2])
    d.set("strides", [2, 2], 1.0)
    if d.chance(0.3):
        d.integers([*shape[:2], *d.pick((4, 4), (5, 4), (5, 6))])


@recipe("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "DeformConv")
def _conv(d: Draw) -> None:
    name = d.schema.name
    spatial = 2 if name == "DeformConv" else d.pick(1, 2, 2, 2, 3)
    x = d.read(
        lambda s: 3 <= len(s) <= 5 and 0 < s[1] <= 6,
        new=(d.size(), d.pick(1, 2, 3, 4, 6), *(d.rng.randint(1, 7) for _ in range(spatial))),
        rank=(3, 5),
    )
    if name == "DeformConv" and x.ndim != 4:
        raise Skip
    sizes, channels = x.shape[2:], x.shape[1]
    group = d.pick(*(g for g in (1, 1, 2, 3, 4, 6) if channels % g == 0))
    if name == "QLinearConv":
        _scales(d, x.dtype)
    made = group * d.pick(1, 1, 2, 3)
    kernel = [d.pick(1, 2, 3, 3) for _ in sizes]
    _window(d, sizes, pool=False, kernel=kernel)
    d.set("group", group, float(group > 1) or 0.3)
    per_group = (channels, made // group) if name == "ConvTranspose" else (made, channels // group)
    w = d.read((*per_group, *kernel))
    _finish_conv(d, x, w, made)


def _finish_conv(d: Draw, x: Any, w: Any, made: int) -> None:
    """Give what comes behind the filters."""
    name = d.schema.name
    if name == "ConvTranspose":
        _transposed(d, x.shape[2:])
    if name == "QLinearConv":
        _scales(d, w.dtype, made)
        made_type = d.types.setdefault("T3", d.pick(np.dtype(np.int8), np.dtype(np.uint8)))
        _scales(d, made_type)
        if d.chance():
            d.give(np.arange(made, dtype=np.int32))
    elif name == "ConvInteger":
        _zero_points(d, x.dtype, (w.dtype, (made,)))
    elif name == "DeformConv":
        _deform(d, x, w.shape[2:], made)
    elif d.chance():
        d.read((made,))


def _transposed(d: Draw, sizes: Any) -> None:
    if d.chance(0.4):
        strides = d.attributes.get("strides", [1] * len(sizes))
        d.set("output_padding", [d.rng.randint(0, s - 1) for s in strides], 1.0)
    elif d.chance(0.2) and "pads" not in d.attributes:
        d.set("output_shape", [s * 2 + d.pick(-1, 0, 1) for s in sizes], 1.0)
        d.attributes["strides"] = [2] * len(sizes)


def _deform(d: Draw, x: Any, kernel: Sequence[int], made: int) -> None:
    d.attributes.update({"pads": [0, 0, 0, 0], "strides": [1, 1], "dilations": [1, 1]})
    d.attributes.pop("auto_pad", None)
    out = [x.shape[2 + a] - kernel[a] + 1 for a in range(2)]
    if min(out) < 1:
        raise Skip
    points = kernel[0] * kernel[1]
    d.read((x.shape[0], 2 * points, *out), kind="small")
    if d.chance():
        d.read((made,))
    else:
        d.skip()
    if d.chance():
        d.read((x.shape[0], points, *out))


def _scales(d: Draw, dtype: Any, count: int = 0) -> None:
    """Give a scale and a zero point, for each channel sometimes."""
    shape = (count,) if count and d.chance() else ()
    scale = np.full(shape, d.pick(0.125, 0.25, 0.5, 1.0))
    parameter = d.schema.inputs[len(d.inputs)].type_str
    kind = d.types.setdefault(parameter, np.dtype(np.float32)) if parameter == "TS" else np.float32
    d.give(scale.astype(kind), 0.1)
    zero = 0 if count and shape else d.pick(0, 1, 3)
    d.give(np.full(shape, zero, dtype), 0.1)


def _zero_points(d: Draw, first: Any, second: tuple[Any, tuple[int, ...]]) -> None:
    if d.chance(0.7):
        d.give(np.array(d.pick(0, 1, 3), first))
        if d.chance(0.7):
            dtype, shape = second
            d.give(np.full(shape if d.chance(0.4) else (), d.pick(0, 1, 2), dtype))


@recipe("MatMul", "MatMulInteger", "QLinearMatMul")
def _product(d: Draw) -> None:
    x = d.read(rank=(1 if d.schema.name == "MatMul" else 2, 4))
    inner = x.shape[-1]
    lead = varied(d, x.shape[:-2]) if x.ndim > 2 else ()
    other = (*lead, inner, d.size()) if d.chance(0.8) or d.schema.name != "MatMul" else (inner,)
    if d.schema.name == "QLinearMatMul":
        if not inner:
            raise Skip  # ONNX Runtime leaves sums of nothing unwritten
        _scales(d, x.dtype)
    y = d.read(
        lambda s: (
            (s[-2:-1] or s[-1:]) == (inner,) and (len(s) < 3 or broadcasts(x.shape[:-2])(s[:-2]))
        ),
        new=other,
        rank=(1 if d.schema.name == "MatMul" else 2, 4),
    )
    if d.schema.name == "MatMulInteger":
        _zero_points(d, x.dtype, (y.dtype, y.shape[-1:] if y.ndim == 2 else ()))
    elif d.schema.name == "QLinearMatMul":
        _scales(d, y.dtype)
        made_type = d.types.setdefault("T3", d.pick(np.dtype(np.int8), np.dtype(np.uint8)))
        _scales(d, made_type)


@recipe("Gemm")
def _gemm(d: Draw) -> None:
    x = d.read(rank=(2, 2))
    flips = d.pick(0, 0, 1), d.pick(0, 0, 1)
    d.set("transA", flips[0], float(flips[0]) or 0.3)
    d.set("transB", flips[1], float(flips[1]) or 0.3)
    d.set("alpha", d.pick(*HALVES))
    d.set("beta", d.pick(*HALVES))
    rows, inner = x.shape[:: -1 if flips[0] else 1]
    y = d.read(
        lambda s: len(s) == 2 and s[0 if not flips[1] else 1] == inner,
        new=(inner, d.size())[:: -1 if flips[1] else 1],
        rank=(2, 2),
    )
    columns = y.shape[0 if flips[1] else 1]
    if d.chance(0.7) or d.opset < 11:
        shapes = ((rows, columns), (columns,), (rows, 1), (1, columns), (1,), (), (1, 1))
        d.read(lambda s: s in shapes, new=d.pick(*shapes))


@recipe("Einsum")
def _einsum(d: Draw) -> None:
    equation = d.pick(
        *("ij,jk->ik", "bij,bjk->bik", "ii->i", "ij->ji", "i,j->ij", "ij->", "ij,ij->", "ii", "ij"),
        *("...ij,...jk->...ik", "bhid,bhjd->bhij", "i...->...", "ij, jk", "abc,cd,de->abe"),
        "ijk->kj",
    )
    sizes = {letter: d.size() for letter in equation if letter.isalpha()}
    for term in equation.split("->")[0].split(","):
        letters = term.replace(" ", "")
        shape: list[int] = []
        for part in letters.replace("...", "."):
            shape += [2] if part == "." else [sizes[part]]
        d.read(tuple(shape))
    d.set("equation", equation)


@recipe("BatchNormalization")
def _batch_norm(d: Draw) -> None:
    x = d.read(rank=(2, 5))
    for kind in ("any", "any", "any", "positive"):
        d.read((x.shape[1],), kind=kind)
    d.set("epsilon", d.pick(1e-5, 1e-3, 0.1))
    d.set("momentum", d.pick(0.9, 0.5))
    if d.opset >= 14 and d.chance(0.15):
        d.set("training_mode", 1, 1.0)
        d.outputs = [True, True, True]
        if len(set(d.inputs)) < len(d.inputs):
            raise Skip  # ONNX Runtime writes over the statistics, whoever else reads them


@recipe("LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization")
@recipe("LRN", "MeanVarianceNormalization")
def _norm(d: Draw) -> None:
    name = d.schema.name
    rank = (1, 4) if name in {"LayerNormalization", "RMSNormalization"} else (3, 5)
    rank = (4, 4) if name in {"LRN", "MeanVarianceNormalization"} else rank
    x = d.read(
        rank=rank,
        kind="distinct" if d.chance(0.7) else "any",
        # normalised in float32, what is more than that is chance; a running sum keeps infinity
        fit=lambda a: (
            (name != "GroupNormalization" or a.dtype != np.float64)
            and (name != "LRN" or bool(np.isfinite(a).all()))
        ),
    )
    d.set("epsilon", d.pick(1e-5, 1e-2, 0.5))
    if rank == (1, 4):
        axis = d.axis(x.ndim)
        d.set("axis", axis, 0.8)
        shape = x.shape[d.attributes.get("axis", -1) :]
        d.read(lambda s: s == shape, new=shape if d.chance(0.8) else shape[-1:])
        if name == "LayerNormalization":
            if d.chance():
                d.read(shape)
            d.outputs = [True, *d.pick((), (), (True,), (True, True), (False, True))]
    elif name == "LRN":
        d.set("size", d.pick(1, 2, 3, 5))
        for attribute in ("alpha", "beta", "bias"):
            d.set(attribute, d.pick(0.5, 1.0, 0.25))
    elif name == "MeanVarianceNormalization":
        d.set("axes", d.pick([0, 2, 3], [2, 3], [1], [-1, -2]))
    else:
        channels = x.shape[1]
        groups = d.pick(*(g for g in range(1, max(channels, 1) + 1) if channels % g == 0))
        d.set("num_groups", groups)
        count = groups if name == "GroupNormalization" and d.opset < 21 else channels
        d.read((count,))
        d.read((count,))


@recipe("Dropout")
def _dropout(d: Draw) -> None:
    d.read()
    d.set("ratio", d.pick(0.0, 0.5, 0.9))
    d.set("seed", 3, 0.2)
    if not d.knows("ratio") and d.chance():
        d.give(np.array(0.5, d.pick(*d.allowed(1)[1])))
        if d.chance():
            d.give(np.zeros((), bool))
    d.outputs = [True, d.opset >= 12 and d.chance(0.3)]


@recipe("QuantizeLinear", "DequantizeLinear")
def _quantise(d: Draw) -> None:
    name = d.schema.name
    x = d.read(reuse=0.5, kind="any" if name[0] == "D" else "small")
    per_axis = d.opset >= 13 and x.ndim > 0 and d.chance(0.4)
    shape: tuple[int, ...] = ()
    if per_axis:
        axis = d.axis(x.ndim)
        d.set("axis", axis, float(x.ndim < 2) or 0.8)
        if "axis" not in d.attributes and x.ndim < 2:
            raise Skip
        axis = d.attributes.get("axis", 1)
        shape = (x.shape[axis],)
        if d.opset >= 21 and d.chance(0.4) and x.shape[axis] % 2 == 0 and x.size:
            d.set("block_size", 2, 1.0)
            shape = tuple(n // 2 if a == axis % x.ndim else n for a, n in enumerate(x.shape))
    kinds = d.allowed(1)[1]
    kind = d.rng.choices(kinds, [9 if one == np.float32 else 1 for one in kinds])[0]
    draw = np.random.default_rng(d.rng.getrandbits(32))
    d.give(draw.choice([0.125, 0.25, 0.5, 1.0], shape).astype(kind), 0.1)
    zero = x.dtype if name[0] == "D" else None
    kinds = d.allowed(2)[1] if zero is None else [zero]
    zero = d.rng.choices(
        kinds, [9 if one.kind in "iu" and one.itemsize == 1 else 1 for one in kinds]
    )[0]
    if d.chance(0.8):
        wide = (
            zero.itemsize == 1 and zero.kind in "iu" and not (name[0] == "D" and zero == np.int32)
        )
        d.give((draw.integers(0, 6, shape) if wide else np.zeros(shape)).astype(zero), 0.1)
    d.set("saturate", d.pick(0, 1), 0.2)


@recipe("DynamicQuantizeLinear")
def _dynamic(d: Draw) -> None:
    d.read(fit=lambda a: a.size > 0)
    d.outputs = [True, True, True]


@recipe("RNN", "GRU", "LSTM")
def _recurrent(d: Draw) -> None:
    name = d.schema.name
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    hidden, both = d.pick(1, 2, 3, 4), d.pick("forward", "reverse", "bidirectional")
    ways = 2 if both == "bidirectional" else 1
    d.set("layout", layout := d.pick(0, 0, 1), 1.0)
    layout *= int(d.knows("layout"))
    x = d.read(rank=(3, 3), fit=lambda a: a.size > 0)
    steps, batch = x.shape[:2] if not layout else x.shape[1::-1]
    d.read((ways, gates * hidden, x.shape[2]), kind="unit")
    d.read((ways, gates * hidden, hidden), kind="unit")
    state = (ways, batch, hidden) if not layout else (batch, ways, hidden)
    optional: list[Any] = [(ways, 2 * gates * hidden), None, state]
    optional += [state, (ways, 3 * hidden)] if name == "LSTM" else []
    for shape in optional:
        if not d.chance():
            d.skip()
        elif shape is None:
            d.integers([d.rng.randint(1, steps) for _ in range(batch)], np.int32)
        else:
            d.read(shape, kind="unit")
    d.set("hidden_size", hidden)
    d.set("direction", both, float(ways > 1) or 0.7)
    d.set("linear_before_reset", d.pick(0, 1))
    d.set("input_forget", d.pick(0, 0, 0, 1), 0.3)
    d.set("clip", d.pick(0.5, 2.0), 0.15)
    per_way = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[
        name
    ]
    if d.chance(0.2):
        per_way = [d.pick("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus") for _ in per_way]
    d.set("activations", per_way * ways, 0.3)
    outputs = [d.chance(0.7) for _ in range(3 if name == "LSTM" else 2)]
    d.outputs = outputs if any(outputs) else [True]


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(d: Draw) -> None:
    x = d.read(rank=(2, 4), fit=lambda a: a.size > 0)
    count = x.shape[1]
    draw = np.random.default_rng(d.rng.getrandbits(32))
    target = draw.integers(0, count, (x.shape[0], *x.shape[2:]))
    d.give(target.astype(d.pick(np.int32, np.int64)), 0.6)
    if d.chance():
        d.read((count,), kind="positive")
    d.set("reduction", d.pick("none", "sum", "mean"))
    d.set("ignore_index", d.pick(0, -1, count), 0.3)
    if d.schema.name[0] == "S":
        d.outputs = [True, d.chance(0.3)]
