"""Texts cut into tokens.

Source: operator ``Tokenizer`` of the domain ``com.microsoft``, which converters of text pipelines
write for want of one of ONNX.
"""

import re
import warnings
from collections.abc import Callable
from typing import Final

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__: list[str] = []

_START: Final = "\x02"
_END: Final = "\x03"
_CHOICE: Final = re.compile(r"\||[?*+}][?]")

_Cut = Callable[[str], list[str]]


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


def _between(pattern: re.Pattern[str], text: str) -> list[str]:
    ends = [found.span() for found in pattern.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    return [text[a:b] for a, b in zip(starts, [*(s for s, _ in ends), len(text)], strict=True)]


def _pattern(site: Site, text: str) -> re.Pattern[str]:
    """Compile an expression of RE2, whose classes are of ASCII letters.

    ONNX Runtime takes the longest match and Python the first alternative that does, so that
    expressions in which it may matter are refused.
    """
    if _CHOICE.search(text):
        told = f"{site.node.label}: expression {text!r} has alternatives, nothing here takes those"
        raise Unsupported(told, code="attribute")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what means something else in RE2, such as [[:alpha:]]
        try:
            return re.compile(text, re.ASCII)
        except (re.error, FutureWarning) as error:
            told = f"{site.node.label}: expression {text!r} is not understood here: {error}"
            raise Unsupported(told, code="attribute") from error
