"""One layer of a BERT encoder, written with plain ONNX operators."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from graph_builder import Attribute, GraphBuilder


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of the network.

    Attributes:
        hidden: The width of a token's vector, and of the embedding.
        heads: The attention heads in a layer; divides `hidden`.
        layers: The number of layers.
        epsilon: What keeps layer normalisation from dividing by zero.
    """

    hidden: int
    heads: int
    layers: int
    epsilon: float

    @classmethod
    def read(cls, directory: Path) -> "EncoderConfig":
        """Read the sizes from the `config.json` of a folder.

        Raises:
            FileNotFoundError: The folder has no such file.
            ValueError: The file describes an architecture other than the one built here.
        """
        content = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        kind, activation = content["model_type"], content["hidden_act"]
        if (kind, activation) != ("bert", "gelu"):
            message = f"expected a bert encoder with gelu, found {kind} with {activation}"
            raise ValueError(message)
        return cls(
            hidden=content["hidden_size"],
            heads=content["num_attention_heads"],
            layers=content["num_hidden_layers"],
            epsilon=content["layer_norm_eps"],
        )


@dataclass(frozen=True)
class TransformerLayer:
    """Attention followed by a feed-forward network, each with a residual and a normalisation.

    Attributes:
        builder: The graph that the layer's nodes go to.
        config: The sizes of the network.
        index: The layer's position in the encoder, from 0.
    """

    builder: GraphBuilder
    config: EncoderConfig
    index: int

    def apply(self, hidden: str, bias: str) -> str:
        """Add the layer's nodes.

        Args:
            hidden: The float32 value to transform, of shape [batch, tokens, hidden].
            bias: The float32 value added to the attention scores, of shape [batch, 1, 1, tokens].

        Returns:
            The name of the transformed value, of the shape of `hidden`.
        """
        context = self._attend(hidden, bias)
        attended = self._linear("attention/output", "attention.output.dense", context)
        attended = self._residual("attention/output", attended, hidden)
        wide = self._gelu(self._linear("intermediate", "intermediate.dense", attended))
        narrow = self._linear("output", "output.dense", wide)
        return self._residual("output", narrow, attended)

    def _attend(self, hidden: str, bias: str) -> str:
        """Mix the values of the tokens, weighted by how well query and key match."""
        query = self._heads("query", hidden, [0, 2, 1, 3])
        key = self._heads("key", hidden, [0, 2, 3, 1])
        value = self._heads("value", hidden, [0, 2, 1, 3])
        scores = self._node("MatMul", "attention/scores", [query, key])
        scores = self._node("Div", "attention/scores", [scores, self._scale()])
        scores = self._node("Add", "attention/scores", [scores, bias])
        shares = self._node("Softmax", "attention/scores", [scores], axis=-1)
        context = self._node("MatMul", "attention/context", [shares, value])
        context = self._node("Transpose", "attention/context", [context], perm=[0, 2, 1, 3])
        shape = self.builder.constant("heads.merged", [0, 0, self.config.hidden], np.int64)
        return self._node("Reshape", "attention/context", [context, shape])

    def _heads(self, role: str, hidden: str, order: Sequence[int]) -> str:
        """Project to one of query, key and value, and bring its heads' axes into `order`."""
        scope = f"attention/{role}"
        projected = self._linear(scope, f"attention.self.{role}", hidden)
        width = self.config.hidden // self.config.heads
        shape = self.builder.constant("heads.split", [0, 0, self.config.heads, width], np.int64)
        split = self._node("Reshape", scope, [projected, shape])
        return self._node("Transpose", scope, [split], perm=order)

    def _scale(self) -> str:
        """Name the divisor that keeps the scores' spread independent of the heads' width."""
        width = self.config.hidden // self.config.heads
        return self.builder.constant("heads.scale", math.sqrt(width))

    def _gelu(self, value: str) -> str:
        """Apply the exact form of GELU: x / 2 * (1 + erf(x / sqrt(2)))."""
        scope = "intermediate/gelu"
        root = self.builder.constant("gelu.root", math.sqrt(2))
        one, half = self.builder.constant("one", 1.0), self.builder.constant("half", 0.5)
        inner = self._node("Erf", scope, [self._node("Div", scope, [value, root])])
        outer = self._node("Mul", scope, [value, self._node("Add", scope, [inner, one])])
        return self._node("Mul", scope, [outer, half])

    def _residual(self, part: str, value: str, skipped: str) -> str:
        """Add what the part was given to what it made, and normalise the sum."""
        total = self._node("Add", f"{part}/residual", [value, skipped])
        source = f"{self._source}.{part.replace('/', '.')}.LayerNorm"
        return self.builder.layer_norm(f"{self._scope}/{part}", source, total, self.config.epsilon)

    def _linear(self, part: str, source: str, value: str) -> str:
        return self.builder.linear(f"{self._scope}/{part}", f"{self._source}.{source}", value)

    def _node(self, op_type: str, part: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        return self.builder.node(op_type, f"{self._scope}/{part}", inputs, **attributes)

    @property
    def _scope(self) -> str:
        return f"/encoder/layer.{self.index}"

    @property
    def _source(self) -> str:
        return f"encoder.layer.{self.index}"
