"""The fewest regions when a region need not hang together, in linear time.

The *level* of a unit is the largest number of runs of claimed units on any path that ends in it.
The claimed units of one level form a region, and the regions can run in the order of their levels.
No partitioning has fewer. Take a path with the largest number of runs, and one claimed unit of each
run. No two of these can share a region, because an unclaimed unit lies between them.

Units at their earliest levels would pull side branches into early regions, although later ones read
them. Shape computations are an example. If you give the sizes of values, a backward sweep mends
that: every unit may move to the latest level that its consumers allow. It moves only if the bytes
cut do not grow. A level stays possible for every unit, so the number of regions stays minimal.

Source:
    K. Kennedy, K. S. McKinley, "Typed fusion with applications to parallel and sequential code
    generation", Rice University CRPC-TR93370, 1994; the case of one type.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Adjacency, Graph
from subgraphkit.ir.costs import bytes_of
from subgraphkit.lazy import cached_property
from subgraphkit.types import ValueType

Longs = npt.NDArray[np.int64]


def as_ints(values: "array[int]") -> npt.NDArray[np.int32]:
    """View an array of type code ``i``; it cannot change its length while the view lives."""
    return np.frombuffer(values, np.int32) if values else np.zeros(0, np.int32)


def as_array(values: npt.NDArray[np.integer], code: str = "i") -> "array[int]":
    """Copy into an array of a type code."""
    made: array[int] = array(code)
    made.frombytes(values.astype(code).tobytes())
    return made


def distinct(values: Longs) -> Longs:
    """Return the values ascending and once each; ten times as fast as ``numpy.unique`` 2.4."""
    ordered = np.sort(values)
    first: Longs = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return first


def bytes_of_all(types: Iterable[ValueType | None]) -> "array[int]":
    """Return the sizes of many values, faster where they share a type, as bound ones do."""
    # The list keeps every type alive, so that no two have the same identity.
    listed = list(types)
    shared = dict(zip(map(id, listed), listed, strict=True))
    sizes = {identity: bytes_of(type_) for identity, type_ in shared.items()}
    return array("q", map(sizes.__getitem__, map(id, listed)))


@dataclass(frozen=True, eq=False)
class Nets:
    """Values with their sizes, as flat arrays indexed by net.

    The readers of net ``i`` are ``sinks[sink_start[i]:sink_start[i + 1]]``.

    Attributes:
        bytes_: Size of the value in bytes; 0 where it is not known.
        sink_start: One offset per net into ``sinks``, and the length of ``sinks`` at the end.
        sinks: Vertices that read the value, each once per net.
    """

    source: "array[int]"
    bytes_: "array[int]"
    sink_start: "array[int]"
    sinks: "array[int]"

    def readers(self, net: int) -> "array[int]":
        """Return the units that read a value."""
        return self.sinks[self.sink_start[net] : self.sink_start[net + 1]]

    def made_by(self, unit: int) -> list[int]:
        """Return the nets of a unit's values, ascending."""
        return _row(self.by_source, unit)

    def read_by(self, unit: int) -> list[int]:
        """Return the nets of the values that a unit reads, ascending."""
        return _row(self.by_sink, unit)

    @cached_property
    def by_source(self) -> "tuple[array[int], array[int]]":
        """The nets in order of their sources, and the offset of each source's first."""
        return _rows(as_ints(self.source), np.arange(len(self)))

    @cached_property
    def by_sink(self) -> "tuple[array[int], array[int]]":
        """The nets in order of their readers, once for each, and the offset of each reader's."""
        net_of_sink = np.repeat(np.arange(len(self)), np.diff(as_ints(self.sink_start)))
        return _rows(as_ints(self.sinks), net_of_sink)

    def __len__(self) -> int:
        """Return the number of nets."""
        return len(self.source)


def _row(rows: "tuple[array[int], array[int]]", unit: int) -> list[int]:
    nets, start = rows
    return nets[start[unit] : start[unit + 1]].tolist() if unit + 1 < len(start) else []


