"""Convolutions."""

from typing import Any

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft
from subgraphkit_onednn.lowering.registry import has_input, lowers, require, single_output
from subgraphkit_onednn.lowering.windows import Windows, is_spatial, windows_of

__all__ = ["convolution", "transposed_convolution"]


@lowers("Conv")
def convolution(draft: GraphDraft, node: Node) -> None:
    """Lower a convolution in one, two or three dimensions."""
    x, w = draft.value(node.inputs[0]), draft.value(node.inputs[1])
    y = draft.value(single_output(node))
    _require_rank(x, w)
    windows = windows_of(node, w.dims[2:], x.dims[2:], y.dims[2:])
    draft.add(
        "convolution",
        [x, w, *_bias(draft, node, w.dims[0])],
        y,
        weights_format="OIX",
        groups=_groups(node, x, w.dims[1]),
        **_geometry(windows),
    )


@lowers("ConvTranspose")
def transposed_convolution(draft: GraphDraft, node: Node) -> None:
    """Lower a transposed convolution in one, two or three dimensions."""
    x, w = draft.value(node.inputs[0]), draft.value(node.inputs[1])
    y = draft.value(single_output(node))
    _require_rank(x, w)
    rank = len(x.dims) - 2
    groups = int(node.attribute("group", 1))
    require(x.dims[1] == w.dims[0], "shape", "the weights have another number of channels")
    added = tuple(node.attribute("output_padding", None) or (0,) * rank)
    windows = _transposed_windows(node, w.dims[2:], x.dims[2:], y.dims[2:], added)
    draft.add(
        "conv_transpose",
        [x, w, *_bias(draft, node, w.dims[1] * groups)],
        y,
        weights_format="IOX",
        groups=groups,
        output_padding=added,
        **_geometry(windows),
    )


def _transposed_windows(
    node: Node,
    kernel: tuple[int, ...],
    source: tuple[int, ...],
    result: tuple[int, ...],
    added: tuple[int, ...],
) -> Windows:
    """Settle the padding that gives the output its length."""
    rank = len(kernel)
    strides = tuple(node.attribute("strides", None) or (1,) * rank)
    dilations = tuple(node.attribute("dilations", None) or (1,) * rank)
    pads = tuple(node.attribute("pads", None) or (0,) * 2 * rank)
    auto = node.attribute("auto_pad", "NOTSET")
    bare = Windows(kernel, strides, dilations, pads[:rank], pads[rank:])
    totals = [
        strides[axis] * (source[axis] - 1) + added[axis] + bare.reach[axis] - result[axis]
        for axis in range(rank)
    ]
    begin = list(pads[:rank])
    if node.attribute("output_shape", None) or auto in {"SAME_UPPER", "SAME_LOWER"}:
        halves = [total // 2 for total in totals]
        begin = (
            halves if auto == "SAME_UPPER" else [t - h for t, h in zip(totals, halves, strict=True)]
        )
    end = [total - first for total, first in zip(totals, begin, strict=True)]
    require(min(*begin, *end) >= 0, "attribute", "padding is negative")
    return Windows(kernel, strides, dilations, tuple(begin), tuple(end))


def _geometry(windows: Windows) -> dict[str, Any]:
    return {
        "strides": windows.strides,
        "dilations": windows.dilations,
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


def _groups(node: Node, x: DraftTensor, channels: int) -> int:
    groups = int(node.attribute("group", 1))
    require(x.dims[1] == channels * groups, "shape", "the weights have another number of channels")
    return groups


def _require_rank(x: DraftTensor, w: DraftTensor) -> None:
    fits = is_spatial(x.dims) and len(w.dims) == len(x.dims)
    require(fits, "rank", f"oneDNN convolves in 1 to 3 dimensions, not over {len(x.dims) - 2}")
