"""The whole road in one call."""

from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError, ConfigError
from subgraphkit.running.messages import METHODS
from tests.models import CHAIN, LINEAR, parsed


@pytest.mark.parametrize(
    ("argument", "instead"), [("providers", "backend="), ("provider_options", "options=")]
)
def test_words_of_onnx_runtime_are_answered_with_ours(argument: str, instead: str) -> None:
    with pytest.raises(CallerError, match=instead):
        sk.InferenceSession(parsed(CHAIN), **{argument: ["CPUExecutionProvider"]})


def _refusal(**arguments: Any) -> CallerError:
    with pytest.raises(CallerError) as caught:
        sk.InferenceSession(parsed(CHAIN), **arguments)
    assert caught.value.code == "SGK114"
    return caught.value


def test_providers_are_answered_with_the_backends_to_name() -> None:
    named = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider"]
    error = _refusal(providers=[*named, "CPUExecutionProvider"])
    assert error.hint == 'Write backend="tensorrt,openvino,onnxruntime".'
    assert "backend=..." in _refusal(providers=["NoSuchExecutionProvider"]).hint


@pytest.mark.parametrize(
    "arguments",
    [
        {"providers": [("TensorrtExecutionProvider", {"trt_fp16_enable": True})]},
        {"providers": ["TensorrtExecutionProvider"], "provider_options": [{"device_id": 0}]},
        {"provider_options": [{"device_id": 0}]},
    ],
)
def test_options_of_providers_are_answered_with_what_translates_them(
    arguments: dict[str, Any],
) -> None:
    assert "migrating-to-tensorrt" in _refusal(**arguments).hint


def test_session_options_are_not_taken_for_providers() -> None:
    error = _refusal(sess_options=object())
    assert "SessionOptions" in error.message
    assert "provider" not in str(error)


def test_a_provider_named_as_a_backend_is_answered_with_the_backend() -> None:
    with pytest.raises(ConfigError, match=r"SGK107.*providers write 'tensorrt'"):
        sk.InferenceSession(parsed(CHAIN), backend=["TensorrtExecutionProvider"])


@pytest.mark.parametrize(
    ("method", "instead"),
    [
        ("get_providers", "session.partitioning"),
        ("set_providers", "backend="),
        ("get_modelmeta", "proto"),
        ("end_profiling", "subgraphkit bench"),
    ],
)
def test_a_method_that_only_onnx_runtime_has_is_answered_with_ours(
    method: str, instead: str
) -> None:
    session = sk.InferenceSession(parsed(CHAIN), "numpy")
    assert not hasattr(session, method)
    with pytest.raises(AttributeError, match=f"{method}.*ONNX Runtime.*{instead}"):
        getattr(session, method)
    with pytest.raises(AttributeError, match=r"has no attribute 'runn'$"):
        session.runn  # noqa: B018 (looked up and not used)


def test_every_method_that_is_answered_is_one_of_onnx_runtime_and_none_of_ours() -> None:
    theirs = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    for method in METHODS:
        assert hasattr(theirs.InferenceSession, method), method
        assert not hasattr(sk.InferenceSession, method), method


def test_a_session_says_in_three_lines_what_it_runs_and_shows_it_in_a_notebook() -> None:
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
