"""Guess what a misspelt word was meant to be."""

import difflib
import itertools
from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like ``word``, ignoring case, or None if none is near."""
    names = sorted(candidates)
    # a prefix that all share, such as SUBGRAPH_, says nothing about likeness
    skipped = min((_shared_prefix(word, name).rfind("_") + 1 for name in names), default=0)
    by_folded = {name[skipped:].casefold(): name for name in names}
    found = difflib.get_close_matches(word[skipped:].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def _shared_prefix(one: str, other: str) -> str:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in pairs)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or an empty string if nothing is near."""
    found = nearest(word, candidates)
    return f"; did you mean {found!r}?" if found is not None else ""
