"""The fewest regions when a region need not hang together, in linear time.

The *level* of a unit is the largest number of runs of claimed units on any path that ends in it.
The claimed units of one level form a region, the regions can run in the order of their levels, and
no partitioning has fewer: a path with the largest number of runs holds that many claimed units of
which no two can share a region, because an unclaimed unit lies between them.

Taking every unit at its earliest level pulls side branches, such as shape computations, into the
first region that could run them, although a later one reads them. Where sizes of values are given,
a sweep mends that: backwards, every unit may move to the latest level that its consumers allow. It
moves only if the bytes cut do not grow, and a level stays possible for every unit throughout, so
the number of regions stays minimal.

Source:
    K. Kennedy, K. S. McKinley, "Typed fusion with applications to parallel and sequential code
    generation", Rice University CRPC-TR93370, 1994; the case of one type.
"""

from itertools import compress

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.nets import Nets

# Up to this many readers of a net, looking at each is faster than keeping count.
_FEW = 8


def level_regions(
    adjacency: Adjacency, eligible: bytearray, nets: Nets | None = None
) -> list[list[int]]:
    """Partition the eligible units into the fewest regions that can run one after the other."""
    levels, _ = _earliest_levels(adjacency, eligible)
    count = max(compress(levels, eligible), default=0)
    if nets is not None and count > 1:
        settling = _Settling(nets, eligible, levels)
        settling.sweep(adjacency)
        levels = settling.level if settling.gain else levels
    regions: list[list[int]] = [[] for _ in range(count)]
    for unit in compress(range(len(eligible)), eligible):
        regions[levels[unit] - 1].append(unit)
    return regions


def level_bound(adjacency: Adjacency, eligible: bytearray) -> int:
    """Return the number of regions below which no partitioning of the eligible units can go.

    Exact where regions need not hang together; a lower bound where they must.
    """
    levels, _ = _earliest_levels(adjacency, eligible)
    return max(compress(levels, eligible), default=0)


def _earliest_levels(adjacency: Adjacency, eligible: bytearray) -> tuple[list[int], list[int]]:
    """Compute for each unit the earliest level its consumers can run at."""
    inner: list[int] = []
    outer: list[int] = []
    preds = adjacency.preds.tolist()
    ends = adjacency.pred_start.tolist()
    start = 0
    for claimed, end in zip(eligible, ends[1:], strict=True):
        level = 1
        for pred in preds[start:end]:
            candidate = inner[pred] if claimed else outer[pred]
            if candidate > level:  # noqa: PLR1730 (a call costs more here)
                level = candidate
        inner.append(level)
        outer.append(level + claimed)
        start = end
    return inner, outer


class _Settling:
    """Levels under change, with the price of every change.

    Each value counts as one byte more than its size, so that values of unknown size are worth
    keeping inside too.

    Attributes:
        level: Current level of each eligible unit; 0 for the others.
        gain: How many bytes fewer are cut.
    """

    def __init__(self, nets: Nets, eligible: bytearray, levels: list[int]) -> None:
        self.level = [
            level if claimed else 0 for level, claimed in zip(levels, eligible, strict=True)
        ]
        self.gain = 0
        self._nets = nets
        # For nets with many readers: how many of them are at each level, counted when needed.
        self._counted: dict[int, dict[int, int]] = {}

    def sweep(self, adjacency: Adjacency) -> None:
        """Offer each unit the latest level its consumers allow, last unit first."""
        level = self.level
        succs, start = adjacency.succs.tolist(), adjacency.succ_start.tolist()
        top = max(level, default=0)
        # The latest level of a producer, if eligible and if not.
        inner = [top] * adjacency.count
        outer = [top] * adjacency.count
        end = len(succs)
        for unit in range(adjacency.count - 1, -1, -1):
            begin = start[unit]
            latest = top
            old = level[unit]
            if old:
                nearest = 0
                for consumer in succs[begin:end]:
                    limit = inner[consumer]
                    if limit <= latest:
                        # Only where a consumer runs at the new level can moving save anything.
                        nearest = level[consumer] or (nearest if limit == latest else 0)
                        latest = limit
                if latest > old and nearest == latest and self._try_move(unit, latest):
                    old = latest
                inner[unit] = old
                outer[unit] = old - 1
            else:
                for consumer in succs[begin:end]:
                    if outer[consumer] < latest:  # noqa: PLR1730 (a call costs more here)
                        latest = outer[consumer]
                inner[unit] = outer[unit] = latest
            end = begin

    def _try_move(self, unit: int, new: int) -> bool:
        """Move a unit if that adds nothing to what is cut."""
        level, nets, old = self.level, self._nets, self.level[unit]
        change = 0
        for net in nets.made_by(unit):
            homes = self._readers(net)
            change += (nets.bytes_[net] + 1) * (bool(homes.get(old)) - bool(homes.get(new)))
        read = nets.read_by(unit)
        for net in read:
            homes, home = self._readers(net), level[nets.source[net]]
            arrives = home != new and not homes.get(new)
            leaves = home != old and homes[old] == 1
            change += (nets.bytes_[net] + 1) * (arrives - leaves)
        if change > 0:
            return False
        for homes in (self._counted[net] for net in read if net in self._counted):
            homes[old] -= 1
            homes[new] = homes.get(new, 0) + 1
        level[unit] = new
        self.gain -= change
        return True

    def _readers(self, net: int) -> dict[int, int]:
        """Return how many readers of a net there are at each level."""
        found = self._counted.get(net)
        if found is None:
            found = {}
            readers = self._nets.readers(net)
            for reader in readers:
                found[self.level[reader]] = found.get(self.level[reader], 0) + 1
            if len(readers) > _FEW:
                self._counted[net] = found
        return found
