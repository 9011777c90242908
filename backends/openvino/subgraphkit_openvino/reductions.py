"""Reductions written so that OpenVINO's processor plugin applies what follows to the right axis.

The plugin computes what follows a reduction in the same kernel. Where one axis of three is
reduced, OpenVINO 2026.4 applies a constant that differs by channel along another axis. And it
quantises the first of several rows alone. With a further axis of length one, reduced as well, the
same kernel is right; it costs a view of the same memory.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.storing import Answers
from subgraphkit_openvino import library

_ANSWERS: Final = Answers("answers")

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


def mend_reductions(model: Any, folder: Path | None) -> None:
    """Write anew the reductions of a model whose results may be combined along a wrong axis.

    ``model``: The ``openvino.Model``; changed in place.
    ``folder``: Where the answer is kept whether this version needs it; None for this process alone.
    """
    suspects = [op for op in model.get_ops() if _is_suspect(op)]
    if suspects and _is_wrong(folder):
        for op in suspects:
            _widen(op)


def _is_suspect(op: Any) -> bool:
    """Say whether few axes are reduced, with several numbers or a quantisation not far behind."""
    if op.get_type_name() not in _REDUCTIONS:
        return False
    return (_rank(op), len(_axes(op))) in _REDUCED and _meets_constant(op)


def _meets_constant(op: Any) -> bool:
    """Say so; where a computed value makes it larger, what follows is no more computed with it."""
    for _ in range(_FARTHEST):
        readers = [target.get_node() for target in op.output(0).get_target_inputs()]
        if len(readers) != 1 or readers[0].get_output_size() != 1:
            return False
        (op,), before = readers, op.get_output_partial_shape(0)
        sizes = list(_constant_sizes(op))
        if op.get_type_name() == "FakeQuantize" or any(size > 1 for size in sizes):
            return True
        if op.get_input_size() > 1 + len(sizes) and op.get_output_partial_shape(0) != before:
            return False
    return False


def _constant_sizes(op: Any) -> Iterator[int]:
    for port in op.inputs():
        source = port.get_source_output().get_node()
        while source.get_type_name() in {"Convert", "Reshape", "Unsqueeze", "Squeeze"}:
            source = source.input_value(0).get_node()
        if source.get_type_name() == "Constant":
            yield source.get_element_type().is_real() and int(np.prod(source.get_output_shape(0)))


def _rank(op: Any) -> int:
    rank = op.input(0).get_partial_shape().rank
    return int(rank.get_length()) if rank.is_static else 0


def _axes(op: Any) -> Any:
    """Return the axes that are reduced; none if they are not known. A pool reduces to the last."""
    source, rank = op.input_value(1).get_node(), _rank(op)
    ends = [source] if source.get_type_name() == "Constant" else []
    if source.get_type_name() == "Range":
        ends = [source.input_value(0).get_node()]
    if not rank or not all(one.get_type_name() == "Constant" for one in ends) or not ends:
        return np.zeros(0, np.int64)
    first = np.asarray(ends[0].get_data(), np.int64).reshape(-1) % rank
    return np.sort(first) if ends[0] is source else np.arange(first[0], rank)


def _widen(op: Any) -> None:
    """Reduce an axis of length one with the axes that are reduced."""
    ops = library.runtime().opset13
    data = op.input_value(0)
    axes = _axes(op)
    wider = ops.unsqueeze(data, ops.constant(axes[:1]))
    more = ops.constant(np.array([axes[0], *(axes + 1)]))
    made = getattr(ops, _REDUCTIONS[op.get_type_name()])(wider, more, False)  # noqa: FBT003 (by position only)
    made.set_friendly_name(op.get_friendly_name())
    if op.get_attributes()["keep_dims"]:
        made = ops.unsqueeze(made, ops.constant(axes))
    names = op.output(0).get_names()
    op.output(0).replace(made.output(0))
    made.output(0).set_names(names)


def _is_wrong(folder: Path | None) -> bool:
    """Say whether this version of OpenVINO computes the combination wrongly; asked once."""
    return _ANSWERS.recall(f"reduction {library.runtime().get_version()}", _miscomputes, folder)


def _miscomputes() -> bool:
    openvino = library.runtime()
    ops = openvino.opset13
    x = ops.parameter([2, 3, 4], openvino.Type.f32)
    total = ops.reduce_sum(x, ops.constant(np.array([2], np.int64)), False)  # noqa: FBT003 (by position only)
    channels = np.array([1, 2, 3], np.float32)
    model = openvino.Model([ops.add(total, ops.constant(channels))], [x])
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = library.core().compile_model(model, "CPU", settings)
    made = compiled([np.ones((2, 3, 4), np.float32)])[0]
    return not np.array_equal(made, np.broadcast_to(4 + channels, (2, 3)))
