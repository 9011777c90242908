"""How operators are given what is legal that move, pick and make elements."""

from typing import Any

import numpy as np
import onnx

from tests.campaign.drawing import Draw
from tests.campaign.growing import Skip, numpy_type
from tests.campaign.recipes import HALVES, recipe


@recipe("Reshape")
def _reshape(d: Draw) -> None:
    x = d.read()
    sizes: list[int] = []
    rest = x.size
    while rest > 1 and len(sizes) < 3:
        divisors = [n for n in range(1, rest + 1) if rest % n == 0]
        sizes.append(d.rng.choice(divisors))
        rest //= sizes[-1]
    sizes.append(rest)
    d.rng.shuffle(sizes)
    if d.chance(0.5) and x.size:
        sizes[d.rng.randrange(len(sizes))] = -1
    for place in range(min(len(sizes), x.ndim)):
        if sizes[place] == x.shape[place] and d.chance(0.4) and x.size:
            sizes[place] = 0
    d.integers([] if x.size == 1 and d.chance(0.2) else sizes)
    d.set("allowzero", int(0 in sizes and not x.size) or int(0 not in sizes and d.chance()), 1.0)
    if not d.knows("allowzero") and not x.size:
        raise Skip


@recipe("Transpose")
def _transpose(d: Draw) -> None:
    x = d.read()
    axes = list(range(x.ndim))
    d.rng.shuffle(axes)
    if axes:
        d.set("perm", axes, 0.8)


@recipe("Squeeze", "Unsqueeze")
def _squeeze(d: Draw) -> None:
    x = d.read()
    rank = x.ndim + d.pick(1, 1, 2) if d.schema.name == "Unsqueeze" else x.ndim
    axes = (
        [a for a in range(rank) if x.shape[a] == 1 and d.chance(0.7)]
        if rank == x.ndim
        else (d.rng.sample(range(rank), rank - x.ndim))
    )
    if d.opset >= 11:
        axes = [a - rank if d.chance(0.3) else a for a in axes]
    if rank == x.ndim and (not axes or d.chance(0.2)):
        return
    if d.knows("axes"):
        d.set("axes", axes, 1.0)
    else:
        d.integers(axes)


