"""Rewrites of a model before it is compiled, where OpenVINO's own way is another than ONNX's."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit_openvino import library, quantising, reductions, walks
from subgraphkit_openvino.folding import compute_stored
from subgraphkit_openvino.kernels import QUICKER

_MASK: Final = 3
_IMAGES: Final = 4
_RISING: Final = {"Convolution", "GroupConvolution", "MaxPool", "Relu", "Result"}
_SUMS: Final = {"MatMul", "ReduceMean"}


@walks.each("Convert", "ConvertLike")
def drop_idle_conversions(op: Any, _: Any) -> None:
    """Leave out conversions to the type there is.

    Of a result's size OpenVINO keeps the last, and of its place: it writes to what was fed before.
    """
    if op.get_input_element_type(0) == op.get_output_element_type(0):
        op.output(0).replace(op.input_value(0))


@walks.each("GatherND", "ScatterElementsUpdate")
def keep_places_inside(op: Any, ops: Any) -> None:
    """Bound places by sizes, so that nothing beside the array is read or written.

    Indices out of range are an error in ONNX; of these, the nearest element is taken.
    """
    data, places, *_ = op.input_values()
    if places.get_node().get_type_name() == "Constant":
        return
    if op.get_type_name() == "GatherND":
        first = op.get_attributes()["batch_dims"]
        end = first + places.get_partial_shape()[-1].get_length()
    else:
        axis = int(op.input_value(3).get_node().get_data().reshape(-1)[0])
        first = axis % data.get_partial_shape().rank.get_length()
        end = first + 1
    shape = ops.shape_of(data, places.get_element_type().get_type_name())
    ends = (ops.constant(np.array([one], np.int64)) for one in (first, end, 1))
    sizes = ops.slice(shape, *ends)
    one = ops.constant(np.ones(1, np.int64), places.get_element_type())
    least = ops.maximum(places, ops.negative(sizes))
    op.input(1).replace_source_output(ops.minimum(least, ops.subtract(sizes, one)).output(0))


@walks.each("Range")
def end_where_it_begins(op: Any, ops: Any) -> None:
    """Let a Range to behind where it begins make nothing; OpenVINO (2026.4) goes on from there."""
    if len({port.get_element_type() for port in op.inputs()}) == 1:  # else the importer's own
        start, end, step = op.input_values()
        ends = ops.minimum(end, start), ops.maximum(end, start)
        falls = ops.less(step, ops.convert_like(ops.constant(0), step))
        op.input(1).replace_source_output(ops.select(falls, *ends).output(0))


@walks.each("GatherElements")
def cover_other_axes(op: Any, ops: Any) -> None:
    """Cut what GatherElements reads down to its indices, of which other axes may be shorter."""
    data, places = op.input_values()
    kind = data.get_element_type().get_type_name()
    if data.get_node().get_type_name() not in {"Constant", "Parameter"}:
        # or a Slice is left out, and ends are elsewhere
        data = (ops.logical_or if kind == "boolean" else ops.maximum)(data, data).output(0)
        op.input(0).replace_source_output(data)
    rank = places.get_partial_shape().rank.get_length()
    axis = op.get_attributes()["axis"] % max(rank, 1)
    others = [at for at in range(rank) if at != axis]
    sizes = [places.get_partial_shape()[at] for at in others]
    is_same = sizes == [data.get_partial_shape()[at] for at in others]
    if is_same and all(size.is_static for size in sizes):
        return
    shape, zero, one = ops.shape_of(places), ops.constant(0), ops.constant(1)
    for at in others:  # a Slice is taken out again, for both sides count as of one size
        size = ops.gather(shape, ops.constant(at), zero)
        data = ops.gather(data, ops.range(zero, size, one, "i64"), ops.constant(at))
    op.input(0).replace_source_output(data.output(0))


@walks.each("Tile")
def repeat_along_new_axes(op: Any, ops: Any) -> None:
    """Repeat what is known when running, as a spread along new axes; Tile reads elsewhere."""
    data, counts = op.input_values()
    if counts.get_node().get_type_name() == "Constant" and data.get_partial_shape().is_static:
        return
    rank = op.output(0).get_partial_shape().rank.get_length()
    ones, last = ops.constant(np.ones((rank, 1), np.int64)), ops.constant([-1])
    sizes = ops.unsqueeze(ops.shape_of(data), ops.constant(1))
    times = ops.unsqueeze(ops.convert(counts, "i64"), ops.constant(1))
    shaped = partial(ops.reshape, special_zero=False)
    pairs = [shaped(ops.concat([one, sizes], 1), last) for one in (ones, times)]
    apart, wide = (_with_one_empty(pair, 2 * rank) for pair in pairs)
    spread = ops.broadcast(shaped(data, apart), wide)
    op.output(0).replace(shaped(spread, shaped(ops.multiply(sizes, times), last)).output(0))


def _with_one_empty(shape: Any, rank: int) -> Any:
    """Return a shape of which one axis is empty at most; with two Broadcast ends the process."""
    ops = library.runtime().opset13
    one, others = ops.constant([1]), ops.constant(np.arange(rank).clip(max=1))
    some = ops.reduce_min(ops.minimum(shape, one), ops.constant([0]), keep_dims=True)
    return ops.multiply(ops.maximum(shape, one), ops.maximum(some, others))


@walks.each("Interpolate")
def align_corners_by_sizes(op: Any, ops: Any) -> None:
    """Resize to sizes where corners are aligned: OpenVINO puts points by scales, ONNX by sizes."""
    how = op.get_attributes()
    is_aligned = how["coordinate_transformation_mode"] == "align_corners"
    if not is_aligned or how["shape_calculation_mode"] != "scales":
        return
    data, scales, *axes = op.input_values()
    sizes = ops.convert(ops.shape_of(data), scales.get_element_type().get_type_name())
    if axes:
        sizes = ops.gather(sizes, axes[0], ops.constant(0))
    wide = ops.convert(ops.floor(ops.multiply(sizes, scales)), "i64")
    how |= {"shape_calculation_mode": "sizes"}
    op.output(0).replace(ops.interpolate(data, wide, **how, axes=(*axes, None)[0]).output(0))


def hold_apart(model: Any) -> None:
    """Put what changes nothing where OpenVINO (2026.4) would join others wrongly.

    Attention and a turn of as many heads as positions: it is left out. Parts of a value that are
    convolved and put together: they are taken in their order, and as many as there are. Products
    and means that are joined with more axes than they have: attention fails to compile, a norm
    loses the axes. What a stored value repeats: activations lose that. What is scaled by infinity:
    weights are, before they are added up. A sum behind a convolution of one channel: it is made
    alone. Logarithms of 1 and an exponential: they do not overflow.
    """
    for op in walks.operations(model):
        name, ends, shape = op.get_type_name(), op.inputs(), op.get_output_partial_shape(0)
        if name == "Concat":
            _part(walks.mixed_parts(op))
        elif name == "Transpose" and shape.is_static and shape == ends[0].get_partial_shape():
            is_of_heads = len(shape) == _IMAGES and shape[1] == shape[2]
            _part((ends[0], *op.output(0).get_target_inputs()) if is_of_heads else ())
        elif "auto_broadcast" in op.get_attributes():
            less = [end for end in ends if end.get_partial_shape().rank != shape.rank]
            _part(end for end in less if walks.follows(end.get_source_output(), _SUMS))
            grown = [it for it in ends if walks.grows(op, it)]
            _part((*grown, *op.output(0).get_target_inputs()) if grown else ())
            _part(it for it in ends if walks.is_scaled_away(op, it) or walks.joins_row(op, it))
        elif name == "Log" and {one.get_type_name() for one in walks.readers(op)} != {"Tanh"}:
            maker = ends[0].get_source_output().get_node()
            makers = [value.get_node().get_type_name() for value in maker.input_values()]
            _part(ends if maker.get_type_name() == "Add" and "Exp" in makers else ())


@walks.each("GRUSequence", "LSTMSequence", "RNNSequence")
def read_alone(op: Any, ops: Any) -> None:
    """Put a mean of each element before what a recurrent operation reads.

    If others read that as well, transposed or not, OpenVINO (2026.4) turns it for the last. What
    is computed with others at once has the shape of the first of them, and it fails to compile.
    """
    mean = ops.avg_pool(op.input_value(0), [1], [0], [0], [1], exclude_pad=True)
    op.input(0).replace_source_output(mean.output(0))


@walks.each("Split")
def split_by_lengths(op: Any, ops: Any) -> None:
    """State the lengths where a split makes parts of length 1 that are squeezed.

    If such parts are joined again, OpenVINO (2026.4) fails for open sizes. Along a negative axis it
    ends the process.
    """
    axis = int(op.input_value(1).get_node().get_data())
    is_single = op.get_output_partial_shape(0)[axis] == 1
    if is_single and "Squeeze" in {one.get_type_name() for one in walks.readers(op)}:
        parts = ops.variadic_split(op.input_value(0), axis, [1] * op.get_output_size())
        for old, new in zip(op.outputs(), parts.outputs(), strict=True):
            old.replace(new)


@walks.each("MaxPool")
def choose_first(op: Any, _: Any) -> None:
    """Keep what reads a MaxPool behind it.

    OpenVINO (2026.4) computes such a function of all, with the convolution before the pool. That is
    wrong but for functions that rise.
    """
    if not {one.get_type_name() for one in walks.readers(op)} <= _RISING:
        _part(op.inputs())


@walks.each("ScatterElementsUpdate", "ScatterNDUpdate")
def scatter_elsewhere(op: Any, _: Any) -> None:
    """Copy a value that others read before OpenVINO scatters into it, or it fails to compile."""
    _part(op.inputs()[:1] if len(op.input_value(0).get_target_inputs()) > 1 else ())


@walks.each("Abs")
def take_absolutes(op: Any, ops: Any) -> None:
    """Keep absolute values where they are.

    OpenVINO (2026.4) takes them of all parts of a vector, and other readers of the vector get them
    too. It leaves them out for whole numbers if it infers, wrongly, that those are 0 or more.
    """
    if op.get_output_element_type(0).is_real():
        _part(op.inputs() if op.get_output_partial_shape(0).rank == 1 else ())
    elif op.get_output_element_type(0).is_signed():
        value = op.input_value(0)
        op.output(0).replace(ops.maximum(value, ops.negative(value)).output(0))


def _part(ends: Iterable[Any]) -> None:
    for end in ends:
        ops, value = library.runtime().opset13, end.get_source_output()
        if value.get_element_type().is_real():
            slope = ops.constant(np.ones(1), value.get_element_type())
            end.replace_source_output(ops.prelu(value, slope).output(0))


@walks.each("ScaledDotProductAttention", "Softmax")
def mask_attention(op: Any, ops: Any) -> None:
    """Give attention without a mask one that hides nothing, where the number of keys is open.

    Without, OpenVINO (2026.4) computes it wrong once a run had one key and the next has eight.
    That the mask is 0 is not to be known before running, or it is left out again.
    """
    scores, is_whole = op.input_value(0), op.get_type_name() != "Softmax"
    if is_whole:
        is_bare = op.get_input_size() > _MASK and op.get_input_partial_shape(_MASK).rank == 0
        is_bare = is_bare and op.get_input_partial_shape(1)[-2].is_dynamic
    else:
        made = scores.get_node().get_type_name() in {"Convert", "Divide", "MatMul", "Multiply"}
        shape = scores.get_partial_shape()
        is_bare = made and shape.rank.is_static and len(shape) > 1 and shape[-1].is_dynamic
    if is_bare:
        none = reductions.nothing_known(op.input_value(int(is_whole)), [[-1 - is_whole]], ops)
        place, mask = (_MASK, none) if is_whole else (0, ops.add(scores, none))
        op.input(place).replace_source_output(mask.output(0))


@walks.each("SoftPlus")
def keep_above_nothing(op: Any, ops: Any) -> None:
    """Turn what OpenVINO's SoftPlus makes below 0, of which NaN may come; Tanh is joined to it."""
    if {it.get_type_name() for it in walks.readers(op)} != {"Tanh"}:
        ends = op.output(0).get_target_inputs()
        above = ops.absolute(op).output(0)
        for end in ends:
            end.replace_source_output(above)


