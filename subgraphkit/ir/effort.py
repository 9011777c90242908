"""An estimate of how much a node computes, from the sizes of what it reads and makes."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from subgraphkit.ir.graph import Node
from subgraphkit.types import DataType, Shape

MOST_AT_BIND: Final = 1 << 28
"""Multiplications and additions of which computing something beforehand is not noticed."""

_WITHOUT_END: Final = 1 << 62
"""The estimate where sizes say nothing: what is computed follows from data or attributes."""

_PER_ELEMENT: Final = 16
"""An operator that looks at each element once takes as long for it as this many products do."""

_PER_OBJECT: Final = 512
"""The same where elements are texts, or looked up in what a node states."""


def effort_of(node: Node, read: Sequence[int] | None = None) -> int:
    """Return about how many multiplications and additions a node takes.

    Args:
        node: The node.
        read: Elements of its inputs; by their types, open dimensions counted as 1, if not given.
    """
    if node.op_type in _ENDLESS:
        return _WITHOUT_END
    if read is None:
        read = [elements(node.graph.shape(name)) for name in node.inputs]
    made = [elements(node.graph.shape(name)) for name in node.outputs]
    most_read, most_made = max(read, default=0), max(made, default=0)
    if node.domain or DataType.STRING in map(node.graph.dtype, node.outputs):
        return _PER_OBJECT * max(most_read, most_made)
    return _MEASURES.get(node.op_type, _looks)(node, most_read, most_made)


@lru_cache(maxsize=4096)
def elements(shape: Shape | None) -> int:
    """Return the number of elements, open dimensions counted as 1."""
    return math.prod([dim for dim in shape or () if isinstance(dim, int)])


def _looks(_: Node, read: int, made: int) -> int:
    return _PER_ELEMENT * max(read, made)


def _picks(_: Node, read: int, made: int) -> int:
    del read
    return _PER_ELEMENT * made


def _multiplies(node: Node, read: int, made: int) -> int:
    return max(made * math.isqrt(read), _looks(node, read, made))


def _slides(node: Node, read: int, made: int) -> int:
    window: int = math.prod(node.attribute("kernel_shape", ()))
    return max(made * window, _looks(node, read, made))


def _looks_around(node: Node, read: int, made: int) -> int:
    return made * int(node.attribute("size", 1)) + _looks(node, read, made)


def _contracts(node: Node, read: int, made: int) -> int:
    """Count every combination of what the letters of an equation stand for."""
    equation = str(node.attribute("equation", ""))
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, place in zip(terms, range(len(node.inputs)), strict=False):
        for letter, dim in zip(term, node.shape(place) or (), strict=False):
            sizes[letter] = max(sizes.get(letter, 1), dim if isinstance(dim, int) else 1)
    pair = math.prod(sizes.values()) if len(terms) > 2 else 0  # noqa: PLR2004 (else a product)
    return max(pair, _multiplies(node, read, made))


_Measure = Callable[[Node, int, int], int]

_PRODUCTS: Final = (
    "Conv", "ConvInteger", "ConvTranspose", "DFT", "Gemm", "MatMul", "MatMulInteger", "QLinearConv",
    "QLinearMatMul", "Resize", "TopK",
)  # fmt: skip
_MEASURES: Final[Mapping[str, _Measure]] = {
    "Einsum": _contracts,
    "LRN": _looks_around,
    **dict.fromkeys(("Slice", "Reshape", "GatherND", "GatherElements", "Gather"), _picks),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _slides),
    **dict.fromkeys(_PRODUCTS, _multiplies),
}

_ENDLESS: Final = frozenset(
    {"Attention", "CausalConvWithState", "Col2Im", "DeformConv", "Det", "FlexAttention", "GRU",
     "GridSample", "If", "LSTM", "LinearAttention", "Loop", "MaxRoiPool", "MultiHeadAttention",
     "NonMaxSuppression", "RNN", "RegexFullMatch", "RoiAlign", "STFT", "Scan", "SequenceMap",
     "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
     "Unique"}
)  # fmt: skip
