"""The whole road in one call."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.compat.onnxruntime import InferenceSession as DoorSession
from subgraphkit.errors import CallerError, ConfigError
from subgraphkit.running.messages import METHODS
from tests.models import CHAIN, LINEAR, parsed


@pytest.mark.parametrize("argument", ["providers", "provider_options", "sess_options"])
def test_words_of_onnx_runtime_are_answered_with_ours_and_with_its_door(argument):
    with pytest.raises(
        CallerError, match=r"(?s)SGK114.*backend=.*subgraphkit\.compat\.onnxruntime"
    ):
        sk.InferenceSession(parsed(CHAIN), **{argument: ["CPUExecutionProvider"]})  # type: ignore[arg-type]


def test_a_provider_named_as_a_backend_is_answered_with_the_backend():
    with pytest.raises(ConfigError, match=r"SGK107.*providers write 'tensorrt'"):
        sk.InferenceSession(parsed(CHAIN), backend=["TensorrtExecutionProvider"])


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_method_that_only_onnx_runtime_has_is_behind_its_door(method):
    session = sk.InferenceSession(parsed(CHAIN), "numpy")
    assert not hasattr(session, method)
    with pytest.raises(AttributeError, match=f"{method}.*ONNX Runtime.*compat.onnxruntime"):
        getattr(session, method)
    with pytest.raises(AttributeError, match=r"has no attribute 'runn'$"):
        session.runn  # noqa: B018 (looked up and not used)
    assert hasattr(DoorSession, method)


def test_every_method_that_is_answered_is_one_of_onnx_runtime_and_none_of_ours():
    theirs = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    for method in METHODS:
        assert hasattr(theirs.InferenceSession, method), method
        assert not hasattr(sk.InferenceSession, method), method


def test_a_session_says_in_three_lines_what_it_runs_and_shows_it_in_a_notebook():
    with sk.InferenceSession(parsed(LINEAR), "numpy") as session:
        lines = [
            "InferenceSession('linear', 2 nodes in 1 subgraph: numpy 1)",
            "  in: x float32[N,3]",
            "  out: y float32[N,2]",
        ]
        assert repr(session) == "\n".join(lines)
        notebook = session._repr_html_()
        assert "<svg" in notebook
        assert "<script" not in notebook
        with session.profile(runs=1) as profile:
            session.run(None, {"x": np.ones((1, 3), np.float32)})
        assert repr(profile).startswith("Profile('linear', 1 run of ")
        assert "numpy_0" in profile._repr_html_()
    assert "numpy 1, closed)" in repr(session)
