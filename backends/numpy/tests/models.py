"""Small models for the tests of this backend."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models import parsed

__all__ = ["node_model", "parsed"]


def node_model(  # noqa: PLR0913 (what nodes differ in)
    op_type: str,
    inputs: list[Any],
    output_types: Sequence[np.dtype[Any] | None],
    *,
    opset: int = 21,
    constants: tuple[int, ...] = (),
    typed: bool = True,
    clashing: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """Make a model of one node.

    ``inputs``: Arrays that tell the types; None for an input left out.
    ``output_types``: Element types of the outputs; None for an output left out.
    """
    names = ["" if value is None else f"x{place}" for place, value in enumerate(inputs)]
    results = ["" if one is None else f"y{place}" for place, one in enumerate(output_types)]
    fed = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            value.shape if typed else [None] * value.ndim,
        )
        for place, (name, value) in enumerate(zip(names, inputs, strict=True))
        if value is not None and place not in constants
    ]
    stored = [numpy_helper.from_array(inputs[place], names[place]) for place in constants]
    made = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), None)
        for name, dtype in zip(results, output_types, strict=True)
        if dtype is not None
    ]
    node = helper.make_node(op_type, names, results, **attributes, **(clashing or {}))
    graph = helper.make_graph([node], op_type, fed, made, stored)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
