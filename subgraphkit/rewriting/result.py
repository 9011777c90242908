"""What a rewriting did, and what it left as it was."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy.typing as npt
import onnx

__all__ = ["KEPT_CODES", "Kept", "Rewriting"]

KEPT_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "activation": "a value was seen to exceed data_max",
        "angle": "leads to a sine, cosine or tangent: of a large angle few digits are left",
        "attention": "a product of two computed values",
        "between": "only moves or compares values of nodes that are kept",
        "body": "holds a body of nodes",
        "channels": "too few channels, or groups too small, for int8 to pay",
        "coarse": "a few large elements of its input leave int8 too few steps for all others",
        "constant": "its input was always 0 while calibrating",
        "never": "an operator that loses its meaning in few bits",
        "normalisation": "squares, products or sums that overflow float16",
        "range": "no range is known for its input",
        "reaches": "reads a value beyond the range of the type",
        "reduction": "sums more terms than max_reduction",
        "rounding": "leads to a rounding to whole numbers, such as a place in a table, or a size",
        "scale": "its scale has too few digits in the type",
        "small": "a product too small for int8 to pay",
        "softmax": "a sum over an axis too long for float16",
        "stated": "an attribute states its type",
        "tiny": "a weight that would vanish",
        "type": "the operator does not take the type, at this version of it",
        "unknown": "an operator that ONNX does not define",
        "user": "the caller named it, or did not",
        "weight": "its weight is computed, or is no matrix",
        "weights": "a weight beyond the range of the type",
    }
)
"""Why a node was kept as it was."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that was kept as it was.

    Attributes:
        node: The node's name, or that of its first output if it has none.
        op_type: Its operator.
        code: Why, a key of ``KEPT_CODES``.
        text: Why, with the facts.
        step: ``quantize`` or ``lower``: what was not done.
    """

    node: str
    op_type: str
    code: str
    text: str
    step: str = "lower"


@dataclass(frozen=True, eq=False)
class Rewriting:
    """A rewritten model, and an account of it.

    Attributes:
        model: The model; not to be changed if ``weights`` are used with it.
        weights: Arrays of the initializers whose data is not in the model, in the order of
            ``model.graph.initializer``; empty unless such were given.
        lowered: Nodes that compute in a short float now.
        quantized: Nodes that read int8 now.
        changed: First outputs of the nodes that compute in a short float or read int8, in order.
            ``keep`` takes them, where names are empty or repeated.
        kept: Nodes that were kept although they compute in float32, and why.
        casts: How many Casts were added.
        notes: What else there is to know, such as quantisation that was there already.
        was_quantized: Whether the model came with QuantizeLinear or DequantizeLinear.
    """

    model: onnx.ModelProto
    weights: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    lowered: tuple[str, ...] = ()
    quantized: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    casts: int = 0
    notes: tuple[str, ...] = ()
    was_quantized: bool = False

    def why_no_int8(self) -> str:
        """Say why no node reads int8, where int8 was asked for.

        Returns:
            How many nodes were not quantized and why most of them were not; empty if a node reads
            int8, the model came quantized, or the caller kept every node that could.
        """
        counts = Counter(one.code for one in self.kept if one.step == "quantize")
        if self.quantized or self.was_quantized or set(counts) == {"user"}:
            return ""
        if not counts:
            return "there is no Conv, ConvTranspose, Gemm or MatMul"
        code, count = counts.most_common(1)[0]
        total = counts.total()
        part = "all" if count == total else f"{count} of them"
        return f"{total} kept, {part} because: {KEPT_CODES[code]} ({code})"

    def to_text(self) -> str:
        """Return the account for people."""
        lines = [*self.notes]
        if self.quantized:
            lines.append(f"{len(self.quantized)} nodes read int8")
        if self.lowered:
            lines.append(f"{len(self.lowered)} nodes compute in a short float, {self.casts} Casts")
        counts = Counter((one.step, one.code) for one in self.kept)
        words = {"lower": "in float32", "quantize": "not quantized"}
        for (step, code), count in sorted(counts.items()):
            lines.append(f"{count} kept {words[step]} ({code}): {KEPT_CODES[code]}")
        return "\n".join(lines) or "nothing was changed"
