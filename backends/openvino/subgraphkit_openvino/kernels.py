"""Rewrites of a model that let OpenVINO compute the same with quicker kernels.

What they gain was measured with OpenVINO 2026.4: with AVX-512, and with AVX2 alone.
"""

from functools import partial
from math import gcd, prod
from typing import Any, Final

import numpy as np

from subgraphkit_openvino import walks

_KEEPING: Final = frozenset(
    {"Clamp", "Elu", "Gelu", "HSigmoid", "HSwish", "Interpolate", "Mish", "PRelu", "Relu"}
    | {"Sigmoid", "Swish"}
)
"""Operations that leave the order of axes in memory as it is."""

_TURNED: Final = range(16, 65)
"""Channels that OpenVINO brings from the last axis to the second by a loop of its own."""

_PERIOD: Final = 1 << 10
"""Elements after which places share a set of the first cache."""
_CROWD: Final = 1 << 14
"""Places times period from which on that loop takes 3 to 12 times as long as two transpositions."""


@walks.each("Selu")
def compute_selu_by_elu(op: Any, ops: Any) -> None:
    """Scale what Elu returns: it has a compiled kernel, Selu the one of reference."""
    value, alpha, scale = op.input_values()
    grown = ops.elu(value, float(alpha.get_node().get_data(dtype=np.float32)))
    op.output(0).replace(ops.multiply(grown, scale).output(0))


@walks.each("ConvolutionBackpropData")
def widen_rows(op: Any, ops: Any) -> None:
    """Write a transposed convolution along one axis as one along two, the first of size 1.

    Along one axis OpenVINO multiplies matrices and adds up, which takes 2 to 6 times as long.
    """
    if op.get_input_size() > 2 or len(op.get_input_partial_shape(0)) > 3:  # noqa: PLR2004 (a size is given, or there are rows)
        return
    how, axis = op.get_attributes(), ops.constant([2])
    wide = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1, "output_padding": 0}
    how |= {key: [value, *how[key]] for key, value in wide.items()}
    pictures = (ops.unsqueeze(value, axis) for value in op.input_values())
    made = ops.convolution_backprop_data(*pictures, **how)
    op.output(0).replace(ops.squeeze(made, axis).output(0))


@walks.each("Reshape", "Result", "Softmax", "Squeeze")
def turn_channels(op: Any, ops: Any) -> None:
    """Transpose twice where channels of a convolution must come first.

    OpenVINO's own loop for that is slow where channels lie a multiple of its cache apart.
    """
    shaped = partial(ops.reshape, special_zero=False)
    value = op.input_value(0)
    shape = value.get_partial_shape()
    if shape.is_dynamic or len(shape) < 4 or not walks.follows(value, ("Convolution",), _KEEPING):  # noqa: PLR2004 (of rows, both transpositions would be left out)
        return
    batch, channels, *space = shape.to_shape()
    is_slow = channels in _TURNED and channels * gcd(prod(space), _PERIOD) >= _CROWD
    if is_slow and space[-1] > 1:  # of one column, OpenVINO mixes elements up
        last = ops.transpose(value, ops.constant([0, *range(2, len(shape)), 1]))
        rows = shaped(last, ops.constant([batch, prod(space), channels]))
        turned = ops.transpose(rows, ops.constant([0, 2, 1]))
        first = shaped(turned, ops.constant([*shape.to_shape()]))
        op.input(0).replace_source_output(first.output(0))


QUICKER: Final = (compute_selu_by_elu, widen_rows, turn_channels)
"""Every one of them, in order; each changes an ``openvino.Model`` in place."""
