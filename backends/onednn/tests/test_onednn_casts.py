"""Casts between float32 and bfloat16, on every processor."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import subgraphkit as sk
from backends.onednn.tests.onednn_road import refusals

FLOAT, BFLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16


def _model(*steps: tuple[str, int]) -> onnx.ModelProto:
    """Make a chain of operators; the second of each pair is the element type it makes."""
    nodes, value = [], "x"
    for place, (operator, made) in enumerate(steps):
        attributes = {"to": made} if operator == "Cast" else {}
        nodes.append(helper.make_node(operator, [value], [f"y{place}"], **attributes))
        value = f"y{place}"
    first = BFLOAT16 if steps[0] == ("Cast", FLOAT) else FLOAT
    graph = helper.make_graph(
        nodes,
        "casts",
        [helper.make_tensor_value_info("x", first, [6, 4096])],
        [helper.make_tensor_value_info(value, steps[-1][1], None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _numbers() -> Any:
    """Return bits of all kinds: numbers large and tiny, ties, infinities, NaN."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (6, 4096), np.uint64).astype(np.uint32)
    bits[0] = bits[0] & 0xFFFF0000 | 0x8000  # half-way between two of bfloat16
    bits[1, :4] = 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF
    x = bits.view(np.float32)
    x[(np.abs(x) < np.finfo(np.float32).tiny)] = 0
    return x


@pytest.mark.parametrize(
    "steps",
    [
        [("Cast", BFLOAT16)],
        [("Cast", FLOAT)],
        [("Cast", BFLOAT16), ("Cast", FLOAT)],
        [("Abs", FLOAT), ("Cast", BFLOAT16), ("Cast", FLOAT), ("Abs", FLOAT)],
    ],
    ids=["down", "up", "down and up", "between others"],
)
def test_casts_round_as_bfloat16_does(steps: list[tuple[str, int]]) -> None:
    model = _model(*steps)
    with np.errstate(all="ignore"), sk.InferenceSession(model, backend="onednn") as session:
        given = _numbers()
        if steps[0] == ("Cast", FLOAT):
            given = given.astype(ml_dtypes.bfloat16)
        (found,) = session.run(None, {"x": given})
        expected = given
        for operator, made in steps:
            dtype = ml_dtypes.bfloat16 if made == BFLOAT16 else np.float32
            is_cast = operator == "Cast"
            expected = expected.astype(dtype) if is_cast else np.abs(expected)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_casts_are_taken_though_nothing_may_be_computed_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("subgraphkit_onednn.library.DnnlLibrary.has_bfloat16", False)
    model = _model(("Cast", BFLOAT16), ("Relu", BFLOAT16), ("Cast", FLOAT))
    (refusal,) = refusals(model)
    assert "value 'y0' is bfloat16; oneDNN takes float32 here" in refusal
