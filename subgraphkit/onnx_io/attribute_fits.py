"""The values that attributes of operators may have beside the shapes that a node reads.

A key of the table is the name of an attribute; ``Operator.attribute`` goes before it, where an
operator means something of its own. What is not known of a shape contradicts nothing.

Source: ONNX operator schemas, all versions; ONNX Runtime, ``docs/ContribOperators.md``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from onnx import defs

from subgraphkit.ir import Graph, Node
from subgraphkit.onnx_io.attribute_rules import not_allowed, shown
from subgraphkit.types import Shape, ValueType

__all__ = ["require_fitting"]


class _Given(NamedTuple):
    """What a node has beside the attribute in question.

    Attributes:
        shapes: Shapes of its inputs; None for one that is absent or not known.
        attributes: Its attributes.
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


_Fit: TypeAlias = Callable[[Any, _Given], str]
"""From a value, and what is beside it, to what is allowed; nothing if it is."""


def _axis(value: Any, given: _Given, *, more: int = 0, end: int = 0) -> str:
    """Judge axes of the first input, or of what gets more axes.

    Args:
        value: One axis, or several.
        given: What is beside it.
        more: How many axes are added.
        end: 1 if the place behind the last axis counts as well.
    """
    shape = given.shapes[0] if given.shapes else None
    if shape is None:
        return ""
    rank = max(len(shape) + more, 1)  # a scalar is taken for a list of one
    least, most = -rank, rank - 1 + end
    if type(value) is int:
        if least <= value <= most:
            return ""
    elif not value or (least <= min(value) and max(value) <= most):
        return ""
    return f"{least} to {most}, because these are axes of {rank}"


def _axis_of_any(value: Any, given: _Given) -> str:
    """Judge an axis of inputs that are all of one rank."""
    return next(filter(None, [_axis(value, _Given([one], {})) for one in given.shapes]), "")


def _axes_to_be(value: Any, given: _Given) -> str:
    if given.shapes[0] is None:
        return ""
    rank = len(given.shapes[0]) + len(value)
    different = len({axis % rank for axis in value}) == len(value)
    return _axis(value, given, more=len(value)) if different else "axes that differ"


def _axis_of_scales(value: Any, given: _Given) -> str:
    """Judge the axis along which scales differ; one scale for all of a tensor has none."""
    differ = any(size != 1 for size in given.shape(1) if isinstance(size, int))
    return _axis(value, given) if differ else ""


def _batch_axes(value: Any, given: _Given) -> str:
    ranks = [len(shape) for shape in given.shapes if shape is not None]
    if not ranks or value < min(ranks):
        return ""
    return f"0 to {min(ranks) - 1}, because what is read has rank {min(ranks)}"


def _per_axis(value: Any, given: _Given, *, times: int = 1, without: int = 2) -> str:
    """Judge how many numbers there are: one or two for every axis, or every spatial axis."""
    shape = given.shapes[0] if given.shapes else None
    if shape is None or not value:
        return ""
    wanted = times * (len(shape) - without)
    return _count(value, wanted, f", because the input has rank {len(shape)}")


def _count(value: Any, wanted: int, why: str = "") -> str:
    return "" if len(value) == wanted else f"a list of {wanted}{why}"


def _as_many_as_blocks(value: Any, given: _Given, *, times: int = 1) -> str:
    spatial = given.size(1, 0)
    return _count(value, times * spatial) if spatial and value else ""


def _kernel(value: Any, given: _Given, *, weight: int) -> str:
    stated = given.shape(weight)[2:]
    if value == stated and len(given.shape(0)) == len(stated) + 2:
        return ""
    pairs = zip(value, stated, strict=False)
    if all(one == size for one, size in pairs if isinstance(size, int)):
        return _per_axis(value, given)
    return f"{list(stated)}, the shape of the weight"


def _groups(value: Any, given: _Given, *, weight: int) -> str:
    if value == 1 and given.shape(0)[1:2] == given.shape(weight)[1:2]:
        return ""
    channels, maps, inner = given.size(0, 1), given.size(weight, 0), given.size(weight, 1)
    if channels and inner and value * inner != channels:
        return f"{channels}/{inner}, the channels by those of a group in the weight"
    return _divides(value, channels, "channels") or _divides(value, maps, "feature maps")


