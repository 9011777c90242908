"""What is asked for: a precision, and what is to be left as it is."""

import re
from dataclasses import dataclass
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
        keep: Regular expressions; nodes whose whole operator or whole name matches one stay as
            they are.
        only: If not empty, nodes of which none of these matches operator or name stay, too.
        high_precision: What is computed in beside int8; means nothing for the other kinds.
        data_max: With ranges and fp16, nodes stay whose inputs or outputs exceed this magnitude.
            512 leaves what lies ahead of a sum room to grow; the largest float16 is 65,504.
        max_reduction: Products and reductions over more terms stay; None for no limit.

    Raises:
        CallerError: A kind is unknown or an expression cannot be read (SGK231).
    """

    kind: Kind
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    high_precision: HighPrecision = "fp32"
    data_max: float = 512.0
    max_reduction: int | None = None

    def __post_init__(self) -> None:
        _check_word("precision", self.kind, get_args(Kind))
        _check_word("high_precision", self.high_precision, get_args(HighPrecision))
        for pattern in (*self.keep, *self.only):
            try:
                re.compile(pattern)
            except re.error as error:
                raise CallerError(
                    "SGK231", f"{pattern!r} is not a regular expression: {error}"
                ) from error

    @property
    def low(self) -> DataType | None:
        """The short float that nodes are to compute in; None if there is to be none."""
        word = self.high_precision if self.kind == "int8" else self.kind
        return LOW_TYPES.get(word)

    def unwanted(self, op_type: str, name: str) -> str:
        """Say why a node is not wanted, or return an empty string."""
        for pattern in self.keep:
            if re.fullmatch(pattern, op_type) or re.fullmatch(pattern, name):
                return f"keep={pattern!r} names it"
        if self.only and not any(
            re.fullmatch(pattern, op_type) or re.fullmatch(pattern, name) for pattern in self.only
        ):
            return f"only={list(self.only)!r} does not name it"
        return ""


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
