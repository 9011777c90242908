"""The reasons for the place of a node, and the root causes of refusals.

One open dimension of an input makes the shapes of hundreds of values unknown. A backend then
refuses their nodes one by one. Root causes put these together again: sizes that you have not given,
a node that decides sizes, or another reason.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Final, Literal

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.claiming.claim import RefusedBy
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.texts import count_of, list_texts, printable
from subgraphkit.types import TensorType, slot


@dataclass(frozen=True, slots=True)
class AskedProperty:
    """The answer of one property for one node.

    Attributes:
        backend: Name of the backend.
        property: Name of its property.
        verdict: ``"refused"``, ``"claimed"`` or ``"not asked"`` (the node was claimed before its
            turn came).
        refusal: The reason, where it refused.
    """

    backend: str
    property: str
    verdict: Literal["refused", "claimed", "not asked"]
    refusal: Refusal | None = None

    def __str__(self) -> str:
        """Render as ``tensorrt (main): refused, dtype: ...``."""
        reason = f", {self.refusal}" if self.refusal is not None else ""
        return f"{self.backend} ({self.property}): {self.verdict}{reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The subgraph of a node, and the answers that put it there.

    Attributes:
        node: Index of the node.
        label: How messages name it.
        subgraph: The subgraph it is in; empty if it was left out at bind.
        is_constant: Whether it only states a constant or was left out. Such a node travels with its
            first reader, and nobody is asked about it.
        asked: Every property in the order of its turn.
        left_out: The reason why it was left out at bind, such as ``computed at bind``; else empty.
    """

    node: int
    label: str
    subgraph: str
    is_constant: bool
    asked: tuple[AskedProperty, ...]
    left_out: str = ""

    def __str__(self) -> str:
        """Render for people; equal refusals of several properties of a backend are one line."""
        if self.left_out:
            return f"{printable(self.label)}: in no subgraph\n  left out: {self.left_out}"
        lines = [f"{self.label}: in subgraph {self.subgraph}"]
        if self.is_constant:
            lines.append("  constant: travels with its first reader, nobody is asked about it")
        lines += [f"  {asked}" for asked in self._merge_refusals()]
        return "\n".join(map(printable, lines))

    def _merge_refusals(self) -> Iterable[AskedProperty]:
        """Return the answers; properties with the same reason are under one name."""
        lines: dict[object, AskedProperty] = {}
        for place, asked in enumerate(self.asked):
            said = (asked.backend, asked.refusal) if asked.verdict == "refused" else place
            if said in lines:
                names = f"{lines[said].property}, {asked.property}"
                asked = replace(asked, property=names)  # noqa: PLW2901 (what is shown of it)
            lines[said] = asked
        return lines.values()


def explain(partitioning: PartitioningData, node: int) -> Explanation:
    """Return the subgraph of a node, and the answers of the properties asked about it."""
    if left_out := partitioning.graph.left_out.get(node):
        label = partitioning.graph.nodes[node].label
        return Explanation(node, label, "", is_constant=True, asked=(), left_out=left_out)
    partitioning.check_node(node)
    view = partitioning.graph.nodes[node]
    home = partitioning.home_of(view.id)
    is_constant = partitioning.graph.is_constant_node(view.id)
    asked = () if is_constant else _list_verdicts(partitioning, view)
    return Explanation(view.id, view.label, home.id, is_constant, asked)


def _list_verdicts(partitioning: PartitioningData, node: Node) -> tuple[AskedProperty, ...]:
    passes = partitioning.passes
    claimed = partitioning.claimed_by[partitioning.place_of(partitioning.home_of(node.id).id)]
    found = []
    for index, (claim, column) in enumerate(zip(passes.claims, passes.columns, strict=True)):
        asked = claim.backend.name, claim.property_name
        refusal = column.of(node.id) if column is not None else None
        if index == claimed:
            found.append(AskedProperty(*asked, "claimed"))
        elif refusal is not None:
            found.append(AskedProperty(*asked, "refused", refusal))
        else:
            found.append(AskedProperty(*asked, "not asked"))
    return tuple(found)


