"""Find the groups of a region: seeds in order, each grown as its selector says."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.menu import Anchor, Menu
from subgraphkit_numpy.fusing.selecting import TileSelector

__all__ = ["Group", "find_groups"]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one kernel computes.

    Attributes:
        nodes: The nodes in an order in which they can run; the last one makes the result.
        first: The node that starts the tiles, or None.
        anchor: How it does, or None.
        closing: The product that ends an attention block, or None.
    """

    nodes: tuple[Node, ...]
    first: Node | None = None
    anchor: Anchor | None = None
    closing: Node | None = None

    @property
    def rest(self) -> tuple[Node, ...]:
        """The nodes that are neither anchor nor closing product, in order."""
        apart = {node.id for node in (self.first, self.closing) if node is not None}
        return tuple(node for node in self.nodes if node.id not in apart)

    @property
    def label(self) -> str:
        """The labels of the nodes, for messages."""
        return " + ".join(node.label for node in self.nodes)


def find_groups(menu: Menu, nodes: Sequence[Node]) -> list[Group]:
    """Find groups that do not overlap; anchors are asked first, then what is left.

    Args:
        menu: What the nodes can be.
        nodes: The nodes of the region that are not computed yet, in order.
    """
    place = {node.id: index for index, node in enumerate(nodes)}
    taken: set[int] = set()
    groups = []
    for seed in sorted(nodes, key=lambda node: menu.anchor(node) is None):
        if seed.id in taken:
            continue
        selector = TileSelector(menu)
        if not selector.select(seed):
            continue
        candidates = _grow(selector, seed, place, taken)
        kept = tuple(selector.filter(candidates))
        if kept:
            taken.update(node.id for node in kept)
            groups.append(_group(selector, kept))
    return groups


def _group(selector: TileSelector, nodes: tuple[Node, ...]) -> Group:
    if selector.anchor is None:
        return Group(nodes)
    by_id = {node.id: node for node in nodes}
    closing = None if selector.closing is None else by_id[selector.closing]
    return Group(nodes, by_id[selector.first], selector.anchor, closing)


def _grow(selector: TileSelector, seed: Node, place: dict[int, int], taken: set[int]) -> list[Node]:
    """Offer neighbours breadth first, inputs before outputs; return what was taken, in order."""
    grown = {seed.id: seed}
    waiting = deque([seed])
    while waiting:
        node = waiting.popleft()
        upstream = _producers(node)
        for index, other in enumerate((*upstream, *node.consumers())):
            if other.id not in place or other.id in taken or other.id in grown:
                continue
            ask = selector.select_input if index < len(upstream) else selector.select_output
            if ask(node, other):
                grown[other.id] = other
                waiting.append(other)
    return sorted(grown.values(), key=lambda node: place[node.id])


def _producers(node: Node) -> list[Node]:
    found = (node.producer(index) for index in range(len(node.inputs)))
    return [producer for producer in found if producer is not None]
