"""The official node cases: computed by onnx once, and the same in every process from then on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase

from subgraphkit.testing import official_cases as official
from tests.models import CHAIN, parsed

TEXTS = np.array([["a", "ä"]], dtype=object)
INPUTS = [
    np.float32([[1, -0.0, np.nan]]),
    np.float64(2.5),
    None,
    [np.int64([1]), [np.bool_([True, False])], []],
    TEXTS,
    helper.make_tensor("nibbles", TensorProto.INT4, [3], [-8, 0, 7]),
]


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds that onnx was asked to compute, of which there is one case."""
    case = TestCase("test_a", "", None, None, parsed(CHAIN), [(INPUTS, [TEXTS])], "node", 0.25, 0.5)
    asked: list[str] = []

    def collect(operator: str | None) -> list[TestCase]:
        assert operator is None
        asked.append("node")
        return [case]

    monkeypatch.setattr(official, "collect_testcases", collect)
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return asked


def kept(folder: Path) -> Path:
    return folder / "cache" / "backends" / "official-cases" / "node"


def written_down(value: Any) -> Any:
    """Write down types and bits of a value."""
    if value is None or isinstance(value, list):
        return value and [written_down(element) for element in value]
    bits = value.tolist() if value.dtype == object else value.tobytes()
    return type(value), value.dtype, value.shape, bits, value.flags.writeable


def test_what_was_computed_once_is_read_bit_by_bit(computed: list[str]) -> None:
    expected = [written_down(official.as_value(value)) for value in INPUTS]
    for _ in range(2):
        (case,) = official._node_cases()
        assert (case.name, case.rtol, case.atol) == ("test_a", 0.25, 0.5)
        assert case.model == parsed(CHAIN)
        ((inputs, outputs),) = case.data_sets
        assert [written_down(official.as_value(value)) for value in inputs] == expected
        assert official.as_value(outputs[0]).tolist() == TEXTS.tolist()
    assert computed == ["node"]


def test_cases_of_other_versions_and_damaged_ones_are_computed_again(
    computed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official._node_cases()
    monkeypatch.setattr(official, "_VERSIONS", b"onnx 1.99.0")
    assert len(official._node_cases()) == 1
    assert len(computed) == 2
    kept(tmp_path).write_bytes(kept(tmp_path).read_bytes()[:-1])
    assert len(official._node_cases()) == 1
    assert len(computed) == 3
    assert b"onnx 1.99.0" in kept(tmp_path).read_bytes()
