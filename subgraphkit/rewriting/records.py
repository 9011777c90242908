"""Records of a rewriting: the precision asked for, the nodes kept, the model that was made."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy.typing as npt
import onnx

from subgraphkit.errors import CallerError
from subgraphkit.texts import printable
from subgraphkit.types import DataType

Kind = Literal["fp16", "bf16", "int8", "fp8"]
"""The precision that nodes are to compute in."""

HighPrecision = Literal["fp32", "fp16", "bf16"]
"""The precision beside int8 or fp8."""

QUANTIZED: Final[Mapping[str, tuple[DataType, float]]] = {
    "int8": (DataType.INT8, 127.0),
    "fp8": (DataType.FLOAT8E4M3FN, 448.0),
}
"""The element type behind each kind that has a scale, and the number that its range ends at."""

LOW_TYPES: Final = {"fp16": DataType.FLOAT16, "bf16": DataType.BFLOAT16}


@dataclass(frozen=True, slots=True)
class Precision:
    """A precision, and its exceptions.

    Attributes:
        kind: The precision that nodes are to compute in.
        keep: Regular expressions; nodes whose whole operator, name or output name matches one stay
            as they are. Outputs tell nodes apart where names are empty or repeated.
        only: If not empty, nodes also stay if none of these matches operator, name or output.
        high_precision: What is computed in beside int8 or fp8; means nothing for the other kinds.
        data_max: With ranges and fp16, nodes with larger inputs or outputs than this stay. 512
            leaves room for a sum to grow; the largest float16 is 65,504.
        max_reduction: Products and reductions over more terms stay; None for no limit.
        min_input_snr: Products stay if an input in int8 would have a lower ratio of signal to noise
            than this, in dB. A few large elements may take the whole scale, so that all others are
            lost in its steps. 0 for no limit. It needs ranges with these ratios, and does not apply
            to fp8, whose numbers have exponents.

    Raises:
        CallerError: A kind is unknown or an expression cannot be read (SGK231).
    """

    kind: Kind
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    high_precision: HighPrecision = "fp32"
    data_max: float = 512.0
    max_reduction: int | None = None
    min_input_snr: float = 20.0
    _kept: "_Patterns" = field(init=False, repr=False, compare=False)
    _alone: "_Patterns" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_word("precision", self.kind, get_args(Kind))
        check_word("high_precision", self.high_precision, get_args(HighPrecision))
        # frozen: derived fields are set past the check
        object.__setattr__(self, "_kept", _Patterns.of(self.keep))
        object.__setattr__(self, "_alone", _Patterns.of(self.only))

    @property
    def low(self) -> DataType | None:
        """The short float that nodes are to compute in; None if there is to be none."""
        word = self.high_precision if self.kind in QUANTIZED else self.kind
        return LOW_TYPES.get(word)

    def why_unwanted(self, op_type: str, names: Iterable[str]) -> str:
        """Say why a node is not wanted, if it is not.

        ``names``: Its own and those of its outputs.
        """
        words = [op_type, *filter(None, names)]
        if (pattern := self._kept.matching(words)) is not None:
            return f"keep={pattern!r} names it"
        if self.only and self._alone.matching(words) is None:
            return f"only={list(self.only)!r} does not name it"
        return ""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Regular expressions; the thousands that mean one word each are looked up, not tried."""

    literal: Mapping[str, str]
    general: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "_Patterns":
        literal, general = {}, []
        for pattern in patterns:
            word = re.sub(r"\\(\W)", r"\1", pattern)
            if re.escape(word) == pattern:
                literal[word] = pattern
                continue
            try:
                general.append(re.compile(pattern))
            except re.error as error:
                problem = f"{pattern!r} is not a regular expression: {error}"
                raise CallerError("SGK231", problem) from error
        return cls(literal, tuple(general))

    def matching(self, words: Iterable[str]) -> str | None:
        """Return a pattern that matches one of the words as a whole, or None."""
        for word in words:
            if word in self.literal:
                return self.literal[word]
            found = next((one.pattern for one in self.general if one.fullmatch(word)), None)
            if found is not None:
                return found
        return None


def precision_of(given: Precision | str) -> Precision:
    """Return the precision asked for, as a word or as a whole."""
    if isinstance(given, Precision):
        return given
    word: Any = given
    return Precision(word)


def check_word(what: str, word: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not known (CallerError, SGK231)."""
    if word not in known:
        expected = f"expected one of {', '.join(map(repr, known))}"
        raise CallerError("SGK231", f"{what} is {word!r}, {expected}")


KEPT_CODES: Final[Mapping[str, str]] = {
    "activation": "a value was seen to exceed data_max",
    "angle": "leads to a sine, cosine or tangent: of a large angle few digits are left",
    "attention": "a product of two computed values",
    "between": "only moves or compares values of nodes that are kept",
    "body": "holds a body of nodes",
    "channels": "too few channels, or groups too small, for int8 to pay",
    "coarse": "a few large elements of its input leave int8 too few steps for all others",
    "constant": "its input was always 0 while calibrating",
    "kernel": "a kernel too large for convolutions in float8",
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
"""Why a node was kept as it was."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that was kept as it was.

    Attributes:
        node: The node's name, or that of its first output if it has none.
        op_type: Its operator.
        code: Why, a key of ``KEPT_CODES``.
        text: Why, with the facts.
        step: The step that was left out, ``quantize`` or ``lower``.
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
            ``model.graph.initializer``. Empty unless you gave some.
        lowered: Nodes that compute in a short float now.
        quantized: Nodes that read int8 or float8 now.
        changed: First outputs of the nodes that compute in a short float or read int8, in order.
            ``keep`` takes them, where names are empty or repeated.
        kept: Nodes that were kept although they compute in float32, and why.
        casts: How many Casts were added.
        notes: What else there is to know, such as quantisation that was there already.
        was_quantized: Whether the model came with QuantizeLinear or DequantizeLinear.
        quantized_as: What the quantized nodes read: ``int8`` or ``fp8``.
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
    quantized_as: str = "int8"

    def why_no_int8(self) -> str:
        """Say why no node reads int8, where int8 was asked for.

        Returns:
            How many nodes were not quantized and why most of them were not. Empty if a node reads
            int8, the model came quantized, or the caller kept every possible node.
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
            lines.append(f"{len(self.quantized)} nodes read {self.quantized_as}")
        if self.lowered:
            lines.append(f"{len(self.lowered)} nodes compute in a short float, {self.casts} Casts")
        counts = Counter((one.step, one.code) for one in self.kept)
        words = {"lower": "in float32", "quantize": "not quantized"}
        for (step, code), count in sorted(counts.items()):
            lines.append(f"{count} kept {words[step]} ({code}): {KEPT_CODES[code]}")
        return "\n".join(map(printable, lines)) or "nothing was changed"
