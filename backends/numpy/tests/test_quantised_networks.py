"""Networks that ONNX Runtime's own tool quantises, per channel, with ranges found by running."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

import subgraphkit as sk

_CURVES = ("Relu", "Sigmoid", "LeakyRelu", "Tanh", "")


class _Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, arrays: list[Any]) -> None:
        self._left: Iterator[Any] = iter(arrays)

    def get_next(self) -> dict[str, Any] | None:
        array = next(self._left, None)
        return None if array is None else {"x": array}


def _network(kind: str, rng: np.random.Generator) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """Return convolutions or products of random weights with curves between, and its input."""
    shape = {"Conv": (2, 6, 9, 11), "Gemm": (5, 24), "MatMul": (2, 5, 24)}[kind]
    nodes, weights, value = [], [], "x"
    width = shape[1 if kind == "Conv" else -1]
    for layer in range(3):
        wide = int(rng.integers(4, 32))
        sizes = {"Conv": (wide, width, 3, 3), "Gemm": (wide, width), "MatMul": (width, wide)}[kind]
        weight = (rng.standard_normal(sizes) / np.sqrt(width)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        read, more = [value, f"w{layer}"], {"Gemm": {"transB": 1}, "Conv": {"pads": [1] * 4}}
        if kind != "MatMul":
            bias = rng.standard_normal(wide).astype(np.float32)
            weights.append(numpy_helper.from_array(bias, f"b{layer}"))
            read.append(f"b{layer}")
        nodes.append(helper.make_node(kind, read, [f"p{layer}"], **more.get(kind, {})))
        value, width = f"p{layer}", wide
        curve = _CURVES[rng.integers(len(_CURVES))]
        if curve:
            nodes.append(helper.make_node(curve, [value], [f"c{layer}"]))
            value = f"c{layer}"
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, None)],
        weights,
    )
    opset = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9), shape


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8])
@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_quantised_networks_are_computed_as_onnx_defines_them(
    kind: str, activations: QuantType, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    model, shape = _network(kind, rng)
    plain, quantised = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(model, plain)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
    quantize_static(
        plain,
        quantised,
        _Feeds(arrays[1:]),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    (expected,) = ReferenceEvaluator(onnx.load(quantised)).run(None, {"x": arrays[0]})
    with sk.InferenceSession(quantised, "numpy") as session:
        (made,) = session.run(None, {"x": arrays[0]})
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
