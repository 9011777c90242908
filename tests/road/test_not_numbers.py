"""NaN on every library: what a backend declares to lose is what it loses, and is kept from it."""

import logging
from typing import Any, Final

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.partitioning.reports import shortfalls
from tests.house.tree import ROOT
from tests.models import parsed

_ALONE: Final = [
    "Abs", "Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal",
    "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus",
    "Softsign", "Sqrt", "Tanh", "ThresholdedRelu", "GlobalAveragePool", "GlobalMaxPool",
]  # fmt: skip
_REDUCING: Final = sorted(
    one.name for one in onnx.defs.get_all_schemas() if one.name.startswith("Reduce")
)
_OF_TWO: Final = ["Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum"]
_OTHERS: Final = {
    "Clip": "Clip(x, low, high)",
    "MaxPool": "MaxPool<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x)",
    "AveragePool": "AveragePool<kernel_shape=[3, 3]>(x)",
    "MatMul": "MatMul(x, square)",
    "LayerNormalization": "LayerNormalization(x, c)",
    "BatchNormalization": "BatchNormalization(x, two, two, two, two)",
    "CumSum": "CumSum(x, three)",
}
_CALLS: Final = (
    {op: f"{op}(x)" for op in _ALONE}
    | {op: f"{op}<keepdims=1>(x, axis)" for op in _REDUCING}
    | {op: f"{op}(x, c)" for op in _OF_TWO}
    | _OTHERS
)
_BACKENDS: Final = ("onnxruntime", "openvino", "onednn")


def _model(calls):
    """Return a model with an input and an output for each operator, so that none is fused."""
    inputs = ", ".join(f"float[1,2,9,8] x{place}" for place in range(len(calls)))
    outputs = ", ".join(f"float y{place}" for place in range(len(calls)))
    lines = " ".join(
        f"y{place} = {call.replace('(x', f'(x{place}')}"
        for place, call in enumerate(calls.values())
    )
    model = parsed(
        f"g ({inputs}) => ({outputs}) "
        "<float[8] c = {1, 2, 3, 1, 2, 3, 1, 2}, float[2] two = {1, 2}, float low = {-1}, "
        f"float high = {{1}}, int64[1] axis = {{3}}, int64 three = {{3}}> {{ {lines} }}",
        22,
        square=np.ones((8, 8), np.float32),
    )
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def _feeds():
    rng, found = np.random.default_rng(0), []
    for places in ([(0, 0)], [(8, 7)], [(4, 3)], [(3, at) for at in range(8)]):
        x = rng.uniform(-2, 2, (1, 2, 9, 8)).astype(np.float32)
        for place in places:
            x[0, 0][place] = np.nan
        found.append(x)
    return found


def _lost(backend, policy):
    """Return the operators behind which NaN is elsewhere than on the NumPy backend, and the claim.

    The second is what the backend declares.
    """
    model, lost = _model(_CALLS), set()
    settings: Any = {"on_fallback": "ok", "nan_policy": policy}
    names = [f"x{place}" for place in range(len(_CALLS))]
    with (
        sk.InferenceSession(model, "numpy") as numpy,
        sk.InferenceSession(model, f"{backend},numpy", **settings) as opened,
        np.errstate(all="ignore"),
    ):
        for x in _feeds():
            pairs = zip(
                _CALLS,
                numpy.run(None, dict.fromkeys(names, x)),
                opened.run(None, dict.fromkeys(names, x)),
                strict=True,
            )
            lost |= {op for op, w, g in pairs if not np.array_equal(np.isnan(w), np.isnan(g))}
        (claim,) = {one for one in opened.partitioning.passes.claims if one.backend.name == backend}
        return lost, claim.backend.traits.loses_nan


@pytest.mark.parametrize("backend", _BACKENDS)
def test_what_a_library_loses_is_declared_and_in_the_readme(backend):
    pytest.importorskip(f"subgraphkit_{backend}")
    lost, declared = _lost(backend, "ignore")
    assert lost <= declared
    page = (ROOT / "backends" / backend / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("NaN gets lost in: ")]
    assert line == f"NaN gets lost in: {', '.join(sorted(declared))}."


@pytest.mark.parametrize("backend", _BACKENDS)
def test_what_is_lost_is_run_elsewhere_where_nan_is_to_be_kept(backend):
    pytest.importorskip(f"subgraphkit_{backend}")
    lost, _ = _lost(backend, "propagate")
    assert lost == set()


def test_a_backend_that_loses_nan_is_reported_once_if_there_is_nan(monkeypatch, caplog):
    monkeypatch.setattr(shortfalls, "_reported", set())
    model = _model({"Relu": "Relu(x)", "Max": "Max(x, c)", "Tanh": "Tanh(x)"})
    fine = np.ones((1, 2, 9, 8), np.float32)
    runs = [(None, fine), *((one, fine * np.nan) for one in ("ignore", "propagate", None, "warn"))]
    with caplog.at_level(logging.WARNING, "subgraphkit"):
        for policy, fed in runs:
            with sk.InferenceSession(
                model, "onednn,numpy", nan_policy=policy, on_fallback="ok"
            ) as session:
                for _ in range(2):
                    session.run(None, {one.name: fed for one in session.get_inputs()})
    (message,) = caplog.messages
    assert message == (
        "there is NaN in this run, and onednn turns NaN into ordinary numbers in Max, Relu. "
        'nan_policy="propagate" runs such nodes elsewhere; nan_policy="ignore" accepts it.'
    )


def test_results_that_are_not_finite_are_an_error_where_that_is_asked_for():
    model = _model({"Relu": "Relu(x)", "Log": "Log(x)"})
    fine = np.ones((1, 2, 9, 8), np.float32)
    with sk.InferenceSession(model, "onednn,numpy", nan_policy="error", on_fallback="ok") as opened:
        assert opened.run(None, {"x0": fine, "x1": fine})[1].max() == 0
        with (
            np.errstate(all="ignore"),
            pytest.raises(sk.SubgraphkitError, match="output 'y1' holds NaN 0 times and inf") as e,
        ):
            opened.run(None, {"x0": fine, "x1": fine * 0})
        assert e.value.code == "SGK147"
        with pytest.raises(sk.SubgraphkitError, match="output 'y0' holds NaN 144 times"):
            opened.run(None, {"x0": fine * np.nan, "x1": fine})
        assert opened.run(["y0"], {"x0": fine, "x1": fine})[0].max() == 1
