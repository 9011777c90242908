"""A finding of ``subgraphkit doctor``, by itself: it is made where no library is imported."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of ``subgraphkit doctor``.

    Attributes:
        name: What was looked at.
        status: What came of it.
        text: One sentence.
        fix: What to do about it, or an empty string.
    """

    name: str
    status: Literal["ok", "warning", "failure"]
    text: str
    fix: str = ""
