"""Predicates about the bodies of If, Loop and Scan."""

from collections.abc import Sequence

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit_tensorrt.rules.predicates.asking import Rule, Surroundings

__all__ = [
    "branch_output_names_differ",
    "branch_outputs_same_rank",
    "loop_carried_shape_invariant",
    "not_inside",
    "scan_output_length_static",
]


def not_inside(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The node is not in the body of some operator."""
    found = [op for op in rule["ops"] if op in surroundings.around]
    if not found:
        return None
    return Refusal("op_unsupported", f"{node.qualified_op_type} inside {found[0]} fails to build")


def branch_output_names_differ(
    node: Node, rule: Rule, surroundings: Surroundings
) -> Refusal | None:
    """The branches name their outputs differently."""
    del rule, surroundings
    shared = frozenset.intersection(*(body.output_names for body in node.bodies.values()))
    if not shared:
        return None
    return Refusal("attribute", f"both branches call an output {min(shared)!r}")


def branch_outputs_same_rank(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """What the branches make has the same number of axes."""
    del rule, surroundings
    shapes = [[body.shape(name) for name in body.outputs] for body in node.bodies.values()]
    for place, pair in enumerate(zip(*shapes, strict=True)):
        ranks = {None if shape is None else len(shape) for shape in pair}
        if len(ranks) > 1:
            return Refusal("rank", f"the branches disagree on the axes of output {place}")
    return None


def scan_output_length_static(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """What a loop stacks up has a length that is known."""
    del rule, surroundings
    carried = max(0, len(node.inputs) - 2)
    stacked = [name for name in node.outputs[carried:] if name]
    endless = len(node.inputs) > 1 and bool(node.inputs[1])
    if not stacked or (node.is_constant(0) and not endless):
        return None
    return Refusal("dynamic_shape", "the number of values that the loop stacks up is not known")


def loop_carried_shape_invariant(
    node: Node, rule: Rule, surroundings: Surroundings
) -> Refusal | None:
    """What a loop carries keeps its shape."""
    del rule, surroundings
    body = node.bodies["body"]
    for place, name in enumerate(node.inputs[2:]):
        before = node.graph.shape(name) if name else None
        after = body.shape(body.outputs[1 + place])
        if before is not None and after is not None and _differ(before, after):
            return Refusal("shape", f"carried value {place} of the loop changes its shape")
    return None


def _differ(first: Sequence[object], second: Sequence[object]) -> bool:
    if len(first) != len(second):
        return True
    pairs = zip(first, second, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
