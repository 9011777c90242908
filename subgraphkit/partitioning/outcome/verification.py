"""The last check of every partitioning: its regions, and anew what crosses their edges.

The regions are checked in linear time and from first principles, with no code shared with the
algorithms that grew them: a mistake there must not hide itself here. What crosses was found from
names, reader by reader; here it is found from the dependencies between nodes, so that a mistake in
one of the two shows.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from operator import not_
from typing import Literal, NamedTuple

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import InternalError
from subgraphkit.ir import Adjacency, BoundGraph, Node, Subgraph
from subgraphkit.partitioning.algorithms.levels import Longs, as_ints, distinct
from subgraphkit.partitioning.claiming.ask import CheckedProperty
from subgraphkit.partitioning.claiming.graph import PartitionState, Region


class Violation(NamedTuple):
    """One broken promise of a partitioning.

    Attributes:
        kind: ``"unassigned"`` (a unit has no region, or a number that is none), ``"empty"`` (a
            region without units), ``"cycle"`` (regions wait on each other) or ``"disconnected"``
            (a region that should hang together does not).
        path: The units that show it. For a cycle: even positions lead by an edge to the next
            position, odd positions and what follows lie in one region. For a disconnected region:
            two units that no chain of edges inside the region joins.
    """

    kind: Literal["unassigned", "empty", "cycle", "disconnected"]
    regions: tuple[int, ...]
    path: tuple[int, ...]


def find_violation(
    adjacency: Adjacency, region_of: Sequence[int], region_count: int, connected: Sequence[bool]
) -> Violation | None:
    """Check that the regions are a partition, can run one after the other, and hang together.

    That every region is convex follows from the quotient having no cycle.
    """
    if len(region_of) != adjacency.count:
        return Violation("unassigned", (), (min(len(region_of), adjacency.count),))
    home = np.asarray(region_of, dtype=np.int64)
    outside = np.flatnonzero((home < 0) | (home >= region_count))
    if len(outside):
        return Violation("unassigned", (int(home[outside[0]]),), (int(outside[0]),))
    empty = np.flatnonzero(np.bincount(home, minlength=region_count) == 0)
    if len(empty):
        return Violation("empty", (int(empty[0]),), ())
    return _find_cycle(adjacency, home, region_count) or _find_gap(
        adjacency, region_of, region_count, connected
    )


def _find_cycle(adjacency: Adjacency, home: Longs, count: int) -> Violation | None:
    widths = np.diff(np.asarray(adjacency.pred_start))
    target = home[np.repeat(np.arange(adjacency.count), widths)]
    source = home[np.asarray(adjacency.preds, dtype=np.int64)]
    # One entry per pair of regions, sorted by the region waited for.
    edges = distinct((source * count + target)[source != target])
    source, target = np.divmod(edges, max(count, 1))
    waiting = np.bincount(target, minlength=count).tolist()
    start = np.searchsorted(source, np.arange(count + 1)).tolist()
    targets = target.tolist()
    ready = [region for region, edges_in in enumerate(waiting) if not edges_in]
    done = 0
    while ready:
        region = ready.pop()
        done += 1
        for other in targets[start[region] : start[region + 1]]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    if done == count:
        return None
    region_of = home.tolist()
    path = cycle_path(adjacency, region_of, waiting)
    return Violation("cycle", tuple(dict.fromkeys(region_of[unit] for unit in path)), tuple(path))


def cycle_path(adjacency: Adjacency, home: Sequence[int], waiting: Sequence[int]) -> list[int]:
    """Find a cycle among the groups that were never ready.

    ``waiting``: For each group how many of its incoming edges come from groups that were never
    ready; positive for at least one group, else zero.
    """
    entry: dict[int, tuple[int, int]] = {}
    for unit in range(adjacency.count):
        group = home[unit]
        if waiting[group] and group not in entry:
            for pred in adjacency.predecessors(unit):
                if home[pred] != group and waiting[home[pred]]:
                    entry[group] = (pred, unit)
                    break
    group = next(iter(entry))
    seen: dict[int, int] = {}
    edges: list[tuple[int, int]] = []
    while group not in seen:
        seen[group] = len(edges)
        edges.append(entry[group])
        group = home[entry[group][0]]
    return [unit for edge in reversed(edges[seen[group] :]) for unit in edge]


def _find_gap(
    adjacency: Adjacency,
    region_of: Sequence[int],
    region_count: int,
    connected: Sequence[bool],
) -> Violation | None:
    if not any(connected):
        return None
    members: list[list[int]] = [[] for _ in range(region_count)]
    for unit, region in enumerate(region_of):
        members[region].append(unit)
    reached = bytearray(adjacency.count)
    for region, units in enumerate(members):
        if len(units) == 1 or not connected[region]:
            continue
        _reach(adjacency, region_of, units[0], reached)
        for unit in units:
            if not reached[unit]:
                return Violation("disconnected", (region,), (units[0], unit))
    return None


def _reach(adjacency: Adjacency, region_of: Sequence[int], origin: int, reached: bytearray) -> None:
    """Mark all units of a region that edges inside it join to ``origin``."""
    reached[origin] = 1
    stack = [origin]
    while stack:
        unit = stack.pop()
        for other in (*adjacency.predecessors(unit), *adjacency.successors(unit)):
            if region_of[other] == region_of[origin] and not reached[other]:
                reached[other] = 1
                stack.append(other)


def region_by_rank(state: PartitionState, regions: Sequence[Region]) -> "array[int]":
    """Return the region each rank is in, -1 for none."""
    region_of = array("i", [-1]) * state.count
    for index, region in enumerate(regions):
        for rank in region.ranks:
            region_of[rank] = index
    return region_of


def verify_regions(state: PartitionState, regions: Sequence[Region]) -> None:
    """Check that the regions are disjoint, cover everything, hang together and can run.

    Raises:
        InternalError: They are not, with the nodes that show it.
    """
    apart = np.flatnonzero(np.frombuffer(state.constant, np.uint8)).tolist()
    if sum(len(region.ranks) for region in regions) + len(apart) != state.count:
        raise InternalError("the regions of a partitioning are not disjoint or do not cover it")
    region_of = region_by_rank(state, regions)
    connected = [region.connected for region in regions]
    count = len(regions)
    if apart:
        # No edge leads to these nodes, so they can stand in one region of their own.
        for rank in apart:
            region_of[rank] = count
        connected.append(False)
        count += 1
    violation = find_violation(state.adjacency, region_of, count, connected)
    if violation is not None:
        raise _broken(state, violation)


def _broken(state: PartitionState, violation: Violation) -> InternalError:
    labels = [Node(state.graph, state.order[rank]).label for rank in violation.path]
    nodes = tuple(state.order[rank] for rank in violation.path)
    return InternalError(
        f"partitioning is wrong ({violation.kind}, regions {list(violation.regions)}): "
        + " > ".join(labels),
        kind=violation.kind,
        nodes=nodes,
    )


def verify_edges(
    state: PartitionState, subgraphs: Sequence[Subgraph], also_wanted: Collection[str]
) -> None:
    """Check the inputs and outputs of all subgraphs.

    Raises:
        InternalError: A subgraph takes in something other than its nodes read, or hands out
            something other than others read.
    """
    check = _EdgeCheck(state, subgraphs, also_wanted)
    for field, at in (("inputs", check.wrong_inputs()), ("outputs", check.wrong_outputs())):
        if at is not None:
            name = subgraphs[at].id
            raise InternalError(f"the {field} of subgraph {name!r} differ from what is read")


def verify_borders(state: PartitionState, made: Iterable[tuple[Subgraph, int]]) -> None:
    """Check that nothing crosses the edge of a subgraph that its property forbids.

    Only properties that answer ``accept_boundary`` themselves are concerned, and hardly any is
    asked anew: their answers are kept with the partition state.

    Raises:
        InternalError: A forbidden value crosses.
    """
    for subgraph, value, refusal in forbidden_crossings(state, made):
        raise InternalError(
            f"value {value!r} crosses the edge of subgraph {subgraph.id!r}, and may not: {refusal}"
        )


def forbidden_crossings(
    state: PartitionState, made: Iterable[tuple[Subgraph, int]]
) -> Iterator[tuple[Subgraph, str, Refusal]]:
    """Yield what crosses the edge of a subgraph that its property forbids."""
    for subgraph, index in made:
        for value, refusal in _forbidden(state.graph, subgraph, state.properties[index]):
            yield subgraph, value, refusal


def _forbidden(
    graph: BoundGraph, subgraph: Subgraph, asked: CheckedProperty
) -> Iterator[tuple[str, Refusal]]:
    if not asked.watches_boundary:
        return
    entering = frozenset(subgraph.inputs)
    for node in subgraph.nodes if entering else ():
        for value in entering.intersection(graph.read_by(node)):
            refusal = asked.may_enter(Node(graph, node), value)
            if refusal is not None:
                yield value, refusal
    for value in subgraph.outputs:
        refusal = asked.may_leave(Node(graph, graph.producers[value]), value)
        if refusal is not None:
            yield value, refusal


class _EdgeCheck:
    """Pairs of subgraph and rank, as one number each, for nodes with one value; names for others.

    Attributes:
        needed: Pairs of the subgraph that reads a node's value and the node, which is not in it.
    """

    def __init__(
        self, state: PartitionState, subgraphs: Sequence[Subgraph], also_wanted: Collection[str]
    ) -> None:
        graph = state.graph
        self.state = state
        self.subgraphs = subgraphs
        self.count = max(state.count, 1)
        self.wanted = [v for v in (*graph.outputs, *also_wanted) if v not in graph.constants]
        self.home = self._home()
        made = graph.table.outputs
        widths = map(len, map(made.__getitem__, state.order))
        self.several = np.fromiter(widths, np.int64, state.count) != 1
        self.needed = self._needed_pairs()
        self.several_in: dict[int, set[str]] = {}
        self.several_out: dict[int, set[str]] = {}
        self._name_several()

    def wrong_inputs(self) -> int | None:
        """Return the first subgraph whose inputs are wrong."""
        graph = self.state.graph
        given = {*graph.inputs, *graph.defaults}
        expected: dict[int, set[str]] = {at: set(names) for at, names in self.several_in.items()}
        for rank, values in self._reading(given):
            if (at := int(self.home[rank])) >= 0:
                expected.setdefault(at, set()).update(given.intersection(values))
        return self._first_difference([one.inputs for one in self.subgraphs], self.needed, expected)

    def wrong_outputs(self) -> int | None:
        """Return the first subgraph whose outputs are wrong."""
        rank_of, find = self.state.rank_of, self.state.graph.producers.get
        outside = [rank_of[node] for value in self.wanted if (node := find(value)) is not None]
        makers = np.concatenate([self.needed % self.count, np.array(outside, dtype=np.int64)])
        makers = makers[makers >= 0]
        makers = makers[(self.home[makers] >= 0) & ~self.several[makers]]
        leaving = distinct(self.home[makers] * self.count + makers)
        listed = [one.outputs for one in self.subgraphs]
        return self._first_difference(listed, leaving, self.several_out)

    def _first_difference(
        self, listed: Sequence[Sequence[str]], pairs: Longs, also: dict[int, set[str]]
    ) -> int | None:
        """Compare names; those that only nodes outside the partition state make are left aside."""
        state = self.state
        made, find = state.graph.table.outputs, state.graph.producers.get
        owners, ranks = np.divmod(pairs, self.count)
        starts = np.searchsorted(owners, np.arange(len(listed) + 1)).tolist()
        nodes = as_ints(state.order)[ranks].tolist()
        for at, names in enumerate(listed):
            expected = {made[node][0] for node in nodes[starts[at] : starts[at + 1]]}
            expected |= also.get(at, set())
            found = set(names)
            if len(found) < len(names) or not expected <= found:
                return at
            for name in found - expected:
                maker = find(name)
                if maker is None or state.rank_of[maker] >= 0:
                    return at
        return None

    def _home(self) -> Longs:
        """Return the subgraph each rank is in."""
        home = np.full(self.state.count, -1, dtype=np.int64)
        rank_of = as_ints(self.state.rank_of)
        for index, subgraph in enumerate(self.subgraphs):
            home[rank_of[np.array(subgraph.nodes, dtype=np.int64)]] = index
        return home

    def _needed_pairs(self) -> Longs:
        adjacency, count = self.state.adjacency, self.count
        preds = as_ints(adjacency.preds)
        degrees = np.diff(as_ints(adjacency.pred_start)).astype(np.int64)
        reader = np.repeat(self.home, degrees)
        crossing = (self.home[preds] != reader) & (reader >= 0) & ~self.several[preds]
        return distinct(reader[crossing] * count + preds[crossing])

    def _name_several(self) -> None:
        """Find by name what crosses of the nodes that make several values."""
        state = self.state
        made = state.graph.table.outputs
        for rank in np.flatnonzero(self.several).tolist():
            values = {name for name in made[state.order[rank]] if name}
            leaving = values.intersection(self.wanted)
            for reader in state.adjacency.successors(rank):
                at = int(self.home[reader])
                if at not in {-1, self.home[rank]}:
                    read = values.intersection(state.graph.read_by(state.order[reader]))
                    self.several_in.setdefault(at, set()).update(read)
                    leaving |= read
            if self.home[rank] >= 0 and leaving:
                self.several_out.setdefault(int(self.home[rank]), set()).update(leaving)

    def _reading(self, values: Collection[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Go through the nodes that read any of the values."""
        state, wanted = self.state, frozenset(values)
        columns, bodies = state.graph.table.inputs, state.graph.table.bodies
        apart = map(wanted.isdisjoint, map(columns.__getitem__, state.order))
        for rank in compress(range(state.count), map(not_, apart)):
            yield rank, state.graph.read_by(state.order[rank])
        for node in bodies:
            rank = state.rank_of[node]
            if rank >= 0 and not wanted.isdisjoint(state.graph.captures_of(node)):
                yield rank, state.graph.captures_of(node)