@walks.each("Add", "PRelu", "Subtract")
def spread_channels(op: Any, ops: Any) -> None:
    """Spread constants of channels along the last axis behind products of rank 4 and above.

    Joined with the product, OpenVINO (2026.4) takes them for constants of the last axis.
    """
    shape = op.get_output_partial_shape(0)
    if shape.rank.is_dynamic or len(shape) < _IMAGES or shape[-1].is_dynamic:
        return
    for place, value in enumerate(op.input_values()):
        stored, before = value.get_node(), 1 - len(shape)
        sizes = [*stored.shape] if stored.get_type_name() == "Constant" else []
        is_of_channels = len(sizes) >= -before and sizes[before] > sizes[-1] == 1
        if is_of_channels and walks.follows(op.input_value(1 - place), _SUMS):
            wide = ops.constant([*sizes[:-1], shape[-1].get_length()])
            op.input(place).replace_source_output(ops.broadcast(value, wide).output(0))


@walks.each("Multiply")
def stretch_slopes(op: Any, ops: Any) -> None:
    """Give a vector all axes that scales what Relu or Abs makes: in a PRelu it is of channels."""
    (one, two), rank = op.input_values(), op.get_output_partial_shape(0).rank
    for place, (value, other) in enumerate(((one, two), (two, one))):
        made = {it.get_node().get_type_name() for it in (other, *other.get_node().input_values())}
        is_stored = value.get_node().get_type_name() == "Constant" and rank.is_static
        if is_stored and len(value.get_shape()) == 1 and made & {"Abs", "Relu"}:
            sizes = ops.constant([1] * (rank.get_length() - 1) + [-1])
            wide = ops.reshape(value, sizes, special_zero=False)
            op.input(place).replace_source_output(wide.output(0))


