"""What the rules of the operator table mean: one small predicate for each kind of rule.

A predicate looks at one node and says what is wrong with it, or nothing. It gets the rule, whose
keys are those of the table, and the surroundings. Where the documentation is known to be stricter
than some parsers, a rule is *soft*: it is left to the parser, if there is one to ask.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit_tensorrt.rules.predicates.asking import Predicate, Rule, Surroundings
from subgraphkit_tensorrt.rules.predicates.attributes import (
    attr_absent,
    attr_absent_or_default,
    attr_all_eq,
    attr_dtype_in,
    attr_eq,
    attr_in,
    attr_regex,
    attrs_differ,
    bidirectional_same_activations,
    ceil_mode_last_window_not_in_padding,
    exactly_one_of,
    pads_non_negative,
    pads_symmetric,
    window_within_input,
)
from subgraphkit_tensorrt.rules.predicates.bodies import (
    branch_output_names_differ,
    branch_outputs_same_rank,
    loop_carried_shape_invariant,
    not_inside,
    scan_output_length_static,
)
from subgraphkit_tensorrt.rules.predicates.inputs import (
    const_all_positive,
    const_all_zero,
    const_lt,
    implies,
    input_absent,
    input_const,
    input_const_value,
    input_dtype_in,
    input_dtype_not_in,
    input_dtypes_equal,
    not_both,
    output_dtype_in,
    output_unused,
)
from subgraphkit_tensorrt.rules.predicates.shapes import (
    axes_iota_if_scales_dynamic,
    axes_required_if_dynamic,
    dim_static,
    input_last_dim_eq,
    input_rank_in,
    input_rank_max,
    input_rank_min,
    input_shape_static,
    input_shapes_equal,
    input_spatial_rank_in,
    linear_max_resized_dims,
    no_1d_with_rank_ge_3,
)

__all__ = ["PREDICATES", "Predicate", "Rule", "Surroundings"]

PREDICATES: Final[Mapping[str, Predicate]] = MappingProxyType(
    {
        "attr_absent": attr_absent,
        "attr_absent_or_default": attr_absent_or_default,
        "attr_all_eq": attr_all_eq,
        "attr_dtype_in": attr_dtype_in,
        "attr_eq": attr_eq,
        "attr_in": attr_in,
        "attr_regex": attr_regex,
        "attrs_differ": attrs_differ,
        "axes_iota_if_scales_dynamic": axes_iota_if_scales_dynamic,
        "axes_required_if_dynamic": axes_required_if_dynamic,
        "bidirectional_same_activations": bidirectional_same_activations,
        "branch_output_names_differ": branch_output_names_differ,
        "branch_outputs_same_rank": branch_outputs_same_rank,
        "ceil_mode_last_window_not_in_padding": ceil_mode_last_window_not_in_padding,
        "const_all_positive": const_all_positive,
        "const_all_zero": const_all_zero,
        "const_lt": const_lt,
        "dim_static": dim_static,
        "exactly_one_of": exactly_one_of,
        "implies": implies,
        "input_absent": input_absent,
        "input_const": input_const,
        "input_const_value": input_const_value,
        "input_dtype_in": input_dtype_in,
        "input_dtype_not_in": input_dtype_not_in,
        "input_dtypes_equal": input_dtypes_equal,
        "input_last_dim_eq": input_last_dim_eq,
        "input_rank_in": input_rank_in,
        "input_rank_max": input_rank_max,
        "input_rank_min": input_rank_min,
        "input_shape_static": input_shape_static,
        "input_shapes_equal": input_shapes_equal,
        "input_spatial_rank_in": input_spatial_rank_in,
        "linear_max_resized_dims": linear_max_resized_dims,
        "loop_carried_shape_invariant": loop_carried_shape_invariant,
        "no_1d_with_rank_ge_3": no_1d_with_rank_ge_3,
        "not_both": not_both,
        "not_inside": not_inside,
        "output_dtype_in": output_dtype_in,
        "output_unused": output_unused,
        "pads_non_negative": pads_non_negative,
        "pads_symmetric": pads_symmetric,
        "scan_output_length_static": scan_output_length_static,
        "window_within_input": window_within_input,
    }
)
"""By the kind of the rule."""
