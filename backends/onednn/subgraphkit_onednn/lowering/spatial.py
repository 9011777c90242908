"""Operators with spatial axes: convolutions, pools, and interpolation where roundings agree."""

from dataclasses import dataclass, replace
from typing import Any, Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft, has_input, lowers, require

_LEAST_AXES: Final = 3
_MOST_AXES: Final = 5
_CHANNELS: Final = "shape", "the weights have another number of channels"
_Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry per spatial axis in each."""

    kernel: _Sizes
    strides: _Sizes
    dilations: _Sizes
    pads_begin: _Sizes
    pads_end: _Sizes

    @property
    def reach(self) -> _Sizes:
        """Lengths of the window with its gaps."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def is_spatial(dims: _Sizes) -> bool:
    """Say whether there are one to three axes after batch and channels."""
    return _LEAST_AXES <= len(dims) <= _MOST_AXES


def _as_stated(node: Node, kernel: _Sizes) -> Windows:
    """Return the geometry as the attributes of a node state it."""
    rank = len(kernel)
    pads = tuple(node.attribute("pads", None) or (0,) * 2 * rank)
    strides, dilations = (
        tuple(node.attribute(name, None) or (1,) * rank) for name in ("strides", "dilations")
    )
    return Windows(kernel, strides, dilations, pads[:rank], pads[rank:])


def _windows(node: Node, kernel: _Sizes, source: _Sizes, result: _Sizes) -> Windows:
    """Read the geometry of a convolution or a pool, and settle its padding from what it makes."""
    stated, auto = _as_stated(node, kernel), node.attribute("auto_pad", "NOTSET")
    require(min(*stated.pads_begin, *stated.pads_end) >= 0, "attribute", "padding is negative")
    begin, end = [], []
    for axis, first in enumerate(stated.pads_begin):
        spanned = (result[axis] - 1) * stated.strides[axis] + stated.reach[axis] - source[axis]
        half = max(spanned, 0) // 2
        chosen = {"NOTSET": first, "VALID": 0, "SAME_UPPER": half}
        begin.append(chosen.get(auto, max(spanned, 0) - half))
        # What the last window does not reach needs no padding, what it reaches beyond does.
        end.append(max(spanned - begin[axis], 0))
    return replace(stated, pads_begin=tuple(begin), pads_end=tuple(end))


@lowers("Conv")
def convolution(draft: GraphDraft, node: Node) -> None:
    """Lower a convolution in one, two or three dimensions."""
    x, w, y, groups = _operands(draft, node)
    require(x.dims[1] == w.dims[1] * groups, *_CHANNELS)
    geometry = _geometry(_windows(node, w.dims[2:], x.dims[2:], y.dims[2:]))
    inputs = [x, w, *_bias(draft, node, w.dims[0])]
    draft.add("convolution", inputs, y, weights_format="OIX", groups=groups, **geometry)


@lowers("ConvTranspose")
def transposed_convolution(draft: GraphDraft, node: Node) -> None:
    """Lower a transposed convolution in one, two or three dimensions."""
    x, w, y, groups = _operands(draft, node)
    require(x.dims[1] == w.dims[0], *_CHANNELS)
    added = tuple(node.attribute("output_padding", None) or (0,) * (len(x.dims) - 2))
    windows = _transposed_windows(node, w.dims[2:], x.dims[2:], y.dims[2:], added)
    ends = any(more >= step for more, step in zip(added, windows.strides, strict=True))
    told = "oneDNN ends the process if output_padding is no less than strides"
    require(not ends, "attribute", told)
    inputs = [x, w, *_bias(draft, node, w.dims[1] * groups)]
    more = {"output_padding": added, **_geometry(windows)}
    draft.add("conv_transpose", inputs, y, weights_format="IOX", groups=groups, **more)


