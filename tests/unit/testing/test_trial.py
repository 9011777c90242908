"""A small model down the road, to see whether a backend is alive and right."""

import numpy as np
import pytest

from subgraphkit.testing import try_backend
from subgraphkit.testing.probe_models import all_probe_models
from tests.fakes import ReferenceOperator, backend_of, changing, claiming
from tests.unit.testing import choosy_backends


class _Coarse(ReferenceOperator):
    """Computes as half precision does."""

    def run(self, inputs, outputs=None):
        halves = [np.asarray(one, np.float16).astype(np.float32) for one in inputs]
        return [np.asarray(y, np.float16).astype(np.float32) for y in super().run(halves)]


def _fails(subgraph):
    raise ValueError("out of luck")


COMMON = ("Relu", "Add", "Mul", "MatMul", "Softmax", "Conv", "Gemm")


@pytest.mark.parametrize("operators", COMMON)
def test_a_backend_is_tried_on_what_it_takes(operators):
    tried: list[str] = []
    trial = try_backend(claiming([operators]), tried.append)
    assert (trial.state, trial.operators, trial.text) == ("ok", operators, "")
    assert tried == list(COMMON[: COMMON.index(operators) + 1])


@pytest.mark.parametrize(("backend", "operators"), [
    (choosy_backends.WholeRuns, "Conv-BatchNormalization-Relu"),
    (choosy_backends.HalfOnly, "Add float16"),
    (choosy_backends.QuantizedOnly, "QLinearConv"),
], ids=lambda one: getattr(one, "__name__", one))  # fmt: skip
def test_a_choosy_backend_is_tried_on_what_it_takes(backend, operators):
    trial = try_backend(backend)
    assert (trial.state, trial.operators, trial.text) == ("ok", operators, "")


def test_taking_nothing_is_a_finding():
    trial = try_backend(backend_of([]))
    assert (trial.state, trial.code) == ("idle", "")
    assert trial.text.startswith("takes none of Relu, Add, Mul, MatMul")
    assert trial.text.endswith(
        f"nor of {len(all_probe_models()) - 8} more, in any type, rank or size"
    )


def test_wrong_results_are_a_finding():
    make = changing(lambda one: one * np.float32(1.5))
    trial = try_backend(claiming(["Add"], "shaky", make=make))
    assert (trial.state, trial.operators, trial.code) == ("wrong", "Add", "SGK322")
    assert "backend 'shaky' computes Add wrongly" in trial.text


def test_reduced_precision_is_not_wrong():
    assert try_backend(claiming(["MatMul"], make=_Coarse)).state == "ok"


def test_a_failure_to_compile_is_a_finding_with_its_cause():
    trial = try_backend(claiming(["Relu"], make=_fails))
    assert (trial.state, trial.code) == ("error", "SGK130")
    assert "ValueError: out of luck" in trial.trace
