"""Steps of the road that are left out, values inside of a model, and the caller's mistakes."""

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import BindError, CallerError, InputError
from tests.fakes import claiming
from tests.models import parsed

MODEL = parsed("g (float[N] x) => (float[N] y) { a = Exp(x) b = Neg(a) y = Abs(b) }")
X = np.ones(3, np.float32)


@pytest.mark.parametrize("door", [sk.bind, sk.partition, sk.compile_subgraphs, sk.plan, sk.Session])
def test_every_step_takes_what_there_was_at_first(door, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(MODEL, path)
    for source in (path, str(path), MODEL, MODEL.SerializeToString(), sk.load(MODEL)):
        made = door(source)
        session = made if isinstance(made, sk.Session) else sk.Session(made)
        np.testing.assert_allclose(session.run(None, {"x": X})[0], np.exp(X), rtol=1e-6)
        session.close()


@pytest.mark.parametrize("door", [sk.bind, sk.partition, sk.compile_subgraphs, sk.plan, sk.Session])
def test_what_is_no_model_is_the_callers_mistake(door):
    with pytest.raises(CallerError, match=r"SGK213.*from int"):
        door(3)


def test_values_inside_are_outputs_if_they_are_named_or_asked_for():
    with sk.InferenceSession(MODEL, "numpy", outputs=["b", "y"]) as session:
        assert [one.name for one in session.get_outputs()] == ["b", "y"]
        np.testing.assert_allclose(session.run(["b"], {"x": X})[0], -np.exp(X), rtol=1e-6)
    with pytest.raises(BindError, match=r"SGK220.*'bb'.*did you mean 'b'"):
        sk.bind(MODEL, outputs=["bb"])
    with sk.InferenceSession(MODEL, "numpy") as session:
        y, a = session.run(["y", "a"], {"x": X})
        np.testing.assert_allclose(y, a, rtol=1e-6)
        for names in (["q"], ["a", "q"], "a"):
            with pytest.raises(InputError, match="SGK143"):
                session.run(names, {"x": X})
    with pytest.raises(CallerError, match="SGK144"):
        session.run(["y"], {"x": X})


def test_values_inside_are_not_those_of_former_weights():
    text = "g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w) y = Exp(a) }"
    with sk.InferenceSession(parsed(text), "numpy") as session:
        assert session.run(["a"], {"x": X})[0].tolist() == [1, 2, 3]
        session.update_weights({"w": np.zeros(3, np.float32)})
        with pytest.raises(InputError, match="SGK143"):
            session.run(["a"], {"x": X})


def test_a_region_is_found_and_measured_by_its_id():
    parts = sk.partition(MODEL, "numpy").split("numpy_0", [0])
    with sk.InferenceSession(sk.partition(MODEL, "onnxruntime,numpy")[0]) as alone:
        assert [one.backend for one in alone.partitioning] == ["onnxruntime"]
    operators = sk.compile_subgraphs(parts)
    assert operators["numpy_1"] is operators[1]
    with pytest.raises(sk.errors.ConfigError, match="numpy_9"):
        operators["numpy_9"]
    with sk.Session(operators) as session:
        assert set(session.profile({"x": X}).subgraph_seconds) == {"numpy_0", "numpy_1"}


def test_a_region_of_the_fallback_is_divided_among_properties():
    (region,) = sk.partition(MODEL, "numpy")
    inner = sk.partition(region, claiming(["Neg"])().properties())
    assert [one.nodes for one in inner] == [(0,), (1,), (2,)]
    with sk.Session(inner) as session:
        np.testing.assert_allclose(session.run(None, {"x": X})[0], np.exp(X), rtol=1e-6)