def _channel_groups(value: Any, given: _Given) -> str:
    return _divides(value, given.size(0, 1), "channels")


def _channel_blocks(value: Any, given: _Given) -> str:
    return _divides(value * value, given.size(0, 1), "channels", "what squared is ")


def _pixel_blocks(value: Any, given: _Given) -> str:
    return _divides(value, given.size(0, 2), "rows") or _divides(value, given.size(0, 3), "columns")


def _divides(value: int, whole: int, what: str, prefix: str = "") -> str:
    return f"{prefix}a divisor of {whole}, the number of {what}" if value and whole % value else ""


def _heads(value: Any, given: _Given, *, of: tuple[int, ...] = (0,)) -> str:
    """Judge among how many heads features are divided, unless heads have an axis of their own."""
    widths = [given.size(place, 2) for place in of if len(given.shape(place)) == len("BSF")]
    return next(filter(None, [_divides(value, width, "features") for width in widths]), "")


def _key_heads(value: Any, given: _Given) -> str:
    stated = given.attributes.get("q_num_heads", given.attributes.get("num_heads", 0))
    return _heads(value, given, of=(1, 2)) or _divides(value, stated, "heads of queries")


def _hidden(value: Any, given: _Given) -> str:
    size = given.size(2, 2)
    return f"{size}, the last size of the recurrence weight" if size not in {0, value} else ""


def _directions(value: Any, given: _Given) -> str:
    stated, count = given.size(1, 0), 1 + (value == "bidirectional")
    if stated in {0, count}:
        return ""
    return f"what has {stated} directions, as the weight has"


def _activations(value: Any, given: _Given, *, each: int) -> str:
    least = each * (1 + (given.attributes.get("direction") == "bidirectional"))
    return f"{least} names" if 0 < len(value) < least else ""


def _per_scan_input(value: Any, given: _Given) -> str:
    return _count(value, given.attributes.get("num_scan_inputs", len(value))) if value else ""


def _as_many_as_starts(value: Any, given: _Given) -> str:
    return _count(value, len(given.attributes.get("starts", value)))


def _grams(given: _Given) -> tuple[int, list[tuple[int, int]]]:
    """Return how many entries the pool has, and those of n-grams of each size, from 1 on.

    The second is how many n-grams they are, and how many entries are left over.
    """
    pool = max(len(given.attributes.get(name, ())) for name in ("pool_int64s", "pool_strings"))
    ends = [*given.attributes.get("ngram_counts", ()), pool]
    return pool, [divmod(end - begin, size) for size, (begin, end) in enumerate(pairwise(ends), 1)]


def _gram_places(value: Any, given: _Given) -> str:
    pool, grams = _grams(given)
    if min(value, default=0) >= 0 and all(count >= 0 and not left for count, left in grams):
        return ""
    return f"ascending places in a pool of {pool}, with whole n-grams between them"


def _gram_numbers(value: Any, given: _Given) -> str:
    grams = sum(count for count, _ in _grams(given)[1])
    if len(value) == grams and min(value, default=0) >= 0:
        return ""
    return f"{grams} places in the output, one for each n-gram of the pool"


def _leave(value: Any, given: _Given) -> str:
    del value, given
    return ""


_BOTH_ENDS: Final = partial(_per_axis, times=2)
_BROADCASTING: Final = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub")
_RECURRENT: Final = ("GRU", "LSTM", "RNN")