def _operands(draft: GraphDraft, node: Node) -> tuple[DraftTensor, DraftTensor, DraftTensor, int]:
    """Return what a convolution reads, the filters, what it makes, and the number of groups."""
    x, w = draft.value(node.inputs[0]), draft.value(node.inputs[1])
    y = draft.result(node)
    _require_rank(x, "convolves", fits=len(w.dims) == len(x.dims))
    return x, w, y, int(node.attribute("group", 1))


def _transposed_windows(
    node: Node, kernel: _Sizes, source: _Sizes, result: _Sizes, added: _Sizes
) -> Windows:
    """Settle the padding that gives the output its length."""
    stated, auto = _as_stated(node, kernel), node.attribute("auto_pad", "NOTSET")
    rows = zip(stated.strides, source, added, stated.reach, result, strict=True)
    totals = [step * (old - 1) + more + reach - new for step, old, more, reach, new in rows]
    begin = list(stated.pads_begin)
    if node.attribute("output_shape", None) or auto in {"SAME_UPPER", "SAME_LOWER"}:
        begin = [total // 2 if auto == "SAME_UPPER" else -(-total // 2) for total in totals]
    end = [total - first for total, first in zip(totals, begin, strict=True)]
    require(min(*begin, *end) >= 0, "attribute", "padding is negative")
    return replace(stated, pads_begin=tuple(begin), pads_end=tuple(end))


def _geometry(windows: Windows, *, dilates: bool = True) -> dict[str, Any]:
    return {
        "strides": windows.strides,
        **({"dilations": windows.dilations} if dilates else {}),
        "pads_begin": windows.pads_begin,
        "pads_end": windows.pads_end,
        "data_format": "NCX",
    }


def _bias(draft: GraphDraft, node: Node, channels: int) -> list[DraftTensor]:
    if not has_input(node, 2):
        return []
    bias = draft.value(node.inputs[2])
    require(bias.dims == (channels,), "shape", f"the bias has {bias.dims}, not one per channel")
    return [bias]


def _require_rank(x: DraftTensor, does: str, *, fits: bool = True) -> None:
    text = f"oneDNN {does} in 1 to 3 dimensions, not over {len(x.dims) - 2}"
    require(fits and is_spatial(x.dims), "rank", text)


@lowers("MaxPool")
def max_pool(draft: GraphDraft, node: Node) -> None:
    """Lower a maximum pool without indices."""
    x, y, windows = _pool(draft, node)
    draft.add("max_pool", [x], y, kernel=windows.kernel, **_geometry(windows))


@lowers("AveragePool")
def average_pool(draft: GraphDraft, node: Node) -> None:
    """Lower an average pool."""
    x, y, windows = _pool(draft, node)
    require(max(windows.dilations) == 1, "attribute", "oneDNN dilates no average pools")
    counts_padding = bool(node.attribute("count_include_pad", 0))
    if counts_padding and node.attribute("ceil_mode", 0):
        given = tuple(node.attribute("pads", None) or (0,) * 2 * len(windows.kernel))
        fits = all(
            end <= stated
            for end, stated in zip(windows.pads_end, given[len(windows.kernel) :], strict=True)
        )
        require(fits, "attribute", "windows reach beyond the padding, which oneDNN would count")
    geometry = _geometry(windows, dilates=False)
    draft.add("avg_pool", [x], y, kernel=windows.kernel, exclude_pad=not counts_padding, **geometry)


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(draft: GraphDraft, node: Node) -> None:
    """Lower a pool over all of every channel."""
    x, y = draft.value(node.inputs[0]), draft.result(node)
    _require_rank(x, "pools")
    spatial = x.dims[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    is_max, windows = node.op_type == "GlobalMaxPool", Windows(spatial, ones, ones, zeros, zeros)
    geometry = _geometry(windows, dilates=is_max) | ({} if is_max else {"exclude_pad": True})
    draft.add("max_pool" if is_max else "avg_pool", [x], y, kernel=spatial, **geometry)


def _pool(draft: GraphDraft, node: Node) -> tuple[DraftTensor, DraftTensor, Windows]:
    """Return what a pool reads and makes, and its windows.

    Windows that may lie in the padding alone are refused: there is nothing to choose from.
    """
    x, y = draft.value(node.inputs[0]), draft.result(node)
    _require_rank(x, "pools")
    windows = _windows(node, tuple(node.attribute("kernel_shape")), x.dims[2:], y.dims[2:])
    pads = (*windows.pads_begin, *windows.pads_end)
    fits = all(pad < k for pad, k in zip(pads, windows.kernel * 2, strict=True))
    require(fits, "attribute", "padding as long as the window, which oneDNN does not take")
    return x, y, windows


_FIRST_WITH_RULES: Final = 11
_LINEAR: Final = {1: "linear", 2: "bilinear", 3: "trilinear"}


@lowers("Resize", "Upsample")
def resize(draft: GraphDraft, node: Node) -> None:
    """Lower an enlargement of the spatial axes.

    Every length must grow by a whole factor. Then oneDNN's nearest element agrees with two of
    ONNX's rules: the nearest centre, and the last element not behind (asymmetric and floor). Linear
    interpolation is between centres (half_pixel).
    """
    x, y = draft.value(node.inputs[0]), draft.result(node)
    for place in range(1, len(node.inputs)):
        draft.read(node, place)
    _require_plain(node, x, y)
    _require_scales(draft, node, x, y)
    mode, (rule, nearest) = node.attribute("mode", "nearest"), _rules(node)
    if mode == "nearest":
        rounds = rule == "half_pixel" and nearest.startswith("round_prefer")
        agrees = rounds or (rule == "asymmetric" and nearest == "floor")
        require(agrees, "attribute", f"nearest by {rule} and {nearest}")
    else:
        told = f"oneDNN interpolates nearest and linear, not {mode}"
        require(mode == "linear", "attribute", told)
        require(rule == "half_pixel", "attribute", f"linear by {rule}; oneDNN has half_pixel")
        mode = _LINEAR[len(y.dims) - 2]
    fixed = {"coordinate_transformation_mode": "half_pixel", "data_format": "NCX"}
    draft.add("interpolate", [x], y, mode=mode, sizes=y.dims[2:], **fixed)


def _is_plain(node: Node) -> bool:
    """Say whether it is of the first kind, which has scales and nothing else to choose."""
    return node.op_type == "Upsample" or node.opset < _FIRST_WITH_RULES


def _rules(node: Node) -> tuple[str, str]:
    """Return how coordinates are transformed and rounded.

    ``half_pixel`` stands for what comes to the same here.
    """
    if _is_plain(node):
        return "asymmetric", "floor"
    rule = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    rule = "half_pixel" if rule in {"pytorch_half_pixel", "half_pixel_symmetric"} else rule
    return rule, str(node.attribute("nearest_mode", "round_prefer_floor"))


def _require_plain(node: Node, x: DraftTensor, y: DraftTensor) -> None:
    fits = is_spatial(x.dims) and x.dims[:2] == y.dims[:2]
    require(fits, "shape", "oneDNN interpolates 1 to 3 axes after batch and channels")
    whole = all(new % old == 0 for old, new in zip(x.dims[2:], y.dims[2:], strict=True))
    require(whole, "shape", "a length does not grow by a whole factor")
    require(not node.attribute("antialias", 0), "attribute", "antialias")


def _require_scales(draft: GraphDraft, node: Node, x: DraftTensor, y: DraftTensor) -> None:
    """Refuse scales that are not the ratio of the lengths, which is what oneDNN computes with."""
    scales = draft.read(node, 1 if _is_plain(node) else 2)
    given = node.attribute("scales", None) if scales is None else scales.tolist()
    if not given:
        return
    pairs = zip((node.attribute("axes", None) or range(len(given))), given, strict=True)
    fits = all(scale * x.dims[axis] == y.dims[axis] for axis, scale in pairs)
    require(fits, "shape", "scales that are not the ratio of the lengths")