def _rows(keys: npt.NDArray[np.int32], nets: Longs) -> "tuple[array[int], array[int]]":
    """List the nets of each key, ascending, as rows of one flat array, with their offsets."""
    # Key and net in one number, because plain numbers sort several times as fast as their places.
    width = int(nets.max(initial=0)) + 1
    ordered = np.sort(keys.astype(np.int64) * width + nets) % width
    start = np.concatenate(([0], np.cumsum(np.bincount(keys))))
    return as_array(ordered), as_array(start)


def nets_of_values(graph: Graph, adjacency: Adjacency, order: "array[int]") -> Nets:
    """Return one net per rank, and one more for every value of a node that makes several."""
    made, types = graph.table.outputs, graph.types
    source = array("i", range(len(order)))
    sink_start, sinks = adjacency.succ_start[:], adjacency.succs[:]
    rows = [made[node] for node in order]
    sizes = bytes_of_all(map(types.get, [row[0] if row else "" for row in rows]))
    for rank in [rank for rank, row in enumerate(rows) if len(row) > 1]:
        sizes[rank] = 0
        values = frozenset(rows[rank])
        readers: dict[str, list[int]] = {}
        for successor in adjacency.successors(rank):
            for value in values.intersection(graph.read_by(order[successor])):
                readers.setdefault(value, []).append(successor)
        for value in rows[rank]:
            if value in readers:
                source.append(rank)
                sizes.append(bytes_of(types.get(value)))
                sinks.extend(readers[value])
                sink_start.append(len(sinks))
    return Nets(source, sizes, sink_start, sinks)


def nets_of_vertices(nets: Nets, vertex_of: "array[int]", count: int) -> Nets:
    """Return the nets of ranks between the vertices that the ranks were contracted to."""
    home = as_ints(vertex_of).astype(np.int64)
    counts = np.diff(as_ints(nets.sink_start))
    net = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    source = home[as_ints(nets.source)]
    sinks = home[as_ints(nets.sinks)]
    outside = sinks != source[net]
    pairs = distinct(net[outside] * count + sinks[outside])
    net, sinks = np.divmod(pairs, max(count, 1))
    starts = np.flatnonzero(np.append(True, net[1:] != net[:-1])[: len(net)])
    used = net[starts]
    sizes = np.frombuffer(nets.bytes_, np.int64)[used] if len(used) else np.zeros(0, np.int64)
    of_nets = as_array(source[used]), as_array(sizes, "q")
    return Nets(*of_nets, as_array(np.append(starts, len(sinks))), as_array(sinks))


# Up to this many readers of a net, looking at each is faster than keeping count.
_FEW = 8


def level_regions(
    adjacency: Adjacency, eligible: bytearray, nets: Callable[[], Nets] | None = None
) -> list[list[int]]:
    """Partition the eligible units into the fewest regions that can run one after the other."""
    levels = _earliest_levels(adjacency, eligible)
    count = max(compress(levels, eligible), default=0)
    if nets is not None and count > 1:
        settling = _Settling(nets(), eligible, levels)
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
    levels = _earliest_levels(adjacency, eligible)
    return max(compress(levels, eligible), default=0)


def _earliest_levels(adjacency: Adjacency, eligible: bytearray) -> list[int]:
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
    return inner


class _Settling:
    """Levels under change, with the price of every change.

    Each value counts as one byte more than its size, so that values of unknown size are worth
    keeping inside too.

    Attributes:
        level: Current level of each eligible unit; 0 for the others.
        gain: How many bytes fewer are cut.
    """

    def __init__(self, nets: Nets, eligible: bytearray, levels: list[int]) -> None:
        self.level = [level if taken else 0 for level, taken in zip(levels, eligible, strict=True)]
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
            if old := level[unit]:
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
        """Move a unit if that adds no bytes to the cut."""
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
        if (found := self._counted.get(net)) is None:
            found = {}
            readers = self._nets.readers(net)
            for reader in readers:
                found[self.level[reader]] = found.get(self.level[reader], 0) + 1
            if len(readers) > _FEW:
                self._counted[net] = found
        return found