@recipe("Concat")
def _concat(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    axis = d.axis(x.ndim, negative=d.opset >= 11)
    place = axis % x.ndim
    for _ in range(d.pick(0, 1, 1, 2, 3)):
        d.read(
            lambda s: (
                (*s[:place], *s[place + 1 :]) == (*x.shape[:place], *x.shape[place + 1 :])
                and len(s) == x.ndim
            ),
            new=(*x.shape[:place], d.size(), *x.shape[place + 1 :]),
        )
    d.set("axis", axis)


@recipe("Split", "SplitToSequence")
def _split(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    axis = d.axis(x.ndim, negative=d.opset >= 11)
    d.set("axis", axis, 0.8)
    size = x.shape[d.attributes.get("axis", 0)]
    parts = d.rng.randint(1, max(size, 1))
    cuts = sorted(d.rng.randint(0, size) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if d.schema.name == "SplitToSequence":
        if d.chance(0.7):
            d.integers(d.pick(sizes, d.pick(1, 2)))
        d.set("keepdims", d.pick(0, 1))
        return
    if d.knows("num_outputs") and d.chance():
        parts = d.pick(1, *(n for n in range(2, size + 1) if -(-size // n) * (n - 1) < size))
        d.set("num_outputs", parts, 1.0)
    elif size % parts or d.knows("num_outputs") or d.chance():
        if d.knows("split"):
            d.set("split", sizes, 1.0)
        else:
            d.integers(sizes)
    d.outputs = [True] * parts


@recipe("Slice")
def _slice(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    axes = sorted(d.rng.sample(range(x.ndim), d.rng.randint(1, x.ndim)))
    ends = (-(2**31), 2**31 - 1, 2**63 - 1)
    steps = [d.pick(1, 1, 1, 2, 3, -1, -2) for _ in axes]
    starts, stops = [], []
    for axis, step in zip(axes, steps, strict=True):
        size = x.shape[axis]
        pair = sorted(d.rng.randint(-size - 1, size + 1) % (size + 1) for _ in range(2))
        first, last = pair if step > 0 else pair[::-1]
        starts.append(first - size if d.chance(0.3) and first < size else first)
        stops.append(d.pick(last, last, *(ends[1:] if step > 0 else ends[:1])))
        if d.chance(0.1):
            starts[-1] = d.pick(-(2**31), -size - 1, size, size + 3)
    negative = [a - x.ndim if d.chance(0.3) and d.opset >= 10 else a for a in axes]
    if d.knows("starts"):
        d.attributes.update({"starts": starts, "ends": stops})
        d.set("axes", negative, float(axes != list(range(len(axes)))) or 0.7)
        return
    dtype = d.pick(np.int64, np.int32) if 2**63 - 1 not in stops else np.int64
    d.integers(starts, dtype)
    d.integers(stops, dtype)
    plain = axes == list(range(len(axes)))
    strided = d.chance(0.6)
    if plain and d.chance(0.3):
        d.skip()
    else:
        d.integers(negative, dtype)
    if strided:
        d.integers(steps, dtype)
    elif min(steps) < 0:
        raise Skip


@recipe("Tile", "Expand")
def _repeat(d: Draw) -> None:
    x = d.read()
    if d.schema.name == "Tile":
        d.integers([d.pick(1, 1, 2, 3, 0) for _ in x.shape])
        return
    shape = [d.size() if n == 1 and d.chance() else d.pick(n, 1) for n in x.shape]
    extra = [d.size() for _ in range(d.pick(0, 0, 1))]
    d.integers([*extra, *shape] if d.chance(0.8) or extra else shape[d.rng.randint(0, x.ndim) :])


@recipe("Pad")
def _pad(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    mode = d.pick("constant", "constant", "reflect", "edge", *(["wrap"] * (d.opset >= 19)))
    axes = list(range(x.ndim))
    if d.opset >= 18 and d.chance():
        axes = d.rng.sample(axes, d.rng.randint(1, x.ndim))
    if mode != "constant" and not x.size:
        raise Skip
    pads = [
        d.rng.randint(
            0,
            3
            if mode == "constant"
            else max(x.shape[a] - 1, 0)
            if mode == "reflect"
            else x.shape[a],
        )
        for _ in range(2)
        for a in axes
    ]
    if mode == "constant" and d.chance(0.3):
        pads = [
            d.rng.randint(-x.shape[a] if d.chance(0.2) else -(x.shape[a] // 2), 2)
            for _ in range(2)
            for a in axes
        ]
    d.set("mode", mode, float(mode != "constant") or 0.6)
    if d.knows("pads"):
        d.set("pads", pads)
        d.set("value", d.pick(*HALVES))
        return
    d.integers(pads)
    given = mode == "constant" and d.chance()
    if given:
        d.give(np.array(d.pick(0, 1, 2), x.dtype) if x.dtype.kind != "O" else np.array("p", object))
    if len(axes) < x.ndim or axes != sorted(axes) or (d.opset >= 18 and d.chance(0.2)):
        if not given:
            d.skip()
        d.integers([a - x.ndim if d.chance(0.3) else a for a in axes], d.pick(np.int32, np.int64))


@recipe("Gather", "GatherElements", "GatherND", "Compress", "Scatter", "ScatterElements")
@recipe("ScatterND")
def _gather(d: Draw) -> None:
    name = d.schema.name
    x = d.read(rank=(1, 4))
    axis = d.axis(x.ndim, negative=d.opset >= 11)
    size = x.shape[axis]
    draw = np.random.default_rng(d.rng.getrandbits(32))
    low = -size if d.opset >= 11 and d.chance() else 0
    if name.endswith("ND"):
        _gather_many(d, x, draw, low)
        return
    d.set("axis", axis, 0.8)
    size = x.shape[d.attributes.get("axis", 0)]
    if name == "Compress":
        if d.chance(0.3):
            d.attributes.pop("axis", None)
            size = x.size
        d.give(draw.integers(0, 2, d.rng.randint(0, size)).astype(bool), 0.5)
        return
    low, dtype = (-size if low else 0), d.pick(np.int32, np.int64)
    if name == "Gather":
        d.give(draw.integers(low, size, d.shape(0, 2) if size else (2, 0)).astype(dtype), 0.6)
        return
    shape = [d.rng.randint(int(n > 0 and d.chance(0.9)), n) for n in x.shape]
    places = draw.integers(low, size, shape)
    if name != "GatherElements":
        d.set("reduction", d.pick("none", "add", "mul", "max", "min"))
        if d.attributes.get("reduction", "none") == "none":
            _no_place_twice(places, d.attributes.get("axis", 0), size)
    d.give(places.astype(dtype), 0.6)
    if name != "GatherElements":
        d.read(shape)


def _no_place_twice(places: Any, axis: int, size: int) -> None:
    if any(
        np.unique(row % size).size < row.size
        for row in np.moveaxis(places, axis, -1).reshape(-1, places.shape[axis])
    ):
        raise Skip


def _gather_many(d: Draw, x: Any, draw: Any, low: int) -> None:
    batch = d.pick(0, 0, 1) if d.knows("batch_dims") and x.ndim > 1 else 0
    depth = d.rng.randint(1, x.ndim - batch)
    lead = (*x.shape[:batch], *d.shape(0 if batch else 1, 2))
    places = np.stack(
        [draw.integers(-n if low else 0, n, lead) for n in x.shape[batch : batch + depth]], -1
    )
    if d.schema.name == "GatherND":
        d.set("batch_dims", batch, float(batch > 0) or 0.3)
        d.give(places, 0.6)
        return
    d.set("reduction", d.pick("none", "add", "mul", "max", "min"))
    if d.attributes.get("reduction", "none") == "none":
        rows = (places % np.array(x.shape[:depth])).reshape(-1, depth)
        if len(np.unique(rows, axis=0)) < len(rows):
            raise Skip
    d.give(places, 0.6)
    d.read((*lead, *x.shape[depth:]))


@recipe("DepthToSpace", "SpaceToDepth")
def _blocks(d: Draw) -> None:
    block = d.pick(1, 2, 2, 3)
    to_space = d.schema.name == "DepthToSpace"
    n, c, h, w = d.size(), d.pick(1, 2), d.pick(1, 2, 3), d.pick(1, 2, 3)
    shape = (n, c * block**2, h, w) if to_space else (n, c, h * block, w * block)
    d.read(shape)
    d.set("blocksize", block)
    d.set("mode", d.pick("DCR", "CRD"))


@recipe("Trilu", "EyeLike")
def _triangle(d: Draw) -> None:
    x = d.read(rank=(2, 4) if d.schema.name == "Trilu" else (2, 2))
    if d.schema.name == "Trilu":
        if d.chance(0.6):
            d.integers(d.rng.randint(-4, 4))
        d.set("upper", d.pick(0, 1))
        return
    d.set("k", d.rng.randint(-3, 3))
    d.set("dtype", d.pick(1, 7, 6, 11, 10, 9), float(x.dtype.kind == "V"))


@recipe("ReverseSequence")
def _reverse(d: Draw) -> None:
    x = d.read(rank=(2, 4))
    batch = d.pick(0, 1)
    d.set("batch_axis", batch, float(batch == 0))
    d.set("time_axis", 1 - batch, float(batch == 0))
    batch = d.attributes.get("batch_axis", 1)
    d.integers(
        [
            d.rng.randint(int(x.shape[1 - batch] > 0 and d.chance(0.9)), x.shape[1 - batch])
            for _ in range(x.shape[batch])
        ]
    )


@recipe("CenterCropPad")
def _centre(d: Draw) -> None:
    x = d.read(rank=(1, 4))
    axes = d.rng.sample(range(x.ndim), d.rng.randint(1, x.ndim))
    if len(axes) < x.ndim or d.chance():
        d.set("axes", [a - x.ndim if d.chance(0.3) else a for a in axes], 1.0)
    d.integers([d.rng.randint(1, 7) for _ in axes], d.pick(np.int32, np.int64))


@recipe("Unique")
def _unique(d: Draw) -> None:
    x = d.read(rank=(1, 3))
    if d.chance():
        d.set("axis", d.axis(x.ndim), 1.0)
    d.set("sorted", d.pick(0, 1))
    wanted = [d.chance() for _ in range(3)]
    d.outputs = [True, *wanted]


@recipe("OneHot")
def _one_hot(d: Draw) -> None:
    x = d.read(rank=(0, 3), dtypes=("int64", "int32", "float32"))
    wide = x.astype(np.float64)
    if not (wide == np.round(wide)).all() or (d.opset < 11 and (wide < 0).any()):
        raise Skip
    depth = d.pick(1, 2, 4, 5)
    kind = d.pick(*d.allowed(1)[1])
    d.give(np.array(depth if d.opset >= 11 or d.chance() else [depth], kind))
    d.read((2,))
    rank = x.ndim + 1
    d.set("axis", d.pick(-1, d.axis(rank)))


@recipe("Range")
def _range(d: Draw) -> None:
    kind = d.pick(*d.allowed(0)[1])
    step = d.pick(1, 2, -1, 3) if kind.kind == "i" else d.pick(1.0, 0.5, -0.5, 2.0)
    start = d.rng.randint(-3, 3)
    stop = start + int(step / abs(step)) * d.rng.randint(-1, 6)
    for number in (start, stop, step):
        d.give(np.array(number, kind), 0.4)


@recipe("ConstantOfShape", "Constant")
def _constant(d: Draw) -> None:
    kinds = [
        one
        for text in d.schema.type_constraints[-1].allowed_type_strs
        if (one := numpy_type(text)) is not None and (one.kind != "O")
    ]
    kind = d.rng.choices(
        kinds, [8 if one.kind in "fib" and one.itemsize > 1 else 1 for one in kinds]
    )[0]
    if d.schema.name == "ConstantOfShape":
        d.integers(list(d.shape()))
        tensor = onnx.numpy_helper.from_array(np.array([d.rng.randint(0, 3)]).astype(kind))
        d.set("value", tensor)
        return
    if d.knows("value_ints") and d.chance(0.3):
        name, value = d.pick(
            *(("value_int", 3), ("value_float", 0.5), ("value_ints", [1, 2])),
            ("value_string", "s"),
            *(("value_floats", [0.5, 1.0, 2.0]), ("value_strings", ["a", "b"])),
        )
        d.set(name, value, 1.0)
        return
    array = np.arange(4).astype(kind).reshape(d.pick((4,), (2, 2), (1, 4)))
    d.set("value", onnx.numpy_helper.from_array(array), 1.0)
