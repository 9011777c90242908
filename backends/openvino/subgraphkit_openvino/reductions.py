"""Reductions and products, so that the plugin of the processor applies what follows rightly.

The plugin computes what follows a reduction in the same kernel. Where one axis of three is
reduced, OpenVINO 2026.4 applies a constant that differs by channel along another axis. And it
quantises the first of several rows alone. With a further axis of length one, reduced as well, the
same kernel is right; it costs a view of the same memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from subgraphkit_openvino import walks

_REDUCTIONS: Final[Mapping[str, str]] = {
    "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2", "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean", "ReduceMin": "reduce_min", "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
}  # fmt: skip
"""Operations of OpenVINO, and what makes one."""

_REDUCED: Final = {(3, 1), (3, 2), (4, 1)}
"""Ranks, with how many axes are reduced: 3, or 4 where the plugin may drop one of length one."""

_FARTHEST: Final = 8
"""Operations behind a reduction that may be computed with it."""


@walks.each(*_REDUCTIONS)
def widen_reductions(op: Any, ops: Any) -> None:
    """Reduce an axis of length one too, with several numbers or a quantisation not far behind."""
    data, axes = op.input_value(0), _axes(op)
    is_few = len(axes) and (len(data.get_partial_shape()), len(axes)) in _REDUCED
    if is_few and _meets_constant(op):
        wider = ops.unsqueeze(data, ops.constant(axes[:1]))
        more = ops.constant(np.array([axes[0], *(axes + 1)]))
        made = getattr(ops, _REDUCTIONS[op.get_type_name()])(wider, more, False)  # noqa: FBT003 (by position only)
        made.set_friendly_name(op.get_friendly_name())
        if op.get_attributes()["keep_dims"]:
            made = ops.unsqueeze(made, ops.constant(axes))
        names = op.output(0).get_names()
        op.output(0).replace(made.output(0))
        made.output(0).set_names(names)


def _meets_constant(op: Any, steps: int = _FARTHEST) -> bool:
    """Say so; where a computed value makes it larger, what follows is no more computed with it.

    Of several readers, all but one may be joined with others, such as the quotient of a norm.
    """
    before = op.get_output_partial_shape(0)
    for reader in walks.readers(op) if steps else ():
        sizes = list(_constant_sizes(reader))
        if reader.get_type_name() == "FakeQuantize" or any(size > 1 for size in sizes):
            return True
        has_more = reader.get_input_size() > 1 + len(sizes) or reader.get_output_size() != 1
        is_larger = has_more and reader.get_output_partial_shape(0) != before
        if not is_larger and _meets_constant(reader, steps - 1):
            return True
    return False


def _constant_sizes(op: Any) -> Iterator[int]:
    for port in op.inputs():
        source = port.get_source_output().get_node()
        while source.get_type_name() in {"Convert", "Reshape", "Unsqueeze", "Squeeze"}:
            source = source.input_value(0).get_node()
        if source.get_type_name() == "Constant":
            yield source.get_element_type().is_real() and int(np.prod(source.get_output_shape(0)))


def _axes(op: Any) -> Any:
    """Return the axes that are reduced; none if they are not known. A pool reduces to the last."""
    source, shape = op.input_value(1).get_node(), op.get_input_partial_shape(0)
    rank = len(shape) if shape.rank.is_static else 0
    ends = [source] if source.get_type_name() == "Constant" else []
    if source.get_type_name() == "Range":
        ends = [source.input_value(0).get_node()]
    if not rank or not all(one.get_type_name() == "Constant" for one in ends) or not ends:
        return np.zeros(0, np.int64)
    first = np.asarray(ends[0].get_data(), np.int64).reshape(-1) % rank
    return np.sort(first) if ends[0] is source else np.arange(first[0], rank)


def nothing_known(value: Any, axes: Any, ops: Any) -> Any:
    """Return a 0 for each of some axes of open size, not to be known before running."""
    sizes = ops.gather(ops.shape_of(value), ops.constant(axes), ops.constant(0))
    return ops.convert(ops.less(sizes, ops.constant([0])), value.get_element_type())


@walks.each("Add", "Divide", "Multiply", "PRelu", "Subtract")
def join_no_open_axis(op: Any, ops: Any) -> None:
    """Keep a product apart from constants along its last axis, where the size of that is open.

    Joined with the product, OpenVINO (2026.4) takes the first of them for all.
    """
    for place, value in enumerate(op.input_values()):
        maker = walks.follows(op.input_value(1 - place), {"MatMul"})
        is_open = maker is not None and maker.get_output_partial_shape(0)[-1].is_dynamic
        is_stored = value.get_node().get_type_name() == "Constant"
        if is_open and is_stored and [*value.get_shape()][-1:] > [1]:
            unknown = ops.add(value, nothing_known(maker.output(0), [-1], ops))
            op.input(place).replace_source_output(unknown.output(0))


@walks.each("TopK")
def order_by_place(op: Any, _: Any) -> None:
    """Leave equal numbers in the order of their places, and not in any."""
    for name, wanted in (("sort", "value"), ("stable", True)):
        op.set_attribute(name, wanted)