@walks.each("MatMul")
def multiply_matrices(op: Any, ops: Any) -> None:
    """Multiply by what is stored of one element as such, and give vectors a second axis.

    OpenVINO (2026.4) fails to join two such products in one thread, and what is behind vectors.
    """
    values, turned = op.input_values(), [op.get_attributes()[f"transpose_{at}"] for at in "ab"]
    stored = [one.get_node().get_type_name() == "Constant" for one in values]
    scales = (of and {*one.get_shape()} == {1} for of, one in zip(stored, values, strict=True))
    is_scaled = any(one and not turn for one, turn in zip(scales, turned[::-1], strict=True))
    places = [at for at, value in enumerate(values) if value.get_partial_shape().rank == 1]
    for at in places:
        values[at] = ops.unsqueeze(values[at], ops.constant([at])).output(0)
    if is_scaled or places:
        made = ops.multiply(*values) if is_scaled else ops.matmul(*values, *turned)
        axes = ops.constant([at - len(values) for at in places])
        op.output(0).replace((ops.squeeze(made, axes) if places else made).output(0))


@walks.each("Broadcast")
def spread_by_ones(op: Any, ops: Any) -> None:
    """Multiply by spread ones instead of spreading; OpenVINO (2026.4) states a wrong size."""
    if op.get_input_partial_shape(0).is_dynamic and op.get_attributes()["mode"] == "bidirectional":
        (value, sizes), kind = op.input_values(), op.get_output_element_type(0)
        join = ops.logical_and if kind.get_type_name() == "boolean" else ops.multiply
        ones = ops.broadcast(ops.constant(1, kind), sizes)
        op.output(0).replace(join(value, ones).output(0))


def hand_out_branches(model: Any) -> None:
    """Make what branches make an output too, at the end of all, if its size is open.

    OpenVINO (2026.4) makes room for what comes later while that is not read yet, in its place.
    """
    result = library.runtime().opset13.result
    made = [out for op in model.get_ops() if op.get_type_name() == "If" for out in op.outputs()]
    model.add_results([result(out) for out in made if out.get_partial_shape().is_dynamic])


REWRITES: Final[Sequence[Callable[[Any], None]]] = (
    quantising.quantise_by_step, reductions.widen_reductions, drop_idle_conversions,
    split_by_lengths, quantising.round_before_limits, quantising.subtract_whole_numbers,
    keep_places_inside, end_where_it_begins, cover_other_axes, repeat_along_new_axes,
    align_corners_by_sizes, stretch_slopes, multiply_matrices, hold_apart,
    read_alone, choose_first, reductions.order_by_place, take_absolutes, mask_attention,
    spread_channels, reductions.join_no_open_axis, spread_by_ones, keep_above_nothing,
    compute_stored, scatter_elsewhere, *QUICKER, hand_out_branches,
)  # fmt: skip
"""Every rewrite, in order; each changes an ``openvino.Model`` in place."""
