"""The values that attributes of operators may have beside the shapes that a node reads.

A key of the table is the name of an attribute. ``Operator.attribute`` wins where an operator has
its own meaning. Axes that are a constant input are judged alike. Unknown parts of a shape
contradict nothing.

Source: ONNX operator schemas, all versions; ONNX Runtime, ``docs/ContribOperators.md``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from subgraphkit.types import Shape


class Given(NamedTuple):
    """The rest of a node, beside the attribute in question.

    Attributes:
        shapes: Shapes of its inputs; None for one that is absent or not known.
    """

    shapes: Sequence[Shape | None]
    attributes: Mapping[str, Any]

    def shape(self, place: int) -> Shape:
        """Return the shape of an input; empty if there is none."""
        return (self.shapes[place] if place < len(self.shapes) else None) or ()

    def size(self, place: int, axis: int) -> int:
        """Return the size of an axis of an input; 0 if it is not known."""
        shape = self.shape(place)
        size = shape[axis] if -len(shape) <= axis < len(shape) else 0
        return size if isinstance(size, int) else 0


Fit: TypeAlias = Callable[[Any, Given], str]
"""From a value, and the rest of its node, to the allowed values; nothing if it is one."""


def _axis(value: Any, given: Given, *, more: int = 0, end: int = 0) -> str:
    """Judge axes of the first input, or of one with more axes."""
    if (shape := given.shapes[0] if given.shapes else None) is None:
        return ""
    rank = max(len(shape) + more, 1)  # a scalar is taken for a list of one
    least, most = -rank, rank - 1 + end
    if type(value) is int:
        if least <= value <= most:
            return ""
    elif not value or (least <= min(value) and max(value) <= most):
        return ""
    return f"{least} to {most}, because these are axes of {rank}"


def _axis_of_any(value: Any, given: Given) -> str:
    """Judge an axis of inputs that are all of one rank."""
    return next(filter(None, [_axis(value, Given([one], {})) for one in given.shapes]), "")


def _axes_to_be(value: Any, given: Given) -> str:
    if given.shapes[0] is None:
        return ""
    axes = value if isinstance(value, tuple) else (value,)
    rank = len(given.shapes[0]) + len(axes)
    different = len({axis % rank for axis in axes}) == len(axes)
    return _axis(axes, given, more=len(axes)) if different else "axes that differ"


def _axis_of_scales(value: Any, given: Given) -> str:
    """Judge the axis along which scales differ; one scale for all of a tensor has none."""
    differ = any(size != 1 for size in given.shape(1) if isinstance(size, int))
    return _axis(value, given) if differ else ""


def _batch_axes(value: Any, given: Given) -> str:
    ranks = [len(shape) for shape in given.shapes if shape is not None]
    if not ranks or value < min(ranks):
        return ""
    return f"0 to {min(ranks) - 1}, because what is read has rank {min(ranks)}"


def _per_axis(value: Any, given: Given, *, times: int = 1, without: int = 2) -> str:
    """Judge how many numbers there are: one or two for every axis, or every spatial axis."""
    shape = given.shapes[0] if given.shapes else None
    if shape is None or not value:
        return ""
    wanted = times * (len(shape) - without)
    return _count(value, wanted, f", because the input has rank {len(shape)}")


def _count(value: Any, wanted: int, why: str = "") -> str:
    return "" if len(value) == wanted else f"a list of {wanted}{why}"


def _as_many_as_blocks(value: Any, given: Given, *, times: int = 1) -> str:
    spatial = given.size(1, 0)
    return _count(value, times * spatial) if spatial and value else ""


def _kernel(value: Any, given: Given, *, weight: int) -> str:
    stated = given.shape(weight)[2:]
    if value == stated and len(given.shape(0)) == len(stated) + 2:
        return ""
    pairs = zip(value, stated, strict=False)
    if all(one == size for one, size in pairs if isinstance(size, int)):
        return _per_axis(value, given)
    return f"{list(stated)}, the shape of the weight"


def _groups(value: Any, given: Given, *, weight: int) -> str:
    if value == 1 and given.shape(0)[1:2] == given.shape(weight)[1:2]:
        return ""
    channels, maps, inner = given.size(0, 1), given.size(weight, 0), given.size(weight, 1)
    if channels and inner and value * inner != channels:
        return f"{channels}/{inner}, the channels by those of a group in the weight"
    return _divides(value, channels, "channels") or _divides(value, maps, "feature maps")


def _channel_groups(value: Any, given: Given) -> str:
    return _divides(value, given.size(0, 1), "channels")


def _divides(value: int, whole: int, what: str, prefix: str = "") -> str:
    return f"{prefix}a divisor of {whole}, the number of {what}" if value and whole % value else ""


def _heads(value: Any, given: Given, *, of: tuple[int, ...] = (0,)) -> str:
    """Judge among how many heads features are divided, unless heads have an axis of their own."""
    widths = [given.size(place, 2) for place in of if len(given.shape(place)) == len("BSF")]
    return next(filter(None, [_divides(value, width, "features") for width in widths]), "")


def _key_heads(value: Any, given: Given) -> str:
    stated = given.attributes.get("q_num_heads", given.attributes.get("num_heads", 0))
    return _heads(value, given, of=(1, 2)) or _divides(value, stated, "heads of queries")


def _hidden_size(value: Any, given: Given) -> str:
    size = given.size(2, 2)
    return f"{size}, the last size of the recurrence weight" if size not in {0, value} else ""


def _directions(value: Any, given: Given) -> str:
    stated, count = given.size(1, 0), 1 + (value == "bidirectional")
    if stated in {0, count}:
        return ""
    return f"what has {stated} directions, as the weight has"


def _activations(value: Any, given: Given, *, each: int) -> str:
    least = each * (1 + (given.attributes.get("direction") == "bidirectional"))
    return f"{least} names" if 0 < len(value) < least else ""


def _per_scan_input(value: Any, given: Given) -> str:
    return _count(value, given.attributes.get("num_scan_inputs", len(value))) if value else ""


def _grams(given: Given) -> tuple[int, list[tuple[int, int]]]:
    """Return how many entries the pool has, and those of n-grams of each size, from 1 on.

    The second is how many n-grams they are, and how many entries are left over.
    """
    pool = max(len(given.attributes.get(name, ())) for name in ("pool_int64s", "pool_strings"))
    ends = [*given.attributes.get("ngram_counts", ()), pool]
    return pool, [divmod(end - begin, size) for size, (begin, end) in enumerate(pairwise(ends), 1)]


def _gram_places(value: Any, given: Given) -> str:
    pool, grams = _grams(given)
    if min(value, default=0) >= 0 and all(count >= 0 and not left for count, left in grams):
        return ""
    return f"ascending places in a pool of {pool}, with whole n-grams between them"


def _gram_numbers(value: Any, given: Given) -> str:
    grams = sum(count for count, _ in _grams(given)[1])
    if len(value) == grams and min(value, default=0) >= 0:
        return ""
    return f"{grams} places in the output, one for each n-gram of the pool"


def _one_way(_: Any, given: Given) -> str:
    """Judge an input that is repeated along the axes of the first, but not the other way round."""
    whole, part = given.shape(0)[::-1], given.shape(1)[::-1]
    is_of_channels = len(part) == 1 and part[0] == given.size(0, 1)  # before operator set 7
    if not whole or is_of_channels:
        return ""
    known = [two for two in zip(whole, part, strict=False) if all(isinstance(n, int) for n in two)]
    fits = all(size in {1, to} for to, size in known)
    if fits and len(part) <= len(whole):
        return ""
    return f"what is repeated along {list(given.shape(0))}, the shape of the first input"


def _element_count(value: Any, given: Given) -> str:
    shape = given.shape(0)
    whole = [size for size in shape if isinstance(size, int)]
    if not shape or len(whole) != len(shape) or -1 in value:
        return ""
    keeps = not given.attributes.get("allowzero", 0)
    kept = [whole[at] if not to and keeps else to for at, to in enumerate(value[: len(whole)])]
    found = prod(kept) * prod(value[len(whole) :])
    return "" if found == prod(whole) else f"that of {prod(whole)} elements"


def _lengths(value: Any, given: Given) -> str:
    most = given.size(0, given.attributes.get("time_axis", 0))
    if min(value, default=0) >= 0 and (not most or max(value, default=0) <= most):
        return ""
    return f"lengths up to {most}, the size of the time axis" if most else "lengths of 0 or more"


def leave(_: Any, _given: Given) -> str:
    """Judge nothing."""
    return ""


_BOTH_ENDS: Final = partial(_per_axis, times=2)
_BROADCASTING: Final = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub")
_CONVOLUTIONS: Final = ("Conv", "ConvInteger", "DeformConv", "FusedConv")
_RECURRENT: Final = ("GRU", "LSTM", "RNN")

_FITS: Final[Mapping[str, Fit]] = {
    **{f"{op_type}.axis": leave for op_type in (*_BROADCASTING, "Xor", "ConcatFromSequence")},
    **{f"{op_type}.direction": _directions for op_type in _RECURRENT},
    **{f"{op_type}.hidden_size": _hidden_size for op_type in _RECURRENT},
    **{f"{op_type}.group": partial(_groups, weight=1) for op_type in _CONVOLUTIONS},
    **{
        f"{op_type}.kernel_shape": partial(_kernel, weight=1)
        for op_type in (*_CONVOLUTIONS, "ConvTranspose")
    },
    "Attention.kv_num_heads": _key_heads,
    "Attention.q_num_heads": _heads,
    "Concat.axis": _axis_of_any,
    "Col2Im.dilations": _as_many_as_blocks,
    "Col2Im.pads": partial(_as_many_as_blocks, times=2),
    "Col2Im.strides": _as_many_as_blocks,
    "DepthToSpace.blocksize": lambda value, given: _divides(
        value * value, given.size(0, 1), "channels", "what squared is "
    ),
    "DequantizeLinear.axis": _axis_of_scales,
    "Flatten.axis": partial(_axis, end=1),
    "GRU.activations": partial(_activations, each=2),
    "LSTM.activations": partial(_activations, each=3),
    "LinearAttention.q_num_heads": _heads,
    "OneHot.axis": partial(_axis, more=1),
    "Pad.paddings": partial(_per_axis, times=2, without=0),
    "Pad.pads": partial(_per_axis, times=2, without=0),
    "QLinearConv.group": partial(_groups, weight=3),
    "QLinearConv.kernel_shape": partial(_kernel, weight=3),
    "QuantizeLinear.axis": _axis_of_scales,
    "RNN.activations": partial(_activations, each=1),
    "RotaryEmbedding.num_heads": _heads,
    "Slice.ends": lambda value, it: _count(value, len(it.attributes.get("starts", value))),
    "SpaceToDepth.blocksize": lambda value, given: (
        _divides(value, given.size(0, 2), "rows") or _divides(value, given.size(0, 3), "columns")
    ),
    "TfIdfVectorizer.ngram_counts": _gram_places,
    "TfIdfVectorizer.ngram_indexes": _gram_numbers,
    "Unsqueeze.axes": _axes_to_be,
    "axes": _axis,
    "axis": _axis,
    "batch_dims": _batch_axes,
    "dilations": _per_axis,
    "group": _channel_groups,
    "kernel_shape": _per_axis,
    "num_groups": _channel_groups,
    "offset_group": _channel_groups,
    "output_padding": _per_axis,
    "pads": _BOTH_ENDS,
    "perm": partial(_per_axis, without=0),
    "scales": partial(_per_axis, without=0),
    "scan_input_axes": _per_scan_input,
    "scan_input_directions": _per_scan_input,
    "strides": _per_axis,
}


OF_SHAPES: Final[Mapping[str, Fit]] = {"PRelu.slope": _one_way}
"""Inputs that are judged by their shapes, not by their elements."""

# Inputs that are judged where they are constant, beside axes.
_OF_VALUES: Final[Mapping[str, Fit]] = {
    "Reshape.shape": _element_count,
    "Resize.sizes": lambda value, _: "sizes of 0 or more" * (min(value, default=0) < 0),
    "ReverseSequence.sequence_lens": _lengths,
}

_AXES: Final = frozenset({"axes", "axis"})
# Without these onnx infers no shape, so a misfit comes up there, and is judged then.
_INFERRED_BY: Final = frozenset(
    {
        *(
            f"{op_type}.{name}"
            for op_type in ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
            for name in ("dilations", "pads", "strides")
        ),
        "LayerNormalization.axis",
        "Softmax.axis",
        "Transpose.perm",
    }
)


def fit_of(op_type: str, name: str, *, is_typed: bool) -> Fit:
    """Return the judge of an attribute."""
    if is_typed and f"{op_type}.{name}" in _INFERRED_BY:
        return leave
    return _FITS.get(f"{op_type}.{name}") or _FITS.get(name, leave)


def fit_of_input(op_type: str, name: str) -> Fit:
    """Return the judge of an input."""
    if name in _AXES:
        return fit_of(op_type, name, is_typed=False)
    key = f"{op_type}.{name}"
    return OF_SHAPES.get(key) or _OF_VALUES.get(key, leave)
