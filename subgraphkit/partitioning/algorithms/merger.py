"""Contract edges of a graph one by one, in any order wished, without ever making a cycle.

A topological order of the contracted graph is kept up to date. The places of their other neighbours
mostly tell whether two neighbours may be contracted. Otherwise a search decides, which never leaves
the stretch of the order between the two. The nodes it meets are those that have to move. The search
tries both directions with growing limits, so it costs at most a few times the cheaper of the two.

The order is a linked list with increasing labels. ``a`` comes before ``b`` if
``label[a] < label[b]``, and a move costs as much as the items moved.

Source:
    D. J. Pearce, P. H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic
    graphs", ACM J. Exp. Algorithmics 11, 2006, with the order kept as a labelled list;
    M. A. Bender, R. Cole, E. D. Demaine, M. Farach-Colton, J. Zito, "Two simplified algorithms for
    maintaining order in a list", ESA 2002.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from subgraphkit.ir.adjacency import find_root

# Two 30-bit digits: the widest label that CPython still compares at full speed.
_LABEL_BITS = 60


class RunningOrder:
    """The numbers ``0 .. count - 1`` in an order that starts out ascending.

    Attributes:
        label: One increasing label per item; read it, never write it.

    Thread-safety: none; one thread at a time.
    """

    __slots__ = ("_after", "_before", "_end", "label", "work")

    def __init__(self, count: int) -> None:
        shift = _LABEL_BITS - 1 - count.bit_length()
        self.label = [(item + 1) << shift for item in range(count)]
        self.work = 0
        # The item ``count`` closes the list to a ring, so that no end is special.
        self._end = count
        self._after = [*range(1, count + 1), 0]
        self._before = [count, *range(count)]

    def remove(self, item: int) -> None:
        """Take an item out; its label means nothing until it is put back."""
        before, after = self._before[item], self._after[item]
        self._after[before] = after
        self._before[after] = before

    def replace(self, item: int, new: int) -> None:
        """Put ``new``, which is not in the order, where ``item`` is, and take ``item`` out."""
        before, after = self._before[item], self._after[item]
        self._after[before] = self._before[after] = new
        self._before[new], self._after[new] = before, after
        self.label[new] = self.label[item]

    def move(self, items: Sequence[int], anchor: int, *, before: bool) -> None:
        """Move ``items`` directly in front of ``anchor``, or behind it, in the order given."""
        for item in items:
            self.remove(item)
        self._insert(items, self._before[anchor] if before else anchor)

    def _insert(self, items: Sequence[int], anchor: int) -> None:
        """Put ``items``, which are not in the order, directly behind ``anchor``."""
        if not items:
            return
        low, high = self._gap(anchor)
        if high - low <= len(items):
            self._spread(anchor, len(items))
            low, high = self._gap(anchor)
        step = (high - low) // (len(items) + 1)
        before, after, label = self._before, self._after, self.label
        last = after[anchor]
        for item in items:
            low += step
            label[item] = low
            after[anchor] = item
            before[item] = anchor
            anchor = item
        after[anchor] = last
        before[last] = anchor
        self.work += len(items)

    def _gap(self, anchor: int) -> tuple[int, int]:
        after = self._after[anchor]
        low = 0 if anchor == self._end else self.label[anchor]
        return low, 1 << _LABEL_BITS if after == self._end else self.label[after]

    def _spread(self, anchor: int, needed: int) -> None:
        """Space out the labels around ``anchor`` until ``needed`` more fit behind each of them."""
        if anchor == self._end:
            anchor = self._after[anchor]
        before, after, label, end = self._before, self._after, self.label, self._end
        first = last = anchor
        count = 1
        low, high = 0, 1 << _LABEL_BITS
        for bits in range(4, _LABEL_BITS + 1, 2):
            low = label[anchor] >> bits << bits
            high = low + (1 << bits)
            while (item := before[first]) != end and label[item] >= low:
                first = item
                count += 1
            while (item := after[last]) != end and label[item] < high:
                last = item
                count += 1
            # A sparse enough range pays for its own relabelling before it fills up again.
            if (count + needed + 1) ** 2 <= high - low:
                break
        self.work += count
        step = (high - low) // (count + 1)
        item = first
        for position in range(1, count + 1):
            label[item] = low + position * step
            item = after[item]


MERGED, BLOCKED, SEPARATED = range(3)

_NOTHING: set[int] = set()

# Edges the first search in each direction may look at; then four times as many, and so on.
_FIRST_REACH = 32


class Merger:
    """A graph under contraction.

    Thread-safety: none; one thread at a time.
    """

    __slots__ = ("_claimed", "_order", "_root", "predecessors", "successors", "work")

    def __init__(
        self, claimed: bytearray, predecessors: list[set[int]], successors: list[set[int]]
    ) -> None:
        """Take over a graph that is numbered topologically; its rows are changed."""
        self.predecessors = predecessors
        self.successors = successors
        self._root = list(range(len(claimed)))
        self.work = len(claimed)
        self._claimed = claimed
        self._order = RunningOrder(len(claimed))

    def find(self, node: int) -> int:
        """Return the node that ``node`` was contracted into."""
        return find_root(self._root, node)

    def merge_all(self, pairs: Iterable[tuple[int, int]], limit: int) -> bool:
        """Try to contract each pair in turn, over and over until nothing changes."""
        find, changed = partial(find_root, self._root), True
        while changed:
            changed = False
            blocked = []
            for pair in pairs:
                first, second = find(pair[0]), find(pair[1])
                if first != second:
                    outcome = self.try_merge(first, second)
                    if outcome == MERGED:
                        changed = True
                    elif outcome == BLOCKED:
                        blocked.append(pair)
                    if self.work > limit:
                        return False
            pairs = blocked
        return True

    def try_merge(self, first: int, second: int) -> int:
        """Contract two neighbours unless that made a cycle.

        ``second``: Another, joined to it by an edge in either direction.
        """
        label = self._order.label
        if label[first] > label[second]:
            first, second = second, first
        backwards = len(self.predecessors[second]) <= len(self.successors[first])
        reach = _FIRST_REACH
        while True:
            for _ in range(2):
                blocked, met = self._search(first, second, backwards=backwards, reach=reach)
                if blocked:
                    return blocked
                if met is not None:
                    self._accept(first, second, met, backwards=backwards)
                    return MERGED
                backwards = not backwards
            reach *= 4

    def _search(
        self, first: int, second: int, *, backwards: bool, reach: int
    ) -> tuple[int, list[int] | None]:
        """Look for a way from one node to the other over nodes between them.

        If there is one, this returns ``BLOCKED`` or ``SEPARATED``, and None. If there is none, it
        returns 0 and the nodes met. If ``reach`` is not enough to know, it returns 0 and None.
        """
        label, claimed = self._order.label, self._claimed
        low, high = label[first], label[second]
        rows, start, goal = self.successors, first, second
        if backwards:
            rows, start, goal = self.predecessors, second, first
        work = len(rows[start])
        seen = {node: not claimed[node] for node in rows[start] if low < label[node] < high}
        stack = list(seen)
        while stack:
            node = stack.pop()
            row = rows[node]
            if goal in row:
                self.work += work
                return (SEPARATED if seen[node] else BLOCKED), None
            work += len(row)
            if work > reach:
                self.work += work
                return 0, None
            outside = seen[node]
            for other in row:
                if other not in seen and low < label[other] < high:
                    seen[other] = outside or not claimed[other]
                    stack.append(other)
        self.work += work
        return 0, list(seen)

    def _accept(self, first: int, second: int, met: list[int], *, backwards: bool) -> None:
        order = self._order
        met.sort(key=order.label.__getitem__)
        sizes = [len(self.successors[one]) + len(self.predecessors[one]) for one in (first, second)]
        kept, gone = (first, second) if sizes[0] >= sizes[1] else (second, first)
        # The nodes met wait for neither (or neither for them): they move out of the way.
        place, other = (first, second) if backwards else (second, first)
        order.move(met, place, before=backwards)
        order.remove(other)
        if kept != place:
            order.replace(place, kept)
        self.work += min(sizes) + len(met)
        self._root[gone] = kept
        self._move_edges(kept, gone)

    def _move_edges(self, kept: int, gone: int) -> None:
        """Move the edges of ``gone`` to ``kept``; one between the two goes."""
        forwards, backwards = self.successors, self.predecessors
        for near, far in ((forwards, backwards), (backwards, forwards)):
            for other in near[gone]:
                far[other].discard(gone)
                if other != kept:
                    far[other].add(kept)
                    near[kept].add(other)
            near[gone] = _NOTHING
