"""The official conformance suite of ONNX on the NumPy backend, every case counted."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

from backends.numpy.tests.numpy_road import compile_model
from backends.numpy.tests.onnx_cases import KINDS, Case, cases
from subgraphkit.backend import Unsupported

CASES = {case.id: case for kind in KINDS for case in cases(kind)}
NOT_COMPARED = {
    fields[0]: fields[1]
    for line in Path(__file__).with_name("not_compared.txt").read_text().splitlines()
    if not line.startswith("#") and (fields := [field.strip() for field in line.split("|")])
}
DRAWS = 400


def test_every_case_of_every_kind_is_here() -> None:
    counts = {kind: sum(case.kind == kind for case in CASES.values()) for kind in KINDS}
    if onnx.__version__.startswith("1.23."):
        assert counts == KINDS
    assert all(counts[kind] >= count for kind, count in KINDS.items())


def test_the_list_of_cases_not_compared_names_real_cases() -> None:
    assert NOT_COMPARED.keys() <= CASES.keys()
    assert set(NOT_COMPARED.values()) <= {"statistics", "refusal"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_COMPARED])
def test_onnx_case(name: str) -> None:
    with warnings.catch_warnings():
        # onnx's own implementations convert NaN to integers and use what NumPy has deprecated
        warnings.simplefilter("ignore")
        CASES[name].check()


@pytest.mark.parametrize("name", [n for n, how in NOT_COMPARED.items() if how == "refusal"])
def test_onnx_case_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match=r"Gradient.*no implementation"):
        compile_model(CASES[name].model)


@pytest.mark.parametrize("name", [n for n, how in NOT_COMPARED.items() if how == "statistics"])
def test_onnx_case_draws_with_the_right_statistics(name: str) -> None:
    case: Case = CASES[name]
    ((inputs, (expected,)),) = list(case.data_sets())
    (probabilities,) = inputs
    compiled = compile_model(case.model)
    draws = [compiled(probabilities)[0] for _ in range(DRAWS)]
    first = draws[0]
    assert (first.shape, first.dtype) == (expected.shape, expected.dtype)
    assert set(np.unique(draws).tolist()) <= {0, 1}
    if "seed" in name:
        assert all(np.array_equal(draw, first) for draw in draws)
        many = compile_model(_with_length(case.model, 4000))
        column = np.repeat(probabilities, 400)
        means = many(column)[0].reshape(10, 400).mean(axis=1)
    else:
        assert not all(np.array_equal(draw, first) for draw in draws)
        means = np.mean(draws, axis=0)
    if "expanded" in name:
        # the function body of Bernoulli compares the other way round
        means = 1 - means
    deviations = np.sqrt(probabilities * (1 - probabilities) / 400)
    assert np.all(np.abs(means - probabilities) <= 6 * deviations)


def _with_length(model: onnx.ModelProto, length: int) -> onnx.ModelProto:
    longer = onnx.ModelProto.FromString(model.SerializeToString())
    for value in (*longer.graph.input, *longer.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = length
    return longer
