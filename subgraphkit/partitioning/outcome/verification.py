"""The last check of every partitioning: its regions, and anew the values at their edges.

It checks the regions in linear time and from first principles. It shares no code with the
algorithms that grew them, so that it finds their mistakes. The borders were found from names,
reader by reader. Here they are found from the dependencies between nodes, so that a mistake in one
of the two shows.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import InternalError
from subgraphkit.ir import Adjacency, Node, Subgraph
from subgraphkit.partitioning.algorithms.levels import Longs, distinct
from subgraphkit.partitioning.algorithms.quotient import weak_components
from subgraphkit.partitioning.claiming.graph import PartitionState, Region


class Violation(NamedTuple):
    """One broken promise of a partitioning.

    Attributes:
        kind: ``"unassigned"``: a unit has no valid region. ``"empty"``: a region has no units.
            ``"cycle"``: regions wait on each other. ``"disconnected"``: a region that must be
            connected is not.
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
    """Check that the regions are a partition, can run one after the other, and are connected.

    Every region is convex, because the quotient has no cycle.
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

    ``waiting``: For each group, the number of edges from groups that were never ready. It is
    positive for at least one group, else zero.
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
    adjacency: Adjacency, region_of: Sequence[int], region_count: int, connected: Sequence[bool]
) -> Violation | None:
    if not any(connected):
        return None
    members: list[list[int]] = [[] for _ in range(region_count)]
    for unit, region in enumerate(region_of):
        members[region].append(unit)
    for region, units in enumerate(members):
        parts = weak_components(adjacency, units) if connected[region] else ()
        if len(parts) > 1:
            return Violation("disconnected", (region,), (units[0], parts[1][0]))
    return None


def region_by_rank(state: PartitionState, regions: Sequence[Region]) -> "array[int]":
    """Return the region each rank is in, -1 for none."""
    region_of = array("i", [-1]) * state.count
    for index, region in enumerate(regions):
        for rank in region.ranks:
            region_of[rank] = index
    return region_of


def verify_regions(state: PartitionState, regions: Sequence[Region]) -> None:
    """Require disjoint regions that cover all, hang together and can run; else InternalError."""
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
        raise _violation_error(state, violation)


def _violation_error(state: PartitionState, violation: Violation) -> InternalError:
    labels = [Node(state.graph, state.order[rank]).label for rank in violation.path]
    nodes = tuple(state.order[rank] for rank in violation.path)
    return InternalError(
        f"partitioning is wrong ({violation.kind}, regions {list(violation.regions)}): "
        + " > ".join(labels),
        kind=violation.kind,
        nodes=nodes,
    )


def verify_edges(state: PartitionState, subgraphs: Sequence[Subgraph]) -> None:
    """Check the inputs and outputs of all subgraphs; InternalError if readers need others."""
    graph, constants = state.graph, state.graph.constants
    made_by, inputs, bodies = graph.table.outputs, graph.table.inputs, graph.table.bodies
    wanted = {*graph.outputs, *state.wanted}.union(*(one.inputs for one in subgraphs))

    def values_of(one: Subgraph) -> set[str]:
        return set(chain.from_iterable(map(made_by.__getitem__, one.nodes)))

    def require(one: Subgraph, field: str, names: set[str]) -> None:
        expected = {name for name in names if name and name not in constants}
        found: tuple[str, ...] = getattr(one, field)
        if len(found) != len(expected) or not expected.issuperset(found):
            raise InternalError(f"the {field} of subgraph {one.id!r} differ from what is read")

    for one in subgraphs:  # all inputs first, since outputs are held against them
        reads = inputs.__getitem__ if bodies.keys().isdisjoint(one.nodes) else graph.read_by
        require(one, "inputs", set(chain.from_iterable(map(reads, one.nodes))) - values_of(one))
    for one in subgraphs:
        require(one, "outputs", values_of(one) & wanted)


def verify_borders(state: PartitionState, made: Iterable[tuple[Subgraph, int]]) -> None:
    """Check that nothing crosses an edge that a property forbids (InternalError).

    It asks only properties with their own ``accept_boundary``, and hardly any anew: the partition
    state keeps their answers.
    """
    for subgraph, value, refusal in forbidden_crossings(state, made):
        raise InternalError(
            f"value {value!r} crosses the edge of subgraph {subgraph.id!r}, and may not: {refusal}"
        )


def forbidden_crossings(
    state: PartitionState, made: Iterable[tuple[Subgraph, int]]
) -> Iterator[tuple[Subgraph, str, Refusal]]:
    """Yield the values at the edge of a subgraph that its property forbids."""
    graph = state.graph
    for subgraph, index in made:
        asked, entering = state.properties[index], frozenset(subgraph.inputs)
        if not asked.watches_boundary:
            continue
        for node in subgraph.nodes if entering else ():
            for value in entering.intersection(graph.read_by(node)):
                refusal = asked.may_enter(Node(graph, node), value)
                if refusal is not None:
                    yield subgraph, value, refusal
        for value in subgraph.outputs:
            refusal = asked.may_leave(Node(graph, graph.producers[value]), value)
            if refusal is not None:
                yield subgraph, value, refusal
