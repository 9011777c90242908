"""The decoder as ONNX, with the operators that exporters of language models write today.

Every layer has a cache of keys and values of a fixed length. ``GroupQueryAttention`` writes a new
position into it, so past and present may be one buffer.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Weights = dict[str, npt.NDArray[Any]]

LENGTH = 128
"""How many characters the caches hold: as many as the decoder was trained on."""

LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 3, 4, 2, 16
CACHE_SHAPE = (1, KV_HEADS, LENGTH, HEAD_SIZE)


def read_weights(path: Path) -> tuple[str, Weights]:
    """Return the characters that the decoder knows, and its weights in float32."""
    with np.load(path) as stored:
        weights = {name: stored[name] for name in stored.files}
    characters = str(weights.pop("characters"))
    return characters, {name: one.astype(np.float32) for name, one in weights.items()}


def cache_names(kind: str) -> Iterator[str]:
    """Yield the names of the caches of all layers; ``kind`` is ``past`` or ``present``."""
    for layer in range(LAYERS):
        yield f"{kind}.{layer}.key"
        yield f"{kind}.{layer}.value"


def build_decoder(weights: Weights) -> onnx.ModelProto:
    """Write the decoder.

    Inputs are ``ids`` [1, S], ``last`` [1], the index of the last position that is filled then,
    ``total``, how many are, and the caches. Outputs are ``scores`` [1, V] of the next character,
    and the caches.
    """
    writer = _Writer(weights)
    x = writer.node("Gather", "embedding.weight", "ids")
    for layer in range(LAYERS):
        x = _layer(writer, x, layer)
    writer.kept.append(numpy_helper.from_array(np.array(-1), "end"))
    x = writer.norm(writer.node("Gather", x, "end", axis=1), "last")
    writer.weight("head", weights["embedding.weight"].T)
    writer.node("MatMul", x, "head", outputs=["scores"])
    graph = helper.make_graph(
        writer.nodes, "decoder", _inputs(), _outputs(len(weights["embedding.weight"])), writer.kept
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class _Writer:
    """Collects nodes and weights."""

    def __init__(self, weights: Weights) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.kept: list[onnx.TensorProto] = []
        positions = np.arange(LENGTH)[:, None]
        angles = positions * 10_000 ** (-np.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2))
        for name, array in (weights | {"cos": np.cos(angles), "sin": np.sin(angles)}).items():
            # PyTorch keeps the matrix of a linear layer the other way round.
            is_linear = array.ndim > 1 and name.startswith("layers.")
            self.weight(name, array.T if is_linear else array)

    def weight(self, name: str, array: npt.NDArray[Any]) -> None:
        array = np.ascontiguousarray(array, np.float32)
        self.kept.append(numpy_helper.from_array(array, name))

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        outputs = attributes.pop("outputs", [f"{op_type.lower()}_{len(self.nodes)}"])
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attributes))
        return str(outputs[0])

    def norm(self, x: str, name: str) -> str:
        scale = f"{name}.weight"
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1.2e-7)


def _layer(writer: _Writer, x: str, layer: int) -> str:
    own = f"layers.{layer}"
    h = writer.norm(x, f"{own}.before_attention")
    parts = [writer.node("MatMul", h, f"{own}.{name}.weight") for name in ("query", "key", "value")]
    caches = [f"past.{layer}.key", f"past.{layer}.value"]
    mixed = writer.node(
        "GroupQueryAttention",
        *(*parts, *caches, "last", "total", "cos", "sin"),
        outputs=[f"mixed.{layer}", f"present.{layer}.key", f"present.{layer}.value"],
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        do_rotary=1,
    )
    x = writer.node("Add", x, writer.node("MatMul", mixed, f"{own}.mix.weight"))
    h = writer.norm(x, f"{own}.before_mlp")
    gate = writer.node("MatMul", h, f"{own}.gate.weight")
    silu = writer.node("Mul", gate, writer.node("Sigmoid", gate))
    product = writer.node("Mul", silu, writer.node("MatMul", h, f"{own}.up.weight"))
    return writer.node("Add", x, writer.node("MatMul", product, f"{own}.down.weight"))


def _inputs() -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "S"]),
        helper.make_tensor_value_info("last", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("total", TensorProto.INT32, []),
        *_caches("past"),
    ]


def _outputs(vocabulary: int) -> list[onnx.ValueInfoProto]:
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, vocabulary])
    return [scores, *_caches("present")]


def _caches(kind: str) -> Iterator[onnx.ValueInfoProto]:
    for name in cache_names(kind):
        yield helper.make_tensor_value_info(name, TensorProto.FLOAT, CACHE_SHAPE)
