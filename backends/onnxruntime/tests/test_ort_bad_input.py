"""Missing libraries, wrong options, and regions that ONNX Runtime refuses as a whole."""

import re

import numpy as np
import onnxruntime
import pytest

import subgraphkit as sk
from backends.onnxruntime.tests.ort_models import homes, open_ort, parsed
from subgraphkit.backend import BindContext
from subgraphkit_onnxruntime import OnnxRuntimeBackend, backend
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.settings import SessionSettings

CHAIN = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Neg(a) }"


def test_the_probe_names_library_and_providers():
    found = OnnxRuntimeBackend.probe(deep=True)
    assert found.available
    assert "CPUExecutionProvider" in found.devices
    assert onnxruntime.__version__ in found.versions.values()


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider", "cpuexecutionprovider"])
def test_a_provider_may_be_written_short(name):
    with open_ort(parsed(CHAIN), providers=[name]) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]


@pytest.mark.parametrize(("options", "told"), [
    ({"providers": ["nope"]}, r"SGK112.*providers.*'nope'.*one of .*cpu"),
    ({"providers": ["cpu", "cpu"]}, r"SGK112.*providers.*'cpu'.*each once"),
    ({"provider_options": ["cuda.device_id=0"]}, r"SGK112.*provider_options.*options of cpu"),
    ({"session_config": ["nonsense"]}, r"SGK112.*session_config.*'nonsense'.*key=value"),
    ({"session_config": ["a=1", "a=2"]}, r"SGK112.*session_config.*each key once"),
    ({"profile": "/no/such/folder/p"}, r"SGK112.*profile.*a folder that exists"),
    ({"threads": -1}, r"SGK112.*threads.*at least 0"),
    ({"threads": "many"}, r"SGK111.*threads"),
    ({"optimization": "max"}, r"SGK112.*optimization.*'extended'"),
    ({"thread": 1}, r"SGK110.*'thread'.*threads"),
])  # fmt: skip
def test_a_wrong_option_is_an_error_when_binding(options, told):
    with pytest.raises(sk.SubgraphkitError) as caught:
        open_ort(parsed(CHAIN), **options)
    assert re.search(told, str(caught.value).replace("\n", " "))


def test_a_provider_that_does_not_load_is_an_error_and_not_the_cpu(monkeypatch):
    real = onnxruntime.get_available_providers()
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", *real]
    )
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(sk.SubgraphkitError, match=r"SGK104.*could not load"),
    ):
        open_ort(parsed(CHAIN), providers=["cuda"])


def test_options_reach_the_session():
    settings = backend.read_settings(
        Options(
            threads=2,
            execution_mode="parallel",
            inter_op_threads=3,
            optimization="none",
            session_config=("session.disable_prepacking=1",),
        )
    )
    made = settings._session_options()
    assert made.intra_op_num_threads == 2
    assert made.inter_op_num_threads == 3
    assert made.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert made.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert made.get_session_config_entry("session.disable_prepacking") == "1"


def test_a_region_refused_as_a_whole_gives_the_named_nodes_back():
    model = parsed("g (float[2, 8] x) => (float[2, 8] y) { a = Neg(x) b = Exp(a) y = Relu(b) }")
    loaded = sk.load(model)
    with sk.InferenceSession(loaded, backend="onnxruntime,numpy") as session:
        (subgraph,) = session.partitioning.subgraphs
    # What was claimed turns into something that nobody knows.
    loaded.proto.graph.node[1].op_type = "Gemma"
    (property_,) = OnnxRuntimeBackend().properties()
    with pytest.raises(sk.Unsupported, match=r"ONNX Runtime: .*Gemma") as caught:
        property_.create_operator(subgraph, BindContext(Options()))
    assert caught.value.nodes == (1,)


def test_trouble_that_is_not_about_the_model_is_a_failure(monkeypatch):
    def out_of_memory(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(SessionSettings, "open", out_of_memory)
    with pytest.raises(sk.SubgraphkitError, match=r"SGK130.*no room"):
        open_ort(parsed(CHAIN))


def test_what_would_divide_the_process_away_is_left_to_another_backend():
    text = "g (int64[1] a, int64[1] b) => (int64[1] y) { y = Div(a, b) }"
    session = sk.InferenceSession(parsed(text), "onnxruntime,numpy")
    least = np.array([-(2**63)])
    assert session.run(None, {"a": least, "b": np.array([-1])})[0].tolist() == [-(2**63)]