_FITS: Final[Mapping[str, _Fit]] = {
    **{f"{op_type}.axis": _leave for op_type in (*_BROADCASTING, "Xor", "ConcatFromSequence")},
    **{f"{op_type}.direction": _directions for op_type in _RECURRENT},
    **{f"{op_type}.hidden_size": _hidden for op_type in _RECURRENT},
    "Attention.kv_num_heads": _key_heads,
    "Attention.q_num_heads": _heads,
    "Concat.axis": _axis_of_any,
    "Col2Im.dilations": _as_many_as_blocks,
    "Col2Im.pads": partial(_as_many_as_blocks, times=2),
    "Col2Im.strides": _as_many_as_blocks,
    "Conv.group": partial(_groups, weight=1),
    "Conv.kernel_shape": partial(_kernel, weight=1),
    "ConvInteger.group": partial(_groups, weight=1),
    "ConvInteger.kernel_shape": partial(_kernel, weight=1),
    "ConvTranspose.kernel_shape": partial(_kernel, weight=1),
    "DeformConv.group": partial(_groups, weight=1),
    "DeformConv.kernel_shape": partial(_kernel, weight=1),
    "DepthToSpace.blocksize": _channel_blocks,
    "DequantizeLinear.axis": _axis_of_scales,
    "Flatten.axis": partial(_axis, end=1),
    "FusedConv.group": partial(_groups, weight=1),
    "FusedConv.kernel_shape": partial(_kernel, weight=1),
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
    "Slice.ends": _as_many_as_starts,
    "SpaceToDepth.blocksize": _pixel_blocks,
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
"""Without these onnx infers no shape: what does not fit comes up there, and is looked at then."""


@lru_cache(maxsize=4096)
def _fits_of(op_type: str, domain: str, version: int, *, is_typed: bool) -> Mapping[str, _Fit]:
    """Return what judges the attributes of an operator, by name; those that nothing judges not."""
    if (domain, op_type) == ("com.microsoft", "FusedConv"):
        op_type, domain, version = "Conv", "", 11
    if domain or not defs.has(op_type, version, domain):
        return {}
    names: Iterable[str] = defs.get_schema(op_type, version, domain).attributes
    found = {name: _FITS.get(f"{op_type}.{name}") or _FITS.get(name, _leave) for name in names}
    return {
        name: fit
        for name, fit in found.items()
        if fit is not _leave and not (is_typed and f"{op_type}.{name}" in _INFERRED_BY)
    }


def require_fitting(
    graph: Graph,
    types: Mapping[str, ValueType],
    bodies: Mapping[int, Mapping[str, Graph]],
    nodes: Collection[int],
    *,
    are_typed: bool = False,
) -> None:
    """Check the attributes of nodes, and of those in bodies, beside the shapes that they read.

    Args:
        graph: The graph of the nodes.
        types: Types of the values in their scope, as far as they are known.
        bodies: Bodies with their values typed, by node and attribute name.
        nodes: The nodes.
        are_typed: Whether onnx has inferred without complaint what the nodes make.

    Raises:
        InvalidModelError: An attribute is not what the operator allows (SGK218).
    """
    table, opsets = graph.table, graph.opset_imports
    op_types, domains, attributes = table.op_types, table.domains, table.attributes
    judged = {
        key: found
        for key in set(zip(op_types, domains, strict=True))
        if (found := _fits_of(*key, opsets.get(key[1], 1), is_typed=are_typed))
    }
    names = {op_type for op_type, _ in judged}
    for node in [node for node in nodes if op_types[node] in names]:
        fits = judged.get((op_types[node], domains[node]))
        if fits and (stated := attributes[node]):
            _require_of_node(graph, node, types, stated, fits)
    for node, held in {**table.bodies, **bodies}.items():
        for body in held.values() if len(nodes) > 1 or node in nodes else ():
            scope = {**types, **body.types}
            require_fitting(body, scope, body.table.bodies, body.order)


def _require_of_node(
    graph: Graph,
    node: int,
    types: Mapping[str, ValueType],
    stated: Mapping[str, Any],
    fits: Mapping[str, _Fit],
) -> None:
    given = None
    for name in stated:
        fit = fits.get(name)
        if fit is None:
            continue
        if given is None:
            read = graph.table.inputs[node]
            given = _Given([getattr(types.get(one), "shape", None) for one in read], stated)
        if allowed := fit(stated[name], given):
            label = f"node {Node(graph, node).label}"
            raise not_allowed(label, name, shown(stated[name]), allowed)
