"""Pools."""

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft
from subgraphkit_onednn.lowering.registry import lowers, require, single_output
from subgraphkit_onednn.lowering.windows import Windows, is_spatial, windows_of

__all__ = ["average_pool", "global_pool", "max_pool"]


@lowers("MaxPool")
def max_pool(draft: GraphDraft, node: Node) -> None:
    """Lower a maximum pool without indices."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    _require_rank(x)
    windows = windows_of(node, tuple(node.attribute("kernel_shape")), x.dims[2:], y.dims[2:])
    _require_overlap(windows)
    draft.add(
        "max_pool",
        [x],
        y,
        kernel=windows.kernel,
        strides=windows.strides,
        dilations=windows.dilations,
        pads_begin=windows.pads_begin,
        pads_end=windows.pads_end,
        data_format="NCX",
    )


@lowers("AveragePool")
def average_pool(draft: GraphDraft, node: Node) -> None:
    """Lower an average pool."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    _require_rank(x)
    windows = windows_of(node, tuple(node.attribute("kernel_shape")), x.dims[2:], y.dims[2:])
    _require_overlap(windows)
    require(max(windows.dilations) == 1, "attribute", "oneDNN dilates no average pools")
    counts_padding = bool(node.attribute("count_include_pad", 0))
    if counts_padding and node.attribute("ceil_mode", 0):
        given = tuple(node.attribute("pads", None) or (0,) * 2 * len(windows.kernel))
        fits = all(
            end <= stated
            for end, stated in zip(windows.pads_end, given[len(windows.kernel) :], strict=True)
        )
        require(fits, "attribute", "windows reach beyond the padding, which oneDNN would count")
    draft.add(
        "avg_pool",
        [x],
        y,
        kernel=windows.kernel,
        strides=windows.strides,
        pads_begin=windows.pads_begin,
        pads_end=windows.pads_end,
        exclude_pad=not counts_padding,
        data_format="NCX",
    )


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(draft: GraphDraft, node: Node) -> None:
    """Lower a pool over all of every channel."""
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    _require_rank(x)
    spatial = x.dims[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    geometry = {
        "kernel": spatial,
        "strides": ones,
        "pads_begin": zeros,
        "pads_end": zeros,
        "data_format": "NCX",
    }
    if node.op_type == "GlobalMaxPool":
        draft.add("max_pool", [x], y, dilations=ones, **geometry)
    else:
        draft.add("avg_pool", [x], y, exclude_pad=True, **geometry)


def _require_rank(x: DraftTensor) -> None:
    require(
        is_spatial(x.dims), "rank", f"oneDNN pools in 1 to 3 dimensions, not over {len(x.dims) - 2}"
    )


def _require_overlap(windows: Windows) -> None:
    """Refuse windows that may lie in the padding alone: there is nothing to choose from."""
    pads = (*windows.pads_begin, *windows.pads_end)
    fits = all(pad < k for pad, k in zip(pads, windows.kernel * 2, strict=True))
    require(fits, "attribute", "padding as long as the window, which oneDNN does not take")
