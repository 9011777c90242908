"""Groups of a region: seeds in order, each grown by a selector of the project's own contract.

Groups have one way out: nothing but the last node's output is read outside. That makes a group
convex whatever its shape, because a path that leaves it leaves from its end.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from subgraphkit.backend import Answer, Refusal, SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit_numpy.fusing.menu import Anchor, Menu
from subgraphkit_numpy.fusing.spaces import Shape, Space
from subgraphkit_numpy.kernels.expressions import Expression

_MOST_NODES: Final = 32
"""Growth stops here; the longest group seen in real models has 14 nodes."""

_SMALLEST: Final = 1 << 15
"""Elements below which nodes without an anchor stay on their own: they are in cache anyway."""

_TOO_SMALL: Final = Refusal("size", "of no known size, or too small to be worth tiles")
_OUTSIDE: Final = Refusal("shape", "does not fit the tiles of the group")


class TileSelector(SubgraphSelector):
    """Grows around one anchor or expression; a new one for every seed.

    Attributes:
        anchor: How the group starts, None for a group of expressions alone.
        closing: The product that ends an attention block, None for other groups.
    """

    splittable: ClassVar[bool] = False

    def __init__(self, menu: Menu) -> None:
        self._menu = menu
        self._whole: Shape = ()
        self._taken: dict[int, Node] = {}
        self.anchor: Anchor | None = None
        self.first = -1
        self.closing: int | None = None

    def reset(self) -> None:
        """Forget everything."""
        self._taken.clear()
        self.anchor, self.first, self.closing = None, -1, None

    def select(self, node: Node) -> Answer:
        """Start at anchors, and at expressions whose result is large."""
        self.reset()
        self.anchor = self._menu.anchor(node)
        shape = self._menu.shape(node)
        # most are small, and what a small one computes nobody has to know
        if shape is None or (self.anchor is None and prod(shape) < _SMALLEST):
            return _TOO_SMALL
        if self.anchor is None and self._menu.expression(node) is None:
            return Refusal("operator", f"{node.op_type} is not computed in tiles")
        self._whole = shape
        self.first = node.id
        self._taken[node.id] = node
        return True

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Take expressions upstream, unless they feed the anchor."""
        if self.anchor is not None and node.id == self.first:
            return Refusal("anchor", "feeds the anchor")
        return self._take(producer)

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Take expressions downstream, and the product that closes an attention block."""
        if self._closes(node, consumer):
            return self._keep(consumer)
        return self._take(consumer)

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        """Keep the largest part that has one way out and holds the seed."""
        after = self._descendants(candidates)
        for last in reversed(candidates):
            if last.id not in after or not self._may_end(last):
                continue
            part = self._between(last, candidates, after)
            if part and (self.anchor is not None or len(part) > 1):
                self.closing = last.id if self._is_product(last) else None
                return [node for node in candidates if node.id in part]
        return ()

    def _take(self, node: Node) -> Answer:
        shape = self._menu.shape(node)
        if shape is not None and self._is_view(node, shape):
            return self._keep(node)
        found = self._menu.expression(node)
        if found is None or shape is None or not self._fits(node, shape, found):
            return _OUTSIDE
        if found.whole_rows and not self._keeps_rows():
            return _OUTSIDE
        return self._keep(node)

    def _keep(self, node: Node) -> Answer:
        if len(self._taken) >= _MOST_NODES:
            return Refusal("size", "the group is large enough")
        self._taken[node.id] = node
        return True

    def _keeps_rows(self) -> bool:
        """Say whether tiles can hold whole rows; pixels of a convolution are not rows.

        Wide products are cut between columns, because each thread would read all of the second
        factor otherwise. That costs more than normalising rows afterwards.
        """
        if self.anchor is None or self.anchor.kind == "products":
            return True
        if self.anchor.kind == "convolution":
            return False
        rows, columns = self.anchor.space.merged
        return rows > columns

    def _is_view(self, node: Node, shape: Shape) -> bool:
        """Say whether a node only arranges the rows of a product in other axes."""
        if self.anchor is None or self.anchor.kind != "product" or not self._menu.is_view(node):
            return False
        before = node.shape(0) or ()
        known = tuple(dim for dim in before if isinstance(dim, int))
        space = self.anchor.space
        return space.arranged(known) is not None and space.arranged(shape) is not None

    def _fits(self, node: Node, shape: Shape, found: Expression) -> bool:
        """Say whether a result and all operands can be cut along with the group's tiles."""
        if self.anchor is None:
            space = Space(self._whole, tuple((axis,) for axis in range(len(self._whole))))
        else:
            space = self.anchor.space
        is_product = self.anchor is not None and self.anchor.kind == "product"
        if not is_product and len(shape) != len(space.shape):
            return False
        arranged = space.arranged(shape)
        if arranged is None or len(shape) != len(arranged.shape):
            return False
        if shape != arranged.shape and not self._keeps_rows():
            return False
        shapes = [node.shape(index) for index in found.places]
        shapes += [constant.shape for constant in found.constants]
        return all(one is not None and _spreads(one, arranged) for one in shapes)

    def _closes(self, node: Node, consumer: Node) -> bool:
        """Say whether a product takes the tiles of a stack of products as its first factor."""
        if self.anchor is None or self.anchor.kind != "products" or node.id == self.first:
            return False
        if self._menu.shape(node) != self._whole:
            return False
        second = self._menu.anchor(consumer)
        if second is None or second.kind != "products" or consumer.inputs[0] != node.outputs[0]:
            return False
        factor = consumer.shape(1)
        same_batch = second.space.shape[:-2] == self._whole[:-2]
        return same_batch and factor is not None and tuple(factor[:-2]) == self._whole[:-2]

    def _is_product(self, node: Node) -> bool:
        return node.id != self.first and self._menu.anchor(node) is not None

    def _descendants(self, candidates: Sequence[Node]) -> set[int]:
        """Return the candidates that depend on the seed, itself included."""
        after = {self.first}
        for node in candidates:
            producers = (node.producer(index) for index in range(len(node.inputs)))
            if any(producer is not None and producer.id in after for producer in producers):
                after.add(node.id)
        return after

    def _may_end(self, last: Node) -> bool:
        shape = self._menu.shape(last)
        if shape is None or self._menu.is_view(last):
            return False
        return self._is_product(last) or prod(shape) == prod(self._whole)

    def _between(self, last: Node, candidates: Sequence[Node], after: set[int]) -> set[int]:
        """Return the nodes between seed and ``last``, and those that work for them alone."""
        part = {last.id}
        # what the anchor reads, and the second factor of a closing product, come from outside
        apart = {*self._menu.wanted}
        if self.anchor is not None:
            apart.update(self._taken[self.first].inputs)
        if self._is_product(last):
            apart.update(last.inputs[1:])
        for node in reversed(candidates):
            if node.id in part:
                continue
            readers = {consumer.id for consumer in node.consumers()}
            works_for_part = readers and readers <= part and node.outputs[0] not in apart
            if works_for_part and not self._is_product(node):
                part.add(node.id)
            elif node.id in after and not readers.isdisjoint(part):
                return set()
        return part if self.first in part else set()


def _spreads(shape: Sequence[int | str | None], space: Space) -> bool:
    known = tuple(dim for dim in shape if isinstance(dim, int))
    return len(known) == len(shape) and space.spans(known) is not None


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one kernel computes.

    Attributes:
        nodes: The nodes in an order in which they can run; the last one makes the result.
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
    """Find groups that do not overlap; anchors are asked first, then what is left."""
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
