"""The real architectures that the onnx wheel ships, filled with seeded weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

__all__ = ["NAMES", "seeded_model"]

_FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in _FOLDER.glob("*.onnx")))


def seeded_model(name: str) -> onnx.ModelProto:
    """Return a model whose weights, stated as fills in the file, are drawn by He's rule.

    Outputs that a softmax makes are replaced by what it reads, which shows differences better.
    """
    model = onnx.load(_FOLDER / f"light_{name}.onnx")
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = {value: (node, place) for node, place, value in _uses(graph)}
    rng = np.random.default_rng(0)
    nodes = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        reader, place = readers[node.output[0]]
        array = _drawn(rng, reader, place, shapes[node.input[0]].tolist())
        graph.initializer.append(
            numpy_helper.from_array(array.astype(np.float32, copy=False), node.output[0])
        )
    graph.ClearField("node")
    graph.node.extend(nodes)
    for node in nodes:
        if node.op_type == "Softmax" and node.output[0] == graph.output[0].name:
            graph.output[0].name = node.input[0]
            graph.output[0].type.tensor_type.ClearField("shape")
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    graph.ClearField("input")
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    return model


def _uses(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, int, str]]:
    for node in graph.node:
        for place, value in enumerate(node.input):
            yield node, place, value


def _drawn(rng: Any, reader: onnx.NodeProto, place: int, shape: list[int]) -> Any:
    if reader.op_type == "BatchNormalization" and place in {1, 4}:
        return rng.uniform(0.5, 1.5, shape)
    if len(shape) == 1:
        return rng.normal(0, 0.1, shape)
    fan_in = np.prod(shape[1:]) if reader.op_type == "Conv" else max(shape)
    # a block of prime length, repeated: drawing a hundred million numbers takes too long
    count = min(int(np.prod(shape)), 1_000_003)
    return np.resize(rng.standard_normal(count, np.float32) * np.sqrt(2 / fan_in), shape)
