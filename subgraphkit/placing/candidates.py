"""Regions that may be exchanged: a network cut at narrow places, equal pieces known as equal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subgraphkit.binding import BoundModel
from subgraphkit.ir import Node, make_subgraph
from subgraphkit.ir.structure import NoKeyError, structure_digest
from subgraphkit.partitioning.reports.flops import estimate_flops
from subgraphkit.types import TensorType

__all__ = ["Piece", "cut_regions", "node_weights", "quotient_graph"]

_MOST_VALUES: Final = 4
_LEAST_REGIONS: Final = 4
_WINDOW: Final = 3
"""How many nodes before and after a cut no place may be narrower."""

_OF_AN_ELEMENT: Final = 10
"""What to write an element weighs, beside the operations that compute it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes that follow each other, with few values entering and leaving.

    Attributes:
        nodes: Indices into the model's node list, in order of running.
        weight: What its nodes weigh; see ``node_weights``.
        kind: The same for regions that are equal node by node, whatever their names and weights.
    """

    nodes: tuple[int, ...]
    weight: float
    kind: str


def node_weights(bound: BoundModel) -> dict[int, float]:
    """Return roughly what each node costs, in order of running; ``Constant`` nodes are left out."""
    return {
        node: 1.0
        + estimate_flops(Node(bound, node))
        + _OF_AN_ELEMENT * sum(_elements(bound, name) for name in bound.table.outputs[node])
        for node in bound.order
        if not bound.is_constant_node(node)
    }


def _elements(bound: BoundModel, name: str) -> int:
    type_ = bound.types.get(name)
    return (type_.element_count or 1) if isinstance(type_, TensorType) else 1


def cut_regions(bound: BoundModel, weights: Mapping[int, float], most: int) -> list[Piece]:
    """Cut a network where few values are alive and no place nearby is narrower.

    Values are allowed one more at a time, until there are some cuts to choose from. Inputs of the
    model and constants cost nothing to hand over and do not count.

    Args:
        bound: The model.
        weights: The nodes in order of running, with what each weighs.
        most: About how many regions of a like weight there may be.
    """
    order = list(weights)
    if not order:
        return []
    alive = _alive(bound, order)
    cuts: list[int] = []
    for values in range(1, _MOST_VALUES + 1):
        narrow = [at for at in range(len(order) - 1) if _is_narrow(alive, at, values)]
        cuts = _spread(narrow, [weights[node] for node in order], most)
        if len(cuts) + 1 >= _LEAST_REGIONS:
            break
    ends = [*cuts, len(order) - 1]
    pieces = [order[a + 1 : b + 1] for a, b in zip([-1, *cuts], ends, strict=True)]
    return [
        Piece(tuple(one), sum(map(weights.__getitem__, one)), _kind(bound, one, at))
        for at, one in enumerate(pieces)
    ]


def _alive(bound: BoundModel, order: Sequence[int]) -> list[tuple[int, int]]:
    """Return, behind each node, how many values are read later on, and how many elements."""
    last = {name: at for at, node in enumerate(order) for name in bound.read_by(node)}
    found, count, elements = [], 0, 0
    gone: Counter[int] = Counter()
    gone_elements: Counter[int] = Counter()
    for at, node in enumerate(order):
        for name in bound.table.outputs[node]:
            if name and last.get(name, at) > at and name not in bound.constants:
                size = _elements(bound, name)
                count, elements = count + 1, elements + size
                gone[last[name]] += 1
                gone_elements[last[name]] += size
        count, elements = count - gone[at], elements - gone_elements[at]
        found.append((count, elements))
    return found


def _is_narrow(alive: Sequence[tuple[int, int]], at: int, values: int) -> bool:
    around = alive[max(0, at - _WINDOW) : min(at + _WINDOW + 1, len(alive) - 1)]
    return alive[at][0] <= values and alive[at][1] <= min(elements for _, elements in around)


def _spread(narrow: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """Choose cuts, so that every region but the last has its part of the weight."""
    enough, cuts, allowed, weight = sum(weights) / most, [], frozenset(narrow), 0.0
    for at, one in enumerate(weights):
        weight += one
        if at in allowed and weight >= enough:
            cuts.append(at)
            weight = 0.0
    return cuts


def _kind(bound: BoundModel, nodes: Sequence[int], at: int) -> str:
    try:
        return structure_digest(make_subgraph(bound, nodes, "region"))
    except NoKeyError:
        return f"region {at}"


def quotient_graph(bound: BoundModel, regions: Sequence[Piece]) -> Any:
    """Return a ``networkx.DiGraph`` of the regions by place, an edge where a value is passed on."""
    import networkx as nx  # noqa: PLC0415 (only those who measure pay for it)

    homes = {node: at for at, region in enumerate(regions) for node in region.nodes}
    quotient = nx.DiGraph()
    quotient.add_nodes_from(range(len(regions)))
    for node, at in homes.items():
        makers = (bound.producers.get(name) for name in bound.read_by(node))
        passed = {homes[maker] for maker in makers if maker in homes}
        quotient.add_edges_from((maker, at) for maker in passed - {at})
    return quotient
