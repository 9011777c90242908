"""The engine cache with a real library: OpenVINO's compiled models, stored and restored."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.compiling.caching.store import EngineStore
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.testing.levels.artefacts import NETS_HEADER
from subgraphkit.testing.small_models import graphs_of, model_of
from tests.models import LIGHT, parsed
from tests.unit.compiling.cache_checks import EXPECTED
from tests.unit.compiling.conftest import LINEAR
from tests.unit.compiling.random_models import renamed

pytest.importorskip("openvino", reason="openvino is not installed")
pytest.importorskip("subgraphkit_openvino", reason="subgraphkit-openvino is not installed")

X = np.arange(6, dtype=np.float32).reshape(3, 2) - 2


def computed(model: Any, x: Any, **shapes: int) -> tuple[Any, int, int]:
    """Return the first output, and how many of OpenVINO's subgraphs were restored."""
    partitioning = sk.partition(sk.bind(sk.load(model), shapes, backend="openvino"))
    operators = sk.compile_subgraphs(partitioning)
    with sk.Session(sk.plan(partitioning, operators)) as session:
        result = session.run(None, {session.get_inputs()[0].name: x})[0]
    mine = [one.id for one in operators.partitioning.subgraphs if one.backend == "openvino"]
    return result, len(operators.restored.intersection(mine)), len(mine)


@pytest.mark.parametrize("shapes", [{"N": 3}, {}], ids=["static", "dynamic"])
def test_a_compiled_model_is_restored_also_under_other_names(shapes: dict[str, int]) -> None:
    model = parsed(LINEAR)
    first, none, count = computed(model, X, **shapes)
    again, restored, _ = computed(model, X, **shapes)
    assert (none, restored) == (0, count)
    other = renamed(model, "z")
    elsewhere, shared, _ = computed(other, X, **{f"z{name}": n for name, n in shapes.items()})
    assert shared == count
    for result in (first, again, elsewhere):
        np.testing.assert_allclose(result, EXPECTED, rtol=1e-5)


def test_a_network_is_restored_and_computes_the_same() -> None:
    model = onnx.load(LIGHT / "light_squeezenet.onnx")
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    before, _, count = computed(model, x)
    after, restored, _ = computed(model, x)
    assert restored == count
    np.testing.assert_array_equal(before, after)


def test_a_deep_recurrent_network_is_never_opened_with_other_results() -> None:
    model = model_of(f"deep_recurrent {graphs_of('networks')['deep_recurrent']}", NETS_HEADER)
    x = np.random.default_rng(0).standard_normal((12, 2, 16)).astype(np.float32)
    (expected,) = sk.InferenceSession(model, "onnxruntime").run(None, {"x": x})
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SubgraphkitWarning)  # it may be kept, or refused
            with sk.InferenceSession(model, "openvino") as session:
                (got,) = session.run(None, {"x": x})
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)


def test_other_weights_are_another_engine() -> None:
    computed(parsed(LINEAR), X, N=3)
    result, restored, _ = computed(parsed(LINEAR.replace("-20", "-2")), X, N=3)
    assert restored == 0
    assert result.tolist() != EXPECTED.tolist()


def test_a_damaged_engine_never_reaches_the_library(engines: Path) -> None:
    computed(parsed(LINEAR), X, N=3)
    (path,) = engines.glob("*.engine")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    result, restored, _ = computed(parsed(LINEAR), X, N=3)
    assert restored == 0
    np.testing.assert_allclose(result, EXPECTED, rtol=1e-5)
    assert [entry.problem for entry in EngineStore.open(None).entries(deep=True)] == [""]
