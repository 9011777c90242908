"""What is learnt of a build that failed, for whom, and how it is told and forgotten."""

from pathlib import Path
from typing import Any

import pytest

import subgraphkit as sk
from backends.tensorrt.tests.tensorrt_claims import homes, loaded, parsed, workers
from backends.tensorrt.tests.tensorrt_models import needs_rtx, options
from subgraphkit.errors import CompileError
from subgraphkit.partitioning import Partitioning
from subgraphkit.storing.answers import forget_answers
from subgraphkit_tensorrt.building.build import build_failure, fault_of_machine
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.library.gpus import machine

pytestmark = needs_rtx
PRODUCT = (
    "g (float[3,2] x) => (float[3,2] z) <float[2,2] w = {1, 2, 3, 4}> "
    "{ a = MatMul(x, w) b = Relu(a) c = Exp(b) z = Softmax(c) }"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is learnt for the test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _divided(**given: Any) -> Partitioning:
    chosen = {"flavour": "tensorrt_rtx", "build_only": True, **given}
    with sk.config(backend="tensorrt,numpy", options={"tensorrt": chosen}, cache=True):
        return sk.partition(sk.bind(sk.load(parsed(PRODUCT))))


def _built(**given: Any) -> Partitioning:
    compiled = sk.compile_subgraphs(_divided(**given))
    compiled.close()
    return compiled.partitioning


def test_an_option_that_needs_a_gpu_is_an_error_and_spoils_no_later_build() -> None:
    if machine().devices:
        pytest.skip("there is a GPU")
    with pytest.raises(CompileError, match="option refittable=true needs a GPU") as caught:
        _built(refittable=True)
    assert caught.value.code == "SGK173"
    assert homes(_divided(refittable=True)) == {0, 1, 2, 3}
    assert homes(_built()) == {0, 1, 2, 3}


def test_what_is_learnt_holds_for_the_options_that_shape_the_engine(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert homes(_built(workspace_limit=1)) == set()
    caplog.clear()
    assert homes(_divided()) == {0, 1, 2, 3}
    assert caplog.records == []
    assert homes(_divided(workspace_limit=1)) == set()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith(
        "backend 'tensorrt' leaves 4 nodes out because an earlier build failed: TensorRT could not"
    )
    assert "subgraphkit deploy cache clear" in said
    assert forget_answers(cache) > 0


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("error: Error Code 1: Cuda Runtime (out of memory)", "memory"),
        ("error: Error Code 2: OutOfMemory (no further information)", "memory"),
        ("error: CHECK(status == CUDA_SUCCESS) failed.", "device"),
        ("error: Error Code 1: Cuda Driver (invalid device context)", "device"),
        ("warning: Skipping tactic: out of memory", ""),
        ("error: K exceeds the maximum value allowed", ""),
    ],
)
def test_faults_of_the_machine_are_told_from_those_of_nodes(line: str, fault: str) -> None:
    assert fault_of_machine([line]) == fault


@pytest.mark.parametrize(
    ("line", "code", "remedy"),
    [
        ("error: Error Code 2: OutOfMemory", "SGK176", "Free memory of the device"),
        ("error: no tactics within workspace limit", "SGK172", "Leave workspace_limit out"),
        ("error: K exceeds the maximum value allowed", "SGK172", "K exceeds"),
    ],
)
def test_a_failure_has_the_code_of_what_is_at_fault(line: str, code: str, remedy: str) -> None:
    subgraph = workers(loaded(PRODUCT))
    chosen = options()
    error = build_failure(prepare_model(subgraph, chosen), subgraph, [line], chosen)
    assert error.code == code
    assert remedy in error.hint


def test_a_build_that_needs_a_gpu_for_no_option_says_so_too() -> None:
    if machine().devices:
        pytest.skip("there is a GPU")
    subgraph = workers(loaded(PRODUCT))
    chosen = options()
    line = "error: Error Code 1: Cuda Runtime (no CUDA-capable device is detected)"
    error = build_failure(prepare_model(subgraph, chosen), subgraph, [line], chosen)
    assert error.code == "SGK173"
    assert error.message.endswith("(4 nodes), which needs a GPU here")