# -- root causes -----------------------------------------------------------------------------------


_Origins = frozenset[str | int]
_NONE: Final[_Origins] = frozenset()
# How many origins of one value are kept: the sets would grow with the graph otherwise.
_MOST_ORIGINS: Final = 8

_DECIDED_BY_DATA: Final = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
_OF_SHAPES: Final = frozenset({"Shape", "Size"})
_MANY_AXES: Final = 4  # pictures: batch, channels, height, width
_SIZES: Final = (1, 128, 224)  # a batch, a sequence, an edge of a picture


@dataclass(frozen=True, slots=True)
class Cause:
    """The nodes that one backend refused for one reason.

    Attributes:
        backend: Name of the backend.
        code: The code of the refusals.
        text: The reason, once for all of them.
        nodes: The nodes, each once.
        sizes: The sizes to give in ``shapes`` so that the reason goes: named dimensions, or axes of
            inputs, as ``x[2]``. Empty if shapes are not the reason.
    """

    backend: str
    code: str
    text: str
    nodes: tuple[int, ...]
    sizes: tuple[str, ...] = ()


class Roots:
    """The sources of unknown shapes: inputs, or nodes that decide them."""

    def __init__(self, graph: BoundGraph) -> None:
        self._graph = graph

    def of(self, node: int, refusal: Refusal) -> _Origins:
        """Return the open sizes (text) and the nodes (numbers) a refusal comes of, if it does."""
        if refusal.code not in {"dynamic_shape", "not_constant"}:
            return _NONE
        # A shape that is computed is no constant as long as a size in it is open.
        wanted = refusal.code == "dynamic_shape"
        table = self._graph.table
        values = (*self._graph.read_by(node), *(table.outputs[node] if wanted else ()))
        found = [self._origins.get(one, _NONE) for one in values if self._is_open(one) is wanted]
        return _NONE.union(*found)

    def sizes(self, origins: _Origins) -> list[str]:
        """Return the open sizes among origins, in the order of the inputs."""
        return [one for one in self._slots if one in origins]

    @cached_property
    def _slots(self) -> Mapping[str, None]:
        graph = self._graph
        return dict.fromkeys(one for name in graph.inputs for one in _open_slots(graph, name))

    def _is_open(self, value: str) -> bool:
        type_ = self._graph.types.get(value)
        return not isinstance(type_, TensorType) or type_.element_count is None

    @cached_property
    def _origins(self) -> Mapping[str, _Origins]:
        graph, table = self._graph, self._graph.table
        origins: dict[str, _Origins] = {
            name: frozenset(_open_slots(graph, name)) for name in graph.inputs
        }
        symbols = _NONE.union(*origins.values())
        for node in graph.order:
            read = graph.read_by(node)
            open_ones = [name for name in read if self._is_open(name)]
            inherited = _NONE.union(*(origins.get(name, _NONE) for name in read))
            for name in table.outputs[node]:
                if self._is_open(name):
                    shape = graph.shape(name)
                    dims = ("",) if shape is None else shape
                    own = frozenset(dim or "" for dim in dims if not isinstance(dim, int))
                    origin = own if own and own <= symbols else inherited
                    if table.op_types[node] in _DECIDED_BY_DATA or not origin:
                        origin = frozenset((node,))
                elif not open_ones or table.op_types[node] in _OF_SHAPES:
                    origin = inherited  # arithmetic on sizes
                else:
                    continue
                if origin:
                    origins[name] = frozenset(sorted(origin, key=str)[:_MOST_ORIGINS])
        return origins


