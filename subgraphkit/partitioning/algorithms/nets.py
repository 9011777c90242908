"""Values as the algorithms see them: how many bytes each takes, who makes it and who reads it.

A *net* is one value together with its producer and its readers (a hyperedge of the graph). Bytes
are counted per net and not per edge, because a value that several nodes of one region read crosses
the border of that region once.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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

    @classmethod
    def build(cls, rows: Iterable[tuple[int, int, Sequence[int]]]) -> "Nets":
        """Build from ``(source, bytes, sinks)`` of each value."""
        source, bytes_ = array("i"), array("q")
        sink_start, sinks = array("i", [0]), array("i")
        for unit, size, readers in rows:
            source.append(unit)
            bytes_.append(size)
            sinks.extend(readers)
            sink_start.append(len(sinks))
        return cls(source, bytes_, sink_start, sinks)

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
    return Nets(
        as_array(source[used]),
        as_array(sizes, "q"),
        as_array(np.append(starts, len(sinks))),
        as_array(sinks),
    )
