"""Texts joined, split, normalised, matched with regular expressions, and cut into tokens.

Source: ONNX operators ``StringConcat``, ``StringNormalizer``, ``StringSplit`` and
``RegexFullMatch``. ``Tokenizer`` is of the domain ``com.microsoft``; converters of text pipelines
write it, as ONNX has no such operator. Regular expressions are those of RE2. For every expression,
its library takes a time that grows only in proportion to the text.
"""

from collections.abc import Callable
from operator import add
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels.limits import check_size, check_texts, output_limit
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART, objects, part_by_part

_START: Final = "\x02"
_END: Final = "\x03"
_MARKS: Final = len((_START, _END))
_OBJECTS: Final = np.dtype(object)
_CASES: Final[dict[str, Any]] = {"LOWER": str.lower, "NONE": str, "UPPER": str.upper}

_Cut = Callable[[str], list[str]]


@kernel("StringConcat")
def join(site: Site) -> Made:
    """Join every text with its counterpart; refuse what would be longer than an output may be."""
    limit = output_limit(site.scope)

    def compute(first: Array, second: Array) -> Array:
        pair = np.broadcast_arrays(first, second)
        one, other = (texts.reshape(-1) for texts in pair)
        length = 0
        with objects(one.size) as made:
            for at in range(0, one.size, PART):
                left, right = one[at : at + PART].tolist(), other[at : at + PART].tolist()
                length += sum(map(len, left)) + sum(map(len, right))
                if limit and length > limit:
                    check_size((length,), np.dtype(np.uint8), limit)
                made[at : at + PART] = list(map(add, left, right))
        return made.reshape(pair[0].shape)

    return compute


@kernel("StringNormalizer")
def normalize(site: Site) -> Made:
    """Drop texts that are stop words, and change the case of the others.

    Something is left of a list: an empty text at the least.
    """
    change = _CASES[site.attribute("case_change_action", "NONE")]
    compared = str if site.attribute("is_case_sensitive", 0) else str.lower
    stops = frozenset(map(compared, site.attribute("stopwords", ())))

    def compute(texts: Array) -> Array:
        flat, parts = texts.reshape(-1), [np.zeros(0, object)]
        for at in range(0, flat.size, PART):
            part = flat[at : at + PART].tolist()
            found = [change(text) for text in part if compared(text) not in stops]
            parts.append(np.array(found, object))
        made = np.concatenate(parts)
        if texts.ndim > 1 and len(texts) != 1:
            return made.reshape(texts.shape)
        return (made if made.size else np.array([""], object)).reshape(*texts.shape[:-1], -1)

    return compute


@kernel("StringSplit")
def split(site: Site) -> Made:
    """Split every text at a delimiter, or at white space; say how many pieces there are."""
    delimiter = site.attribute("delimiter") or None
    most = site.attribute("maxsplit")
    times = -1 if most is None else int(most)
    is_alone = site.output_count == 1

    def compute(texts: Array) -> Any:
        made, counts = _side_by_side(site, texts, lambda text: text.split(delimiter, times), "")
        return made if is_alone else (made, counts)

    return compute


def _side_by_side(site: Site, texts: Array, cut: _Cut, padding: str) -> tuple[Array, Array]:
    """Put the pieces of every text on an axis of their own, as long as most of them need.

    One text after the other: nothing ends a run while NumPy fills an array of objects.
    """
    limit, most = output_limit(site.scope), site.scope.limits.max_elements
    rows: list[list[str]] = []
    longest = 0
    for at in range(0, texts.size, PART):
        for text in texts.reshape(-1)[at : at + PART].tolist():
            rows.append(cut(text))
            if len(rows[-1]) > longest:
                longest = len(rows[-1])
                check_size((texts.size, longest), _OBJECTS, limit)
                check_texts((texts.size, longest), most)
    with objects(texts.size * longest) as made:
        for place, row in enumerate(rows):
            start, end = place * longest, place * longest + len(row)
            made[start:end] = row
            made[end : start + longest] = padding
    counts = np.array(list(map(len, rows)), np.int64)
    return made.reshape(*texts.shape, longest), counts.reshape(texts.shape)


@kernel("RegexFullMatch")
def match(site: Site) -> Made:
    """Say of every text whether the whole of it matches."""
    matches = _pattern(site, site.attribute("pattern", ""), longest=False).fullmatch

    def compute(texts: Array) -> Array:
        found = [matches(text) is not None for text in texts.reshape(-1).tolist()]
        return np.array(found, np.bool_).reshape(texts.shape)

    return part_by_part(compute)


@kernel("Tokenizer", domain=MICROSOFT)
def tokenize(site: Site) -> Made:
    """Put the tokens of every text on an axis of their own, as long as most of them need."""
    cut, least = _cutter(site), site.attribute("mincharnum", 1)
    padding = site.attribute("pad_value", "")
    marked = site.attribute("mark", 0)

    def tokens(text: str) -> list[str]:
        found = [token for token in cut(text) if len(token) >= least]
        return [_START, *found, _END] if marked else found

    def compute(texts: Array) -> Array:
        made, counts = _side_by_side(site, texts, tokens, padding)
        return made[..., :0] if marked and counts.max(initial=0) == _MARKS else made

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