def find_causes(
    graph: BoundGraph, backend: str, refused: Iterable[tuple[int, Refusal]], roots: Roots
) -> list[Cause]:
    """Group the refusals of one backend by root cause, the most nodes first.

    ``refused``: Nodes with reasons; a node may come more than once.
    """
    texts: dict[tuple[str, str], dict[str, None]] = {}
    nodes: dict[tuple[str, str], dict[int, None]] = {}
    sizes: dict[str, None] = {}
    for node, refusal in refused:
        origins = roots.of(node, refusal)
        maker = min((one for one in origins if isinstance(one, int)), default=None)
        code, text = refusal.code, refusal.text
        if maker is not None:
            code = "dynamic_shape"
            text = f"the shape of what {Node(graph, maker).label} makes is known only at a run"
        elif origins:
            code, text = "dynamic_shape", ""
            sizes.update(dict.fromkeys(roots.sizes(origins)))
        key = (code, _nameless(text, Node(graph, node)))
        texts.setdefault(key, {})[text] = None
        nodes.setdefault(key, {})[node] = None
    causes = []
    for (code, general), found in nodes.items():
        said = texts[code, general]
        if not general:
            causes.append(Cause(backend, code, _of_sizes(tuple(sizes)), tuple(found), tuple(sizes)))
        else:
            text = next(iter(said)) if len(said) == 1 else general
            causes.append(Cause(backend, code, text, tuple(found)))
    return sorted(causes, key=lambda one: (-len(one.nodes), one.code, one.text))


def refused_for_good(partitioning: PartitioningData) -> Iterator[tuple[int, Sequence[RefusedBy]]]:
    """Go through the refused nodes, with the refusals by backends they did not end on."""
    for node, refused in partitioning.refusals.items():
        home = partitioning.home_of(node).backend
        lasting = [one for one in refused if one.backend != home]
        if lasting:
            yield node, lasting


def find_all_causes(partitioning: PartitioningData) -> list[Cause]:
    """Group the refusals of nodes that run by root cause, backend by backend."""
    graph = partitioning.graph
    by_backend: dict[str, list[tuple[int, Refusal]]] = {name: [] for name in partitioning.backends}
    for node, refused in refused_for_good(partitioning):
        if partitioning.home_of(node).outputs:
            for one in refused:
                by_backend[one.backend].append((node, one.refusal))
    roots = Roots(graph)
    found = (find_causes(graph, name, refused, roots) for name, refused in by_backend.items())
    return [cause for causes in found for cause in causes]


def example_sizes(graph: BoundGraph, sizes: Sequence[str]) -> dict[str, int]:
    """Return sizes that a user might give: 1 for a batch, more for other axes."""
    found = dict.fromkeys(sizes, 1)
    for name in graph.inputs:
        shape = graph.shape(name) or ()
        for axis, dim in enumerate(shape):
            is_edge = len(shape) >= _MANY_AXES and axis > 1
            if axis and (one := slot(name, axis, dim)) in found:
                found[one] = _SIZES[1 + is_edge]
    return found


def symbol_words(sizes: Mapping[str, int]) -> str:
    """Return the words of the command that give sizes, as a shell takes them."""
    return " ".join(f"--symbol {quote(f'{name}={size}')}" for name, size in sizes.items())


def operators_of(graph: BoundGraph, nodes: Iterable[int]) -> str:
    """Name the operators of nodes, the most frequent first, two at most."""
    counts = Counter(Node(graph, node).qualified_op_type for node in nodes)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return list_texts(ranked, 2)


def _of_sizes(sizes: Sequence[str]) -> str:
    named = ", ".join(map(repr, sizes[:3])) + (" ..." if len(sizes) > 3 else "")  # noqa: PLR2004 (a line of text)
    return f"dimension {named} is open" if len(sizes) == 1 else f"dimensions {named} are open"


def _nameless(text: str, node: Node) -> str:
    """Return a reason without the names of the values of the node."""
    for name in (*node.inputs, *node.outputs):
        text = text.replace(repr(name), "'...'") if name else text
    return text


def _open_slots(graph: BoundGraph, name: str) -> list[str]:
    dims = enumerate(graph.shape(name) or ())
    return [slot(name, axis, dim) for axis, dim in dims if not isinstance(dim, int)]


def main_reason(causes: Iterable[Cause]) -> str:
    """Say in a sentence why most of the nodes that are refused are, or nothing if none is."""
    most = max(causes, key=lambda one: len(one.nodes), default=None)
    if most is None:
        return ""
    nodes = count_of(len(most.nodes), "node")
    return f"Main reason why not all are on {most.backend}: {most.text} ({nodes})."
