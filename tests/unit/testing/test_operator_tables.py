"""The tables of operators: each attribute that ONNX defines, some line states other than usual."""

from collections import defaultdict
from itertools import chain

import pytest
from onnx import defs, helper

from subgraphkit.testing.operator_variants import FAMILIES, USUAL_OPSET, operations

NOT_HERE = {
    "kernel_shape": "says what the weights say",
    "saturate": "is about element types that NumPy has not",
    "precision": "is about element types that NumPy has not",
    "output_dtype": "says what the zero point says",
    "stash_type": "makes no difference that ONNX states",
    "softmax_precision": "makes no difference that ONNX states",
    "sorted": "leaves the order open",
    "seed": "draws",
    "training_mode": "is no inference",
    "momentum": "is no inference",
    "activation_alpha": "onnx.reference ignores it",
    "activation_beta": "onnx.reference ignores it",
    "input_forget": "onnx.reference ignores it",
    "storage_order": "onnx.reference ignores it",
}
NOT_THERE = {
    *("ConvInteger auto_pad", "QLinearConv auto_pad", "QLinearConv dilations", "GRU clip"),
    *("GRU activations", "LSTM clip", "LSTM activations", "LSTM layout", "RNN layout"),
    *("MeanVarianceNormalization axes", "RoiAlign mode"),
}
"""What ``onnx.reference`` computes otherwise than ONNX has it, and other operators show."""


@pytest.fixture(scope="module")
def stated():
    """Return the values of attributes that lines state, by operator."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in chain.from_iterable(map(operations, FAMILIES)):
        for node in line.nodes:
            attributes = found[node.op_type]
            for one in node.attribute:
                attributes[one.name].add(str(helper.get_attribute_value(one)))
    return found


def test_each_attribute_of_an_operator_is_other_than_by_default_in_some_line(stated):
    missing = set()
    for operator, attributes in stated.items():
        latest = USUAL_OPSET + 2  # that of attention
        for name, one in defs.get_schema(operator, latest).attributes.items():
            default = one.default_value
            usual = {str(helper.get_attribute_value(default))} if default.name else set()
            if name not in NOT_HERE and not attributes[name] - usual:
                missing.add(f"{operator} {name}")
    assert missing == NOT_THERE
    assert len(stated) > 130
