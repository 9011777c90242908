"""The names and numbers of oneDNN's C interface, as its headers of version 3.2 give them.

Source: ``dnnl_common_types.h`` and ``dnnl_graph_types.h``. Later versions of the same major number
append to these lists and change nothing in them.
"""

import ctypes
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from subgraphkit.types import DataType

MAX_RANK: Final = 12
CPU: Final = 1
IN_ORDER: Final = 1
FUSION: Final = 1
LAYOUT_ANY: Final = 1
LAYOUT_STRIDED: Final = 2
PROPERTY_VARIABLE: Final = 1
PROPERTY_CONSTANT: Final = 2

STATUSES: Final = (
    *("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached"),
    *("runtime_error", "not_required", "invalid_graph", "invalid_graph_op", "invalid_shape"),
    "invalid_data_type",
)
"""Names of ``dnnl_status_t``, by number."""

DATA_TYPES: Final[Mapping[DataType, int]] = {DataType.BFLOAT16: 2, DataType.FLOAT: 3}
"""``dnnl_data_type_t`` of the element types used here."""

_OPERATION_NAMES: Final = """
abs abs_backward add avg_pool avg_pool_backward batch_norm_backward batch_norm_forward_training
batch_norm_inference bias_add bias_add_backward clamp clamp_backward concat convolution
convolution_backward_data convolution_backward_weights conv_transpose conv_transpose_backward_data
conv_transpose_backward_weights dequantize divide dynamic_dequantize dynamic_quantize elu
elu_backward end exp gelu gelu_backward hard_swish hard_swish_backward interpolate
interpolate_backward layer_norm layer_norm_backward leaky_relu log log_softmax
log_softmax_backward matmul maximum max_pool max_pool_backward minimum mish mish_backward multiply
prelu prelu_backward quantize reciprocal reduce_l1 reduce_l2 reduce_max reduce_mean reduce_min
reduce_prod reduce_sum relu relu_backward reorder round sigmoid sigmoid_backward softmax
softmax_backward softplus softplus_backward sqrt sqrt_backward square squared_difference
static_reshape static_transpose subtract tanh tanh_backward type_cast wildcard hard_sigmoid
hard_sigmoid_backward select pow
"""

OPERATIONS: Final[Mapping[str, int]] = {
    name: number for number, name in enumerate(_OPERATION_NAMES.split())
}
"""``dnnl_graph_op_kind_t`` by name."""

_ATTRIBUTE_NAMES: Final = """
f32 0x01 alpha beta epsilon max min momentum
f32s 0x20 scales
s64 0x30 axis begin_norm_axis groups
s64s 0x40 axes dilations dst_shape kernel order output_padding pads_begin pads_end shape sizes
s64s 0x4a src_shape strides weights_shape zps
bool 0x60 exclude_pad keep_dims keep_stats per_channel_broadcast special_zero transpose_a
bool 0x66 transpose_b use_affine use_dst
str 0x80 auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype
str 0x86 rounding_type weights_format
"""

ATTRIBUTES: Final[Mapping[str, tuple[int, str]]] = {
    name: (int(first, 16) + place, kind)
    for kind, first, *names in map(str.split, _ATTRIBUTE_NAMES.strip().splitlines())
    for place, name in enumerate(names)
}
"""``dnnl_graph_op_attr_t`` by name, with the kind of its value."""

_Dims = ctypes.c_int64 * MAX_RANK


class _Layout(ctypes.Union):
    """Strides in elements, or the number of an opaque layout."""

    _fields_: ClassVar[Any] = (("strides", _Dims), ("layout_id", ctypes.c_size_t))


class LogicalTensor(ctypes.Structure):
    """``dnnl_graph_logical_tensor_t``."""

    _fields_: ClassVar[Any] = (
        ("id", ctypes.c_size_t),
        ("ndims", ctypes.c_int),
        ("dims", _Dims),
        ("data_type", ctypes.c_int),
        ("property", ctypes.c_int),
        ("layout_type", ctypes.c_int),
        ("layout", _Layout),
    )


class InplacePair(ctypes.Structure):
    """``dnnl_graph_inplace_pair_t``: an input whose memory an output may take over."""

    _fields_: ClassVar[Any] = (("input_id", ctypes.c_size_t), ("output_id", ctypes.c_size_t))


class Version(ctypes.Structure):
    """``dnnl_version_t``."""

    _fields_: ClassVar[Any] = (
        *((name, ctypes.c_int) for name in ("major", "minor", "patch")),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )
