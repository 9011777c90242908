"""The forms of a case: between foreign nodes everything crosses; folded, only the first input."""

import numpy as np
import onnx
import pytest

from subgraphkit.testing import Subject
from subgraphkit.testing.foreign import ForeignBackend, beside_foreign, is_own
from subgraphkit.testing.official_cases import official_cases
from subgraphkit.testing.variants import fold_inputs, sandwich
from tests.models import parsed

NUMPY = Subject("numpy")


def official(name, kind="node"):
    """Return an official case by name."""
    return next(case for case in official_cases(kind) if case.name == name)


def divided(model):
    """Return backend, inputs and outputs of every subgraph of a sandwich."""
    partitioning = NUMPY.partition(NUMPY.bind(model, **beside_foreign(NUMPY.choice)))
    return [(s.backend, s.inputs, s.outputs) for s in partitioning.subgraphs]


@pytest.mark.parametrize("name", [
    "test_conv_with_strides_padding",
    "test_split_equal_parts_1d_opset18",
    "test_sequence_insert_at_back",
    "test_optional_has_element_tensor_input",
    "test_if_seq",
    "test_string_concat",
    "test_cast_FLOAT_to_FLOAT8E4M3FN",
    "test_ai_onnx_ml_array_feature_extractor",
])  # fmt: skip
def test_every_input_and_output_of_a_sandwich_crosses_a_boundary(name):
    case = official(name)
    before, own, behind = divided(sandwich(case.model))
    inputs = {value.name for value in case.model.graph.input}
    outputs = {value.name for value in case.model.graph.output}
    assert (before[0], own[0], behind[0]) == ("foreign", "numpy", "foreign")
    assert set(own[1]) == set(before[2]) == inputs
    assert set(own[2]) == set(behind[1]) == outputs
    assert not (set(before[1]) | set(behind[2])) & (inputs | outputs)


def test_what_a_foreign_node_hands_over_is_read_only_and_not_contiguous():
    text = "g (float[2, 3] x) => (float[2, 3] y) { h = subgraphkit.testing.Carry(x) y = Relu(h) }"
    model = parsed(text, imports='"subgraphkit.testing": 1')
    partitioning = NUMPY.partition(NUMPY.bind(model, **beside_foreign(NUMPY.choice)))
    foreign = partitioning.subgraphs[0]
    claim = partitioning.claim_of(foreign)
    operator = claim.property.create_operator(foreign, claim.context)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (carried,) = operator.run([x])
    np.testing.assert_array_equal(carried, x)
    assert not carried.flags.writeable
    assert not carried.flags.contiguous
    assert not np.shares_memory(carried, x)


def test_the_foreign_backend_takes_nothing_but_its_own_nodes():
    (property_,) = ForeignBackend().properties()
    bound = NUMPY.bind(sandwich(official("test_add").model))
    selector = property_.create_selector(bound)
    assert [bool(selector.select(node)) for node in bound.nodes] == [
        not is_own(node) for node in bound.nodes
    ]


def test_folding_turns_all_inputs_but_the_first_into_initializers():
    case = official("test_conv_with_strides_padding")
    ((inputs, _),) = case.data_sets()
    model, feeds = fold_inputs(case.model, case.feeds(inputs))
    onnx.checker.check_model(model)
    assert list(feeds) == ["x"] == [value.name for value in model.graph.input]
    assert [tensor.name for tensor in model.graph.initializer] == ["W"]
    assert len(case.model.graph.initializer) == 0
    bound = NUMPY.bind(model)
    (subgraph,) = NUMPY.partition(bound).subgraphs
    assert subgraph.inputs == ("x",)
    assert list(subgraph.constants) == ["W"]
