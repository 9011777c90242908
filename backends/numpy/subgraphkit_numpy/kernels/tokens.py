"""Texts joined, split, matched with regular expressions, and cut into tokens.

Source: ONNX operators ``StringConcat``, ``StringSplit`` and ``RegexFullMatch``; operator
``Tokenizer`` of the domain ``com.microsoft``, which converters of text pipelines write for want of
one of ONNX. Regular expressions are those of RE2, whose library takes a time that grows with the
text alone, whoever wrote the expression.
"""

from collections.abc import Callable
from operator import add
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels.limits import check_size, output_limit
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__: list[str] = []

_START: Final = "\x02"
_END: Final = "\x03"
_PART: Final = 1 << 14

_Cut = Callable[[str], list[str]]


@kernel("StringConcat")
def join(site: Site) -> Made:
    """Join every text with its counterpart; refuse what would be longer than an output may be."""
    limit = output_limit(site.scope)

    def compute(first: Array, second: Array) -> Array:
        pair = np.broadcast_arrays(first, second)
        one, other = (texts.reshape(-1) for texts in pair)
        made, length = np.empty(one.size, object), 0
        for at in range(0, one.size, _PART):
            left, right = one[at : at + _PART].tolist(), other[at : at + _PART].tolist()
            length += sum(map(len, left)) + sum(map(len, right))
            if limit and length > limit:
                check_size((length,), np.dtype(np.uint8), limit)
            made[at : at + _PART] = list(map(add, left, right))
        return made.reshape(pair[0].shape)

    return compute


@kernel("StringSplit")
def split(site: Site) -> Made:
    """Split every text at a delimiter, or at white space; say how many pieces there are."""
    delimiter = site.attribute("delimiter") or None
    most = site.attribute("maxsplit")
    limit = -1 if most is None else int(most)

    def compute(texts: Array) -> tuple[Array, Array]:
        pieces = [text.split(delimiter, limit) for text in texts.reshape(-1).tolist()]
        counts = np.array([len(piece) for piece in pieces], np.int64)
        made = np.full((len(pieces), int(counts.max(initial=0))), "", object)
        for place, piece in enumerate(pieces):
            made[place, : len(piece)] = piece
        return made.reshape(*texts.shape, made.shape[1]), counts.reshape(texts.shape)

    return _first_of(compute) if site.output_count == 1 else compute


def _first_of(compute: Callable[..., tuple[Array, ...]]) -> Callable[..., Array]:
    return lambda *values: compute(*values)[0]


@kernel("RegexFullMatch")
def match(site: Site) -> Made:
    """Say of every text whether the whole of it matches."""
    matches = _pattern(site, site.attribute("pattern", ""), longest=False).fullmatch

    def compute(texts: Array) -> Array:
        found = [matches(text) is not None for text in texts.reshape(-1).tolist()]
        return np.array(found, np.bool_).reshape(texts.shape)

    return compute


@kernel("Tokenizer", domain=MICROSOFT)
def tokenize(site: Site) -> Made:
    """Put the tokens of every text on an axis of their own, as long as most of them need."""
    cut, least = _cutter(site), site.attribute("mincharnum", 1)
    padding = site.attribute("pad_value", "")
    marked = site.attribute("mark", 0)

    def compute(texts: Array) -> Array:
        rows = [[t for t in cut(text) if len(t) >= least] for text in texts.reshape(-1).tolist()]
        if marked and any(rows):
            rows = [[_START, *row, _END] for row in rows]
        made = np.full((len(rows), max(map(len, rows), default=0)), padding, object)
        for place, row in enumerate(rows):
            made[place, : len(row)] = row
        return made.reshape(*texts.shape, made.shape[1])

    return compute


def _cutter(site: Site) -> _Cut:
    expression, separators = site.attribute("tokenexp", ""), site.attribute("separators", ())
    if expression:
        pattern = _pattern(site, expression)
        return lambda text: [found[0] for found in pattern.finditer(text) if found[0]]
    if tuple(separators) == ("",):
        return list
    patterns = [_pattern(site, separator) for separator in separators]

    def cut(text: str) -> list[str]:
        pieces = [text]
        for pattern in patterns:
            pieces = [part for piece in pieces for part in _between(pattern, piece)]
        return [piece for piece in pieces if piece]

    return cut


def _between(pattern: Any, text: str) -> list[str]:
    ends = [found.span() for found in pattern.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    return [text[a:b] for a, b in zip(starts, [*(s for s, _ in ends), len(text)], strict=True)]


def _pattern(site: Site, text: str, *, longest: bool = True) -> Any:
    """Compile an expression; of several matches ONNX Runtime takes the longest for a token."""
    try:
        import re2  # noqa: PLC0415 (a library that few models need, and not every system has)
    except ImportError as error:
        told = f"{site.node.label}: the library of RE2 is not here: pip install google-re2"
        raise Unsupported(told, code="op_unsupported") from error
    options = re2.Options()
    options.log_errors, options.longest_match = False, longest
    try:
        return re2.compile(text, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        told = f"{site.node.label}: expression {text!r} is none of RE2: {why}"
        raise Unsupported(told, code="attribute") from error
