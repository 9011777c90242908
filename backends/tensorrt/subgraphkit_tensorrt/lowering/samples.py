"""Samples on which converters are checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.types import DataType

__all__ = ["Sample", "sample_model", "sample_of_schema"]

_SHAPE = (2, 3, 4)


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an operator.

    Attributes:
        inputs: An array per input; None for one that is left out.
        attributes: Attributes by name.
        expected: The right outputs; None has ``onnx.reference`` compute them.
        constant: Places of inputs that are constants of the model.
        outputs: How many outputs the node has, if ``expected`` does not say.
    """

    inputs: Sequence[npt.NDArray[Any] | None]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    expected: Sequence[npt.NDArray[Any]] | None = None
    constant: Sequence[int] = ()
    outputs: int = 1


def sample_of_schema(op_type: str, opset: int) -> Sample | None:
    """Return a float32 call of an operator of ONNX without attributes, if its schema allows one."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None
    needed = list(schema.inputs)[: max(1, schema.min_input)]
    allowed = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
    if any(attribute.required for attribute in schema.attributes.values()):
        return None
    if not all("tensor(float)" in allowed.get(one.type_str, {one.type_str}) for one in needed):
        return None
    numbers = np.random.default_rng(0)
    arrays = [numbers.normal(size=_SHAPE).astype(np.float32) for _ in needed]
    return Sample(arrays, outputs=schema.min_output)


def sample_model(op_type: str, domain: str, opset: int, sample: Sample) -> onnx.ModelProto:
    """Return a sample as a model of one node; outputs have types if they are expected.

    Inputs are called ``x0``, ``x1`` and so on, outputs ``y0``, ``y1``.
    """
    given = {f"x{place}": array for place, array in enumerate(sample.inputs) if array is not None}
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(sample.inputs)]
    count = sample.outputs if sample.expected is None else len(sample.expected)
    outputs = [f"y{place}" for place in range(count)]
    node = helper.make_node(
        op_type, names, outputs, name="sample", domain=domain, **dict(sample.attributes)
    )
    typed = sample.expected if sample.expected is not None else [None] * count
    fixed = {f"x{place}" for place in sample.constant}
    graph = helper.make_graph(
        [node],
        "sample",
        [_info(name, array) for name, array in given.items() if name not in fixed],
        [_info(name, array) for name, array in zip(outputs, typed, strict=True)],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in given.items()
            if name in fixed
        ],
    )
    own = opset if not domain else onnx.defs.onnx_opset_version()
    imports = [helper.make_opsetid("", own)]
    imports += [helper.make_opsetid(domain, opset)] if domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _info(name: str, array: npt.NDArray[Any] | None) -> onnx.ValueInfoProto:
    if array is None:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, int(DataType.of(array.dtype)), list(array.shape))
