"""What is asked for: a precision, and what is to be left as it is."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from subgraphkit.errors import CallerError
from subgraphkit.types import DataType

__all__ = ["LOW_TYPES", "HighPrecision", "Kind", "Precision", "precision_of"]

Kind = Literal["fp16", "bf16", "int8"]
"""What nodes are to compute in."""

HighPrecision = Literal["fp32", "fp16", "bf16"]
"""What is computed in beside int8."""

LOW_TYPES: Final = {"fp16": DataType.FLOAT16, "bf16": DataType.BFLOAT16}
"""The element type behind each of the two short floats."""


@dataclass(frozen=True, slots=True)
class Precision:
    """A precision, and what is to be left as it is.

    Attributes:
        kind: What nodes are to compute in.
        keep: Regular expressions; nodes whose whole operator, name or output name matches one stay
            as they are. Outputs tell nodes apart where names are empty or repeated.
        only: If not empty, nodes of which none of these matches operator, name or output stay, too.
        high_precision: What is computed in beside int8; means nothing for the other kinds.
        data_max: With ranges and fp16, nodes stay whose inputs or outputs exceed this magnitude.
            512 leaves what lies ahead of a sum room to grow; the largest float16 is 65,504.
        max_reduction: Products and reductions over more terms stay; None for no limit.
        min_input_snr: With ranges that tell, products stay whose input int8 would hold at a lower
            ratio of signal to noise than this, in dB: a few large elements take the scale there,
            and all others are lost in its steps. 0 for no limit.

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
        _check_word("precision", self.kind, get_args(Kind))
        _check_word("high_precision", self.high_precision, get_args(HighPrecision))
        # frozen: what is derived is set past the check
        object.__setattr__(self, "_kept", _Patterns.of(self.keep))
        object.__setattr__(self, "_alone", _Patterns.of(self.only))

    @property
    def low(self) -> DataType | None:
        """The short float that nodes are to compute in; None if there is to be none."""
        word = self.high_precision if self.kind == "int8" else self.kind
        return LOW_TYPES.get(word)

    def unwanted(self, op_type: str, names: Iterable[str]) -> str:
        """Say why a node is not wanted, or return an empty string.

        Args:
            op_type: The node's operator.
            names: What else it goes by: its name and those of its outputs.
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
                raise CallerError(
                    "SGK231", f"{pattern!r} is not a regular expression: {error}"
                ) from error
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
    """Return what was asked for, a word or the whole."""
    if isinstance(given, Precision):
        return given
    word: Any = given
    return Precision(word)


def _check_word(what: str, word: object, known: tuple[str, ...]) -> None:
    if word not in known:
        raise CallerError(
            "SGK231", f"{what} is {word!r}, expected one of {', '.join(map(repr, known))}"
        )
