"""Steps and zero points, so that OpenVINO rounds as ONNX says."""

from typing import Any, Final

import numpy as np

from subgraphkit_openvino import walks

_LEVELS: Final = 256
_COMPARISONS: Final = {"Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "Sign"}
_PRODUCTS: Final = {"Convolution", "ConvolutionBackpropData", "GroupConvolution", "MatMul"}


@walks.each("FakeQuantize")
def round_before_limits(op: Any, ops: Any) -> None:
    """Round what is quantised by its step; an ``openvino.Model`` is changed in place.

    OpenVINO rounds the distance from the lower limit. A number halfway between two steps is then no
    longer halfway, or goes to the other step. Kernels of eight bits stay what they are.
    """
    if (step := _step(op)) is not None:
        scale = ops.constant(step)
        parts = ops.divide(op.input_value(0), scale)
        # else times what 1 / scale rounds to
        parts.get_rt_info()["nonconvertable_divide_0"] = True
        steps = ops.round(parts, "half_to_even")
        op.input(0).replace_source_output(ops.multiply(steps, scale).output(0))


def _step(op: Any) -> Any:
    """Return the size of a step; None where it is not known."""
    ends = [op.input_value(place).get_node() for place in range(1, 5)]
    stored = all(one.get_type_name() == "Constant" for one in ends)
    if not stored or op.get_attributes()["levels"] != _LEVELS:
        return None
    low, high, first, last = (np.float64(one.get_data(dtype=np.float32)) for one in ends)
    if not (last - first == _LEVELS - 1).all():
        return None
    near = ((high - low) / (_LEVELS - 1)).astype(np.float32)
    below = (first - np.rint(first - low / near)).astype(np.float32)
    around = (near, *(np.nextafter(near, np.float32(end)) for end in (0, np.inf)))
    steps = (one for one in around if (below * one == low).all())
    return next((one for one in steps if ((below + _LEVELS - 1) * one == high).all()), near)


@walks.each("Divide")
def quantise_by_step(op: Any, ops: Any) -> None:
    """Divide by the step that is handed out, not by the range, so that halves stay halves."""
    times, span = (op.input_value(place).get_node() for place in range(2))
    levels = times.input_value(1).get_node() if times.get_type_name() == "Multiply" else times
    is_stored = {one.get_node().get_type_name() for one in levels.input_values()} == {"Constant"}
    steps = [one for one in walks.readers(span) if one.get_type_name() == "Divide"]
    if levels.get_type_name() != "Subtract" or not is_stored or len(steps[1:]) != 1:
        return
    step = steps[steps[0].get_friendly_name() == op.get_friendly_name()]
    is_none, count = ops.equal(span, ops.constant(np.float32(0))), step.input_value(1)
    step.input(0).replace_source_output(ops.select(is_none, count, span).output(0))
    op.output(0).replace(ops.divide(times.input_value(0), step.output(0)).output(0))
    for one in (step, *walks.readers(step)):
        # else times what 1 / step rounds to
        one.get_rt_info()["nonconvertable_divide_0"] = True


@walks.each("Subtract")
def subtract_whole_numbers(op: Any, ops: Any) -> None:
    """Take zero points from whole numbers; beside a product, for what is compared alone.

    OpenVINO multiplies both by the scale first, so that the last digit is another, and nothing is
    less than 0. The greater of a number and nothing keeps it from joining the scale with what is
    added behind.
    """
    wide, scaled = [op.input_value(place).get_node() for place in range(2)], walks.readers(op)
    read = {one.get_type_name() for multiplied in scaled for one in walks.readers(multiplied)}
    if (
        {one.get_type_name() for one in wide} != {"Convert"}
        or {one.get_type_name() for one in scaled} != {"Multiply"}
        or not all(one.get_input_element_type(0).is_integral() for one in wide)
        or wide[0].input_value(0).get_node().get_type_name() == "Constant"
    ):
        return
    kind = op.get_output_element_type(0)
    less = ops.subtract(*(ops.convert(one.input_value(0), "i32") for one in wide))
    less, is_multiplied = ops.convert(less, kind), not read.isdisjoint(_PRODUCTS)
    if not is_multiplied:
        op.output(0).replace(less.output(0))
    for one in scaled:
        is_first = one.input_value(0).get_node().get_friendly_name() == op.get_friendly_name()
        exact = ops.multiply(less, one.input_value(int(is_first))) if is_multiplied else one
        for end in one.output(0).get_target_inputs():
            if not is_multiplied or end.get_node().get_type_name() in _COMPARISONS:
                low = ops.convert(ops.constant(np.float32(-np.inf)), kind)
                end.replace_source_output(ops.maximum(exact.output(0), low).output(0))
