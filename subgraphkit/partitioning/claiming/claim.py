"""The partition pass: every property claims regions of the nodes left by earlier ones.

One loop makes regions of the nodes that a property may take, and checks them. The property may no
longer take refused nodes, and the regions are made again. The loop ends, because the set of nodes
only shrinks.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from subgraphkit.backend.property import PartitionSummary
from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import BoundGraph
from subgraphkit.partitioning.algorithms.quotient import weak_components
from subgraphkit.partitioning.claiming.ask import CheckedProperty, RefusalColumn
from subgraphkit.partitioning.claiming.checks import CHECKS, forbidden_at_borders
from subgraphkit.partitioning.claiming.graph import PartitionState, Pass, Region
from subgraphkit.partitioning.claiming.grow import grow
from subgraphkit.partitioning.claiming.merge import Grown, bound_of, merge
from subgraphkit.partitioning.claims import Claim

# How often regions are made again. After that, regions with a refusal are dropped, which makes no
# new edges. Of 5,478 passes on random graphs, 1,008 took a second round, 13 a fourth and none a
# sixth.
_ROUNDS: Final = 16


class Bound(NamedTuple):
    """How good the regions of one property are.

    Attributes:
        lower_bound: No partitioning of the claimed nodes by this rule has fewer regions. None once
            some of them, or of earlier claims, were given back.
        maximal: False if the work budget ended before every possible merge had been tried.
    """

    lower_bound: int | None
    maximal: bool


class RefusedBy(NamedTuple):
    """One property's refusal of one node.

    Attributes:
        backend: Name of the backend.
        property: Name of its property.
        refusal: The reason.
    """

    backend: str
    property: str
    refusal: Refusal


class Passes(NamedTuple):
    """The outcome of the passes of all properties.

    Attributes:
        columns: Their refusals; None for a property that had nothing left to be asked about.
        bounds: How good their regions are; None likewise.
    """

    claims: tuple[Claim, ...]
    columns: tuple[RefusalColumn | None, ...]
    bounds: tuple[Bound | None, ...]

    @property
    def asked(self) -> list[tuple[Claim, RefusalColumn]]:
        """The properties that were asked about something, with their refusals."""
        pairs = zip(self.claims, self.columns, strict=True)
        return [(claim, column) for claim, column in pairs if column is not None]

    def refusals_of(self, node: int) -> tuple[RefusedBy, ...]:
        """Return the refusals of a node, in the order of asking.

        Several properties of a backend often share their rules. Of equal reasons, this returns the
        first.
        """
        first: dict[tuple[str, Refusal], RefusedBy] = {}
        for claim, column in self.asked:
            name, refusal = claim.backend.name, column.of(node)
            if refusal is not None:
                one = RefusedBy(name, claim.property_name, refusal)
                first.setdefault((name, refusal), one)
        return tuple(first.values())


def claim_all(
    state: PartitionState,
    barred: Callable[[int], Mapping[int, Refusal]],
    *,
    first: int = 0,
    earlier: Passes | None = None,
    told: Callable[[Claim], object] = lambda _: None,
) -> Passes:
    """Let every property claim regions of the nodes left by earlier ones.

    ``barred``: Returns by node why a property must not take it.
    ``earlier``: The passes over the whole graph, if these are over a part of it; its columns are
    changed. Properties with a new pass lose their bounds on the number of regions, which were for
    other nodes.
    ``told``: Hears of each property before it claims.
    """
    claims = tuple(map(attrgetter("claim"), state.properties))
    nothing = (None,) * len(claims)
    earlier = earlier or Passes(claims, nothing, nothing)
    columns = list(earlier.columns)
    bounds = [
        bound._replace(lower_bound=None) if bound is not None and at >= first else bound
        for at, bound in enumerate(earlier.bounds)
    ]
    for index, asked in enumerate(state.properties):
        if index < first or not any(state.free):
            continue
        told(asked.claim)
        if (column := columns[index]) is None:
            column = columns[index] = RefusalColumn(len(state.graph.table.op_types))
            with asked.blame("SGK122", "prepare"):
                asked.claim.property.prepare(state.graph, asked.claim.context)
        bound = _claim_regions(open_pass(state, index, column, barred(index)))
        bounds[index] = bounds[index] or bound
    return Passes(claims, tuple(columns), tuple(bounds))


def finish_all(
    graph: BoundGraph, found: PartitionSummary, passes: Passes, earlier: Passes | None = None
) -> None:
    """Show properties, once each, the result; SelectorContractError (SGK122) if one raises."""
    for at, (claim, column) in enumerate(zip(passes.claims, passes.columns, strict=True)):
        if column is None or (earlier is not None and earlier.columns[at] is not None):
            continue
        with CheckedProperty(claim, graph).blame("SGK122", "finish"):
            claim.property.finish(found, claim.context)


def _claim_regions(pass_: Pass) -> Bound:
    regions: Sequence[Sequence[int]] = ()
    refused: Mapping[int, Refusal] = {}
    bound, maximal, whole = 0, True, list[int]()
    for attempt in count():
        if attempt < _ROUNDS:
            pass_.refuse(forbidden_at_borders(pass_, [pass_.ranks]))
            whole = [*pass_.ranks]
            grown = Grown(pass_.eligible, whole=False, complete=True)
            if any(pass_.eligible) and not pass_.stateless:
                grown = grow(pass_)
            regions, bound, maximal = merge(pass_, grown)
        else:
            regions = [ranks for ranks in regions if refused.keys().isdisjoint(ranks)]
            bound, maximal = bound_of(pass_, regions), False
        checks = CHECKS[1:] if regions == [whole] else CHECKS  # its border was looked at above
        refused = next(filter(None, (check(pass_, regions) for check in checks)), {})
        if not refused:
            break
        pass_.refuse(refused)
    hangs_together = pass_.asked.claim.property.connectivity == "connected"
    for ranks in sorted(regions, key=itemgetter(0)):
        connected = hangs_together and pass_.loose.isdisjoint(ranks)
        pass_.state.claim(Region(pass_.index, list(ranks), connected))
        pass_.refusals.clear(map(pass_.state.order.__getitem__, ranks))
    return Bound(bound, maximal)


def open_pass(
    state: PartitionState, index: int, refusals: RefusalColumn, barred: Mapping[int, Refusal]
) -> Pass:
    """Ask a property for its groups and, if its selector is stateless, for its nodes."""
    asked = state.properties[index]
    eligible = bytearray(state.free)
    for node, refusal in barred.items():
        rank = state.rank_of[node]
        if rank >= 0 and eligible[rank]:
            eligible[rank] = 0
            refusals.refuse(node, refusal)
    groups, parted, loose = _groups(state, asked)
    graph, dropped = state.contract(groups)
    named = {rank for group in groups for rank in group}
    apart = [group for group in dropped if not named.isdisjoint(group)]
    for several, text in (
        (parted, "another node of the group was claimed before"),
        (apart, "the group cannot stay together: a path leaves it and comes back"),
    ):
        for rank in (rank for group in several for rank in group):
            eligible[rank] = 0
            refusals.refuse(state.order[rank], Refusal("group", text))
    selector = asked.new_selector()
    if stateless := asked.flag(selector, "stateless"):
        eligible = asked.ask_each(selector, state.order, eligible, refusals)
    # After the last property, nobody is left to keep its groups together.
    is_last = index + 1 == len(state.properties)
    torn = [] if is_last else [group for group in dropped if named.isdisjoint(group)]
    pass_ = Pass(state, index, refusals, selector, stateless, eligible, graph, torn, loose)
    for group in graph.groups:
        missing = next((rank for rank in group if not eligible[rank]), None)
        reason = None if missing is None else refusals.of(state.order[missing])
        if missing is not None and reason is not None:
            pass_.refuse({missing: reason})
    return pass_


def _groups(
    state: PartitionState, asked: CheckedProperty
) -> tuple[list[Sequence[int]], list[Sequence[int]], frozenset[int]]:
    """Ask for the sets of nodes to keep together.

    This returns the sets that can be claimed, and the free rest of those that cannot. At last it
    returns the ranks of sets that are not connected by themselves.
    """
    named: list[Sequence[int]] = []
    parted: list[Sequence[int]] = []
    loose: set[int] = set()
    for nodes in asked.groups():
        ranks = {state.rank_of[node] for node in nodes}
        inside = sorted(rank for rank in ranks if rank >= 0 and not state.constant[rank])
        free = [rank for rank in inside if state.free[rank]]
        if min(ranks, default=0) < 0 or len(free) < len(inside):
            parted.append(free)
        elif free:
            named.append(free)
            if len(weak_components(state.adjacency, free)) > 1:
                loose.update(free)
    return named, parted, frozenset(loose)
