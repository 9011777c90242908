"""How operators are given what is legal that work on pictures, signals, attention and text."""

from typing import Any

import numpy as np

from tests.campaign.drawing import Draw
from tests.campaign.recipes import recipe


@recipe("Resize", "Upsample")
def _resize(d: Draw) -> None:
    name, old = d.schema.name, d.opset < 11
    x = d.read(rank=(1, 4))
    modes = ("nearest", "linear") if old else ("nearest", "linear", "cubic")
    mode = d.pick(*modes)
    d.set("mode", mode, float(mode != "nearest") or 0.6)
    scales = [d.pick(1.0, 2.0, 3.0, *(() if name == "Upsample" else (0.5, 1.5))) for _ in x.shape]
    if d.chance(0.6):
        scales[: max(0, x.ndim - 2)] = [1.0] * max(0, x.ndim - 2)
    if d.knows("scales"):
        d.set("scales", scales)
        return
    if old:
        d.give(np.array(scales, np.float32))
        return
    ways = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    way = d.pick(*ways, *(["half_pixel_symmetric"] * (d.opset >= 19)))
    d.set("coordinate_transformation_mode", way, 0.7)
    way = d.attributes.get("coordinate_transformation_mode", "")
    d.set("nearest_mode", d.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"), 0.5)
    d.set("cubic_coeff_a", d.pick(-0.5, -0.75), 0.3)
    d.set("exclude_outside", d.pick(0, 1) * (mode == "cubic"), 0.3)
    d.set("extrapolation_value", d.pick(0.0, 1.0), 0.3)
    d.set("antialias", d.pick(0, 1) * (mode != "nearest"), 0.3)
    _sizes_of_resize(d, x, scales, way)


def _sizes_of_resize(d: Draw, x: Any, scales: list[float], way: str) -> None:
    axes = list(range(x.ndim))
    if d.opset >= 18 and d.chance(0.4):
        axes = sorted(d.rng.sample(axes, d.rng.randint(1, x.ndim)))
        d.set("axes", [a - x.ndim if d.chance(0.3) else a for a in axes], 1.0)
    if way == "tf_crop_and_resize":
        d.give(np.array([0.0] * len(axes) + [d.pick(1.0, 0.5)] * len(axes), np.float32))
    else:
        d.skip()
    if d.chance():
        d.give(np.array([scales[a] for a in axes], np.float32))
        return
    d.skip()
    d.integers([max(min(1, x.shape[a]), int(x.shape[a] * scales[a])) for a in axes])
    if d.opset >= 18 and d.chance(0.2):
        d.set("keep_aspect_ratio_policy", d.pick("stretch", "not_larger", "not_smaller"), 1.0)


@recipe("GridSample", "AffineGrid", "RoiAlign", "MaxRoiPool", "Col2Im", "NonMaxSuppression")
def _pictures(d: Draw) -> None:
    _PICTURES[d.schema.name](d)


def _grid(d: Draw) -> None:
    x = d.read(rank=(4, 4 if d.opset < 20 else d.pick(4, 5)))
    spatial = x.ndim - 2
    d.read(
        (x.shape[0], *(d.pick(1, 2, 3) for _ in range(spatial)), spatial),
        kind=d.pick("unit", "small"),
    )
    new = d.opset >= 20
    mode = d.pick("linear", "nearest", "cubic") if new else d.pick("bilinear", "nearest", "bicubic")
    d.set("mode", "linear" if spatial > 2 and mode == "cubic" else mode)
    d.set("padding_mode", d.pick("zeros", "border", "reflection"))
    d.set("align_corners", d.pick(0, 1))


def _affine(d: Draw) -> None:
    spatial = d.pick(2, 3)
    count = d.pick(1, 2)
    d.read((count, spatial, spatial + 1))
    d.integers([count, 2, *(d.pick(2, 3) for _ in range(spatial))])
    d.set("align_corners", d.pick(0, 1))


def _rois(d: Draw) -> None:
    x = d.read((d.pick(1, 2), d.pick(1, 2), 6, 6))
    count = d.pick(1, 2, 3, 0)
    draw = np.random.default_rng(d.rng.getrandbits(32))
    corners = np.sort(draw.integers(0, 13, (count, 2, 2)), axis=1).reshape(count, 4) / 2
    batch = draw.integers(0, x.shape[0], count)
    if d.schema.name == "RoiAlign":
        d.give(corners.astype(x.dtype), 0.6)
        d.integers(batch)
        d.set("mode", d.pick("avg", "max"))
        d.set("output_height", d.pick(1, 2, 3))
        d.set("output_width", d.pick(1, 2, 3))
        d.set("sampling_ratio", d.pick(0, 1, 2))
        d.set("coordinate_transformation_mode", d.pick("half_pixel", "output_half_pixel"))
    else:
        d.give(np.concatenate([batch[:, None], corners], axis=1).astype(x.dtype), 0.6)
        d.set("pooled_shape", [d.pick(1, 2), d.pick(1, 2, 3)])
    d.set("spatial_scale", d.pick(1.0, 0.5))


def _col2im(d: Draw) -> None:
    block, image = [d.pick(1, 2, 3) for _ in range(2)], [d.rng.randint(3, 5) for _ in range(2)]
    strides = [d.pick(1, 2) for _ in range(2)]
    d.set("strides", strides)
    strides = d.attributes.get("strides", [1, 1])
    pads = [d.pick(0, 0, 1) for _ in range(4)]
    d.set("pads", pads)
    pads = d.attributes.get("pads", [0] * 4)
    blocks = [(image[a] + pads[a] + pads[a + 2] - block[a]) // strides[a] + 1 for a in range(2)]
    d.read((d.pick(1, 2), d.pick(1, 2) * block[0] * block[1], blocks[0] * blocks[1]))
    d.integers(image)
    d.integers(block)


def _suppress(d: Draw) -> None:
    batch, count, classes = d.pick(1, 2), d.pick(1, 3, 5), d.pick(1, 2)
    draw = np.random.default_rng(d.rng.getrandbits(32))
    boxes = np.sort(draw.integers(0, 8, (batch, count, 2, 2)), axis=2).reshape(batch, count, 4)
    boxes[..., 2:] += 1
    d.give(boxes.astype(np.float32), 0.6)
    scores = draw.permutation(batch * classes * count).reshape(batch, classes, count)
    d.give(scores.astype(np.float32) / 8, 0.6)
    d.set("center_point_box", d.pick(0, 1))
    if d.chance(0.8):
        d.integers([d.pick(1, 2, 5)])
        for number in (d.pick(0.3, 0.55), d.pick(0.1, 0.9)):
            if d.chance(0.6):
                d.give(np.array([number], np.float32))
            else:
                d.skip()


_PICTURES = {
    "GridSample": _grid,
    "AffineGrid": _affine,
    "RoiAlign": _rois,
    "MaxRoiPool": _rois,
    "Col2Im": _col2im,
    "NonMaxSuppression": _suppress,
}


@recipe("DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def _signals(d: Draw) -> None:
    name = d.schema.name
    if name.endswith("Window"):
        d.integers(d.pick(1, 4, 7), d.pick(np.int32, np.int64))
        d.set("periodic", d.pick(0, 1))
        d.set("output_datatype", d.pick(1, 11))
    elif name == "MelWeightMatrix":
        for number in (d.pick(4, 8), d.pick(16, 32), 8000):
            d.integers(number)
        for hertz in (d.pick(0.0, 20.0), 4000.0):
            d.give(np.array(hertz, np.float32))
    elif name == "STFT":
        d.read((d.pick(1, 2), 16, 1))
        d.integers(d.pick(2, 4))
        if d.chance():
            d.read((8,))
        else:
            d.skip()
        d.integers(8)
        d.set("onesided", d.pick(0, 1))
    else:
        _fourier(d)


def _fourier(d: Draw) -> None:
    x = d.read((*d.shape(1, 2), d.pick(3, 4, 8), d.pick(1, 2)), fit=lambda a: a.size > 0)
    one_sided = d.pick(0, 1) if x.shape[-1] == 1 else 0
    if d.chance(0.3):
        d.integers(d.pick(3, 4, 8))
    elif d.opset >= 20:
        d.skip()
    if d.opset >= 20:
        d.integers(d.pick(-2, x.ndim - 2))
    d.set("axis", x.ndim - 2, 1.0)
    d.set("onesided", one_sided)
    d.set("inverse", 0 if d.attributes.get("onesided") else d.pick(0, 1))


@recipe("Attention", "RotaryEmbedding", "TensorScatter")
def _attention(d: Draw) -> None:
    batch, heads, size, length = d.pick(1, 2), d.pick(1, 2, 4), d.pick(2, 4), d.pick(1, 3, 4)
    if d.schema.name == "TensorScatter":
        x = d.read((batch, heads, length + 2, size))
        axis = d.pick(-2, 2)
        d.set("axis", axis)
        d.read((batch, heads, length, size))
        mode = d.pick("linear", "circular")
        d.set("mode", mode, float(mode == "circular"))
        if d.chance(0.7):
            d.integers([d.rng.randint(0, 2) for _ in range(x.shape[0])])
        return
    if d.schema.name == "RotaryEmbedding":
        flat = d.chance()
        d.read((batch, length, heads * size) if flat else (batch, heads, length, size))
        given = d.chance(0.6)
        shape = (length + 1, size // 2) if given else (batch, length, size // 2)
        d.read(shape, kind="unit")
        d.read(shape, kind="unit")
        if given:
            d.integers([[d.rng.randint(0, length) for _ in range(length)] for _ in range(batch)])
        d.set("num_heads", heads, float(flat))
        d.set("interleaved", d.pick(0, 1))
        return
    _attend(d, (batch, heads, length, size))


def _attend(d: Draw, sizes: tuple[int, int, int, int]) -> None:
    batch, heads, length, size = sizes
    shared, keys, flat = d.pick(*(h for h in (1, 2, 4) if heads % h == 0)), d.pick(2, 3), d.chance()
    for count, steps in ((heads, length), (shared, keys), (shared, keys)):
        d.read((batch, steps, count * size) if flat else (batch, count, steps, size))
    if flat:
        d.attributes.update({"q_num_heads": heads, "kv_num_heads": shared})
    past = d.pick(0, 0, 2)
    if d.chance():
        shape = d.pick((length, keys + past), (batch, 1, length, keys + past))
        d.read(shape, dtypes=("bool", "float32"))
    else:
        d.skip()
    if past:
        d.read((batch, shared, past, size))
        d.read((batch, shared, past, size))
        d.outputs = [True, True, True]
    d.set("is_causal", d.pick(0, 1) * (len(d.outputs) == 1), 0.5)
    d.set("scale", d.pick(0.5, 1.0), 0.4)
    d.set("softcap", d.pick(0.0, 2.0), 0.2)


@recipe("StringSplit", "RegexFullMatch", "StringNormalizer", "TfIdfVectorizer")
def _text(d: Draw) -> None:
    name = d.schema.name
    if name == "TfIdfVectorizer":
        d.read(rank=(1, 2), dtypes=("int32", "int64"))
        d.attributes.update({"mode": d.pick("TF", "IDF", "TFIDF"), "ngram_counts": [0, 2]})
        d.attributes.update(
            {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": d.pick(0, 1)}
        )
        d.attributes.update({"ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 1, 2]})
        d.set("weights", [0.5, 1.0, 2.0])
        return
    d.read(rank=(1, 1) if name == "StringNormalizer" else (0, 3), dtypes=("object",), reuse=0.3)
    d.set("pattern", d.pick("a+", ".*", "[a-z ]+", "(a|b) a"))
    d.set("delimiter", d.pick("", " ", "."))
    d.set("maxsplit", d.pick(1, 2), 0.4)
    d.set("case_change_action", d.pick("LOWER", "UPPER", "NONE"))
    d.set("is_case_sensitive", d.pick(0, 1))
    d.set("stopwords", ["a", "10"])
    if name == "StringSplit":
        d.outputs = [True, True]
