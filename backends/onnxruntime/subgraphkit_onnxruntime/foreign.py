"""Operators of other domains than ONNX's own that ONNX Runtime computes otherwise than they say."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from subgraphkit.ir import Node


def _linear(node: Node) -> str:
    is_single = len(node.attribute("intercepts", ())) == 1
    is_other = is_single and node.attribute("post_transform", "NONE") != "LOGISTIC"
    return "of a single score it makes two otherwise" if is_other else ""


def _trees(node: Node) -> str:
    """Look for two classes, and for leaves that leave classes or targets without a score."""
    kind = "class" if node.op_type == "TreeEnsembleClassifier" else "target"
    weights, base = node.attribute(f"{kind}_weights", ()), node.attribute("base_values", ())
    trees, ids = (node.attribute(f"{kind}_{what}", ()) for what in ("treeids", "ids"))
    labels = node.attribute("classlabels_int64s", ()) or node.attribute("classlabels_strings", ())
    is_less = min(weights, default=-1) < 0
    if len(labels) == _TWO:
        word = node.attribute("post_transform", "NONE")
        is_right = {*ids} == {0} and (word == "LOGISTIC" or (word == "NONE" and not is_less))
        return "" if is_right else "of two classes it takes the second if its score is above 0"
    if not (base or (labels and is_less)):
        return ""
    modes = zip(node.attribute("nodes_treeids"), node.attribute("nodes_modes"), strict=True)
    leaves = Counter(tree for tree, mode in modes if mode == "LEAF")
    scored = Counter(zip(trees, ids, strict=True)).items()
    full = {which for (tree, which), count in scored if count == leaves[tree]}
    is_part = len(full) < (len(labels) or node.attribute("n_targets", 1))
    return "what no leaf scores is left at 0, and not compared" if is_part else ""


def _attention(node: Node) -> str:
    queries, keys = ((node.shape(place) or ("any",) * 2)[1:2] for place in range(2))
    is_uneven = node.attribute("unidirectional", 0) and node.inputs[1] and queries != keys
    return "of more keys than queries, it hides the first of the later ones" if is_uneven else ""


_TWO: Final = 2
_SIGNED: Final = "it divides by the largest number, not by the largest magnitude"
_OVERWRITTEN: Final = "it writes over what it still reads, if another operator made that"
_UNSIZED: Final = "a bias of open size, by which it takes what it makes for nothing"
_TABULATED: Final = "zero points that are not constant end the process"
FOREIGN_CHECKS: Final[Mapping[str, Callable[[Node], str]]] = {
    "LinearClassifier": _linear,
    "MultiHeadAttention": _attention,
    "Normalizer": lambda n: {"MAX": _SIGNED, "L2": _OVERWRITTEN * (n.producer(0) is not None)}.get(
        n.attribute("norm", "MAX"), ""
    ),
    "QAttention": lambda n: _UNSIZED * (not isinstance((n.shape(2) or (0,))[-1], int)),
    "QLinearWhere": lambda n: "" if n.is_constant(3) and n.is_constant(6) else _TABULATED,
    **dict.fromkeys(("TreeEnsembleClassifier", "TreeEnsembleRegressor"), _trees),
}
"""By operator of another domain, a function that says what is wrong with a node; see deviations."""
