"""The fewest regions when a region need not hang together, in linear time.

The *level* of a unit is the largest number of runs of claimed units on any path that ends in it.
The claimed units of one level form a region, the regions can run in the order of their levels, and
no partitioning has fewer: a path with the largest number of runs holds that many claimed units of
which no two can share a region, because an unclaimed unit lies between them.

Taking every unit at its earliest level pulls side branches, such as shape computations, into the
first region that could run them, although a later one reads them. Where sizes of values are given,
two sweeps mend that: backwards, every unit may move to the latest level that its consumers allow;
forwards, a unit that moved may go back to the earliest that its producers allow. A unit moves only
if the bytes cut do not grow, and a level stays possible for every unit throughout, so the number of
regions stays minimal.

Source:
    K. Kennedy, K. S. McKinley, "Typed fusion with applications to parallel and sequential code
    generation", Rice University CRPC-TR93370, 1994; the case of one type.
"""

from array import array
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
        levels = _settle(adjacency, eligible, nets, levels)
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


def _settle(adjacency: Adjacency, eligible: bytearray, nets: Nets, levels: list[int]) -> list[int]:
    """Move eligible units with slack to the level at which the fewest bytes are cut.

    ``nets``: Values with their sizes. Each counts as one byte more than its size, so that values of
    unknown size are worth keeping inside too.

    Returns:
        A level for each eligible unit, allowed by the recurrence of ``_earliest_levels``, with at
        most as many bytes cut as ``levels``. Entries of other units mean nothing.
    """
    state = _Settling(nets, eligible, levels)
    moved = state.sweep_backwards(adjacency)
    state.sweep_forwards(adjacency, moved)
    return state.level if state.gain > 0 else levels


class _Settling:
    """Levels under change, with the price of every change.

    Attributes:
        level: Current level of each eligible unit; 0 for the others.
    """

    def __init__(self, nets: Nets, eligible: bytearray, levels: list[int]) -> None:
        self.level = [
            level if claimed else 0 for level, claimed in zip(levels, eligible, strict=True)
        ]
        self.gain = 0
        # Arrays, not lists: most entries are never looked at, so making objects of all costs more.
        self._bytes = nets.bytes_
        self._source = nets.source
        self._sinks = nets.sinks
        self._sink_start = nets.sink_start
        self._made, self._made_start = _padded(nets.by_source, len(eligible))
        self._read, self._read_start = _padded(nets.by_sink, len(eligible))
        # For nets with many readers: how many of them are at each level, counted when needed.
        self._readers: dict[int, dict[int, int]] = {}

    def sweep_backwards(self, adjacency: Adjacency) -> list[int]:
        """Offer each unit the latest level its consumers allow, last unit first."""
        level = self.level
        succs, start = adjacency.succs.tolist(), adjacency.succ_start.tolist()
        top = max(level, default=0)
        # The latest level of a producer, if eligible and if not.
        inner = [top] * adjacency.count
        outer = [top] * adjacency.count
        moved: list[int] = []
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
                if latest > old and nearest == latest and self._try_move(unit, latest, 0):
                    moved.append(unit)
                    old = latest
                inner[unit] = old
                outer[unit] = old - 1
            else:
                for consumer in succs[begin:end]:
                    if outer[consumer] < latest:  # noqa: PLR1730 (a call costs more here)
                        latest = outer[consumer]
                inner[unit] = outer[unit] = latest
            end = begin
        return moved[::-1]

    def sweep_forwards(self, adjacency: Adjacency, moved: list[int]) -> None:
        """Offer each unit that moved the earliest level its producers allow, first unit first.

        Units with an ineligible producer are passed over: their earliest level is not a matter of
        their neighbours alone, and measured over random graphs they hold 0.2 % of the gain.
        """
        level = self.level
        for unit in moved:
            earliest = 0
            for producer in adjacency.predecessors(unit):
                if not level[producer]:
                    break
                earliest = max(earliest, level[producer])
            else:
                if 0 < earliest < level[unit]:
                    self._try_move(unit, earliest, -1)

    def _try_move(self, unit: int, new: int, most: int) -> bool:
        """Move ``unit`` if that adds no more than ``most`` to what is cut."""
        old = self.level[unit]
        change = self._change_made(unit, old, new) + self._change_read(unit, old, new)
        if change > most:
            return False
        for net in self._read[self._read_start[unit] : self._read_start[unit + 1]]:
            readers = self._readers.get(net)
            if readers is not None:
                readers[old] -= 1
                readers[new] = readers.get(new, 0) + 1
        self.level[unit] = new
        self.gain -= change
        return True

    def _change_made(self, unit: int, old: int, new: int) -> int:
        level, sinks, start = self.level, self._sinks, self._sink_start
        change = 0
        for net in self._made[self._made_start[unit] : self._made_start[unit + 1]]:
            begin, end = start[net], start[net + 1]
            if end - begin == 1:
                home = level[sinks[begin]]
                change += (self._bytes[net] + 1) * ((home == old) - (home == new))
            else:
                homes = [level[sink] for sink in sinks[begin:end]]
                change += (self._bytes[net] + 1) * ((old in homes) - (new in homes))
        return change

    def _change_read(self, unit: int, old: int, new: int) -> int:
        level, start, sinks, source = self.level, self._sink_start, self._sinks, self._source
        change = 0
        for net in self._read[self._read_start[unit] : self._read_start[unit + 1]]:
            home = level[source[net]]
            begin, end = start[net], start[net + 1]
            if end - begin == 1:
                change += (self._bytes[net] + 1) * ((home != new) - (home != old))
                continue
            if end - begin <= _FEW:
                at_new, at_old = 0, 0
                for sink in sinks[begin:end]:
                    place = level[sink]
                    if place == old:
                        at_old += 1
                    elif place == new:
                        at_new += 1
            else:
                readers = self._readers.get(net) or self._count_readers(net)
                at_new, at_old = readers.get(new, 0), readers[old]
            arrives = home != new and not at_new
            leaves = home != old and at_old == 1
            change += (self._bytes[net] + 1) * (arrives - leaves)
        return change

    def _count_readers(self, net: int) -> dict[int, int]:
        """Count how many readers of the net there are at each level."""
        readers: dict[int, int] = {}
        for sink in self._sinks[self._sink_start[net] : self._sink_start[net + 1]]:
            home = self.level[sink]
            readers[home] = readers.get(home, 0) + 1
        self._readers[net] = readers
        return readers


def _padded(rows: "tuple[array[int], array[int]]", count: int) -> "tuple[array[int], array[int]]":
    """Add empty rows for the units behind the last one that has any."""
    flat, start = rows
    return flat, start + array("i", [len(flat)]) * (count + 1 - len(start))
