"""Interpolation, where oneDNN's rounding and ONNX's agree."""

from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft
from subgraphkit_onednn.lowering.registry import lowers, require, single_output
from subgraphkit_onednn.lowering.windows import is_spatial

__all__ = ["resize"]

_FIRST_WITH_RULES: Final = 11
_LINEAR: Final = {1: "linear", 2: "bilinear", 3: "trilinear"}


@lowers("Resize", "Upsample")
def resize(draft: GraphDraft, node: Node) -> None:
    """Lower an enlargement of the spatial axes.

    Where every length grows by a whole factor, oneDNN's nearest element is the one whose centre is
    nearest, or the last one not behind; linear interpolation is taken between centres.
    """
    x, y = draft.value(node.inputs[0]), draft.value(single_output(node))
    for place in range(1, len(node.inputs)):
        draft.read(node, place)
    _require_plain(node, x, y)
    factors = [new // old for old, new in zip(x.dims[2:], y.dims[2:], strict=True)]
    _require_scales(draft, node, x, y)
    mode = node.attribute("mode", "nearest")
    rule = _rule(node)
    if mode == "nearest":
        nearest = _nearest(node)
        rounds = rule == "half_pixel" and nearest.startswith("round_prefer")
        agrees = rounds or (rule == "asymmetric" and nearest == "floor")
        require(agrees, "attribute", f"nearest by {rule} and {nearest}")
        kind = "nearest"
    else:
        require(
            mode == "linear", "attribute", f"oneDNN interpolates nearest and linear, not {mode}"
        )
        require(rule == "half_pixel", "attribute", f"linear by {rule}; oneDNN has half_pixel")
        kind = _LINEAR[len(factors)]
    draft.add(
        "interpolate",
        [x],
        y,
        mode=kind,
        sizes=y.dims[2:],
        coordinate_transformation_mode="half_pixel",
        data_format="NCX",
    )


def _rule(node: Node) -> str:
    """Return how coordinates are transformed; ``half_pixel`` for what comes to the same here."""
    if node.op_type == "Upsample" or node.opset < _FIRST_WITH_RULES:
        return "asymmetric"
    rule = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    return "half_pixel" if rule in {"pytorch_half_pixel", "half_pixel_symmetric"} else rule


def _nearest(node: Node) -> str:
    """Return how coordinates are rounded."""
    if node.op_type == "Upsample" or node.opset < _FIRST_WITH_RULES:
        return "floor"
    return str(node.attribute("nearest_mode", "round_prefer_floor"))


def _require_plain(node: Node, x: DraftTensor, y: DraftTensor) -> None:
    fits = is_spatial(x.dims) and x.dims[:2] == y.dims[:2]
    require(fits, "shape", "oneDNN interpolates 1 to 3 axes after batch and channels")
    whole = all(new % old == 0 for old, new in zip(x.dims[2:], y.dims[2:], strict=True))
    require(whole, "shape", "a length does not grow by a whole factor")
    require(not node.attribute("antialias", 0), "attribute", "antialias")


def _require_scales(draft: GraphDraft, node: Node, x: DraftTensor, y: DraftTensor) -> None:
    """Refuse scales that are not the ratio of the lengths, which is what oneDNN computes with."""
    if node.op_type == "Upsample" or node.opset < _FIRST_WITH_RULES:
        scales = draft.read(node, 1)
        given = node.attribute("scales", None) if scales is None else scales.tolist()
    else:
        scales = draft.read(node, 2)
        given = None if scales is None or not scales.size else scales.tolist()
    if given is None:
        return
    axes = node.attribute("axes", None) or range(len(given))
    fits = all(
        scale * x.dims[axis] == y.dims[axis] for axis, scale in zip(axes, given, strict=True)
    )
    require(fits, "shape", "scales that are not the ratio of the lengths")
