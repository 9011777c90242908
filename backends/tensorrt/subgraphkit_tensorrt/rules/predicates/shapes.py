"""Predicates about shapes."""

from collections.abc import Callable

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit_tensorrt.rules.predicates.asking import (
    Rule,
    Surroundings,
    is_there,
    label_of,
    plain,
)
from subgraphkit_tensorrt.rules.window_rules import resized_dims

__all__ = [
    "axes_iota_if_scales_dynamic",
    "axes_required_if_dynamic",
    "dim_static",
    "input_last_dim_eq",
    "input_rank_in",
    "input_rank_max",
    "input_rank_min",
    "input_shape_static",
    "input_shapes_equal",
    "input_spatial_rank_in",
    "linear_max_resized_dims",
    "no_1d_with_rank_ge_3",
]


def input_rank_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has one of some numbers of axes."""
    index, allowed = rule["input"], list(rule["ranks"])
    if rule.get("if_present") and not is_there(node, index):
        return None
    if surroundings.parser:
        allowed += rule.get("soft_ranks", ())
    return _rank(node, rule, lambda rank: rank in allowed, " or ".join(map(str, allowed)))


def input_spatial_rank_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has one of some numbers of axes behind batch and channels."""
    ranks = [2 + value for value in rule["values"]]
    return input_rank_in(node, {**rule, "ranks": ranks}, surroundings)


def input_rank_min(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has at least some number of axes."""
    del surroundings
    limit = rule["value"]
    return _rank(node, rule, lambda rank: rank >= limit, f"{limit} or more")


def input_rank_max(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has at most some number of axes."""
    del surroundings
    limit = rule["value"]
    return _rank(node, rule, lambda rank: rank <= limit, f"{limit} or fewer")


def _rank(node: Node, rule: Rule, fits: Callable[[int], bool], expected: str) -> Refusal | None:
    shape = node.shape(rule["input"])
    if shape is None:
        return Refusal("rank", f"{label_of(node, rule)} has a number of axes that is not known")
    if fits(len(shape)):
        return None
    return Refusal(
        "rank", f"{label_of(node, rule)} has {len(shape)} axes, TensorRT takes {expected}"
    )


def input_shape_static(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The shape of an input is known."""
    del surroundings
    shape = node.shape(rule["input"])
    if shape is not None and all(isinstance(dim, int) for dim in shape):
        return None
    return Refusal(
        "dynamic_shape", f"the shape of {label_of(node, rule)} is not known before running"
    )


def dim_static(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """A dimension named by an attribute is known."""
    del surroundings
    shape = node.shape(rule["input"])
    axis = node.attribute(rule["axis_attr"], rule["default"])
    if shape and -len(shape) <= axis < len(shape) and isinstance(shape[axis], int):
        return None
    return Refusal("dynamic_shape", f"axis {axis} of {label_of(node, rule)} is not known")


def input_last_dim_eq(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The last dimension of an input has one value."""
    del surroundings
    shape = node.shape(rule["input"])
    if shape and shape[-1] == rule["value"]:
        return None
    return Refusal("shape", f"the last axis of {label_of(node, rule)} is not {rule['value']}")


def input_shapes_equal(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Some inputs have the same shape."""
    del surroundings
    found = {node.shape(index) for index in rule["inputs"]}
    if len(found) == 1:
        return None
    listed = ", ".join(map(str, rule["inputs"]))
    return Refusal("shape", f"inputs {listed} of {node.qualified_op_type} differ in shape")


def no_1d_with_rank_ge_3(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """A vector is not multiplied by a stack of matrices."""
    del rule, surroundings
    first, second = node.shape(0), node.shape(1)
    if first is None or second is None or len(first) != 1 or len(second) <= 2:  # noqa: PLR2004 (a matrix)
        return None
    return Refusal("rank", "a vector times a stack of matrices, TensorRT takes it the other way")


def axes_iota_if_scales_dynamic(
    node: Node, rule: Rule, surroundings: Surroundings
) -> Refusal | None:
    """Where scales are computed, they are of all axes in order."""
    del rule, surroundings
    axes = node.attribute("axes")
    scales = len(node.inputs) > 2 and bool(node.inputs[2])  # noqa: PLR2004 (a place)
    if axes is None or not scales or node.is_constant(2):
        return None
    if list(axes) == list(range(len(axes))):
        return None
    return Refusal("attribute", f"axes {list(axes)} with scales that are not constant")


def linear_max_resized_dims(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Linear interpolation is along few axes."""
    del surroundings
    count = resized_dims(node)
    if plain(node.attribute("mode", "nearest")) == "nearest" or count <= rule["value"]:
        return None
    return Refusal("attribute", f"interpolation along {count} axes, TensorRT does {rule['value']}")


def axes_required_if_dynamic(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Axes are given, or can be told from the shape."""
    del rule
    if is_there(node, 1) or "axes" in node.attributes:
        return None
    return input_shape_static(node, {"input": 0}, surroundings)
