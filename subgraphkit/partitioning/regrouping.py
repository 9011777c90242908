"""Partitionings changed by hand: regions merged, split, put on another backend, or given in a file.

Source: refinement in partitioning theory. In an acyclic partitioning, an acyclic partitioning of
one region's nodes may replace the region; the whole stays acyclic. Merged regions, and those from a
file, are no refinement, and are checked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from subgraphkit.backend.refusal import Refusal
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import ConfigError, InvalidModelError
from subgraphkit.ir import Initializer, Node, Subgraph
from subgraphkit.partitioning.algorithms.quotient import CyclicGroupsError
from subgraphkit.partitioning.claiming.ask import CheckedProperty
from subgraphkit.partitioning.claiming.claim import Passes, claim_all, finish_all
from subgraphkit.partitioning.claiming.graph import PartitionState, Region
from subgraphkit.partitioning.claims import Claim, choose_again, choose_claimants
from subgraphkit.partitioning.constraints import kept_away
from subgraphkit.partitioning.division import claim_regions, require_all_claimed
from subgraphkit.partitioning.outcome.partitioning_data import (
    Cut,
    PartitioningData,
    PartitioningT,
    cut,
)
from subgraphkit.partitioning.outcome.verification import forbidden_crossings

Regions = Sequence[tuple[int, Collection[int]]]
"""The regions of a partitioning: the place of the claim of each, and its nodes."""


def regions_of(partitioning: PartitioningT) -> list[tuple[int, Collection[int]]]:
    """Return the regions of a partitioning."""
    nodes = [one.nodes for one in partitioning.subgraphs]
    return list(zip(partitioning.claimed_by, nodes, strict=True))


def with_regions(partitioning: PartitioningT, regions: Regions) -> PartitioningT:
    """Return a partitioning with other regions; ConfigError (SGK123) for a circle or a refusal.

    ``regions``: Nodes in any order; where ``Constant`` nodes go is found anew.
    """
    state = PartitionState(partitioning.graph, partitioning.passes.claims)
    for claim, nodes in regions:
        ranks = sorted(state.rank_of[node] for node in nodes)
        if ranks := [rank for rank in ranks if not state.constant[rank]]:
            state.claim(Region(claim, ranks))
    try:
        state.in_run_order()
    except CyclicGroupsError as error:
        raise ConfigError(
            "SGK123",
            "the regions would wait on each other in a circle: a path leaves one of them and "
            "comes back",
            hint="A region is convex, and all can run one after the other. Merge what lies on the "
            "path as well, or split elsewhere.",
        ) from error
    subgraphs, claimed_by = cut(state, partitioning.passes, checks=_require_accepted)
    changed = replace(partitioning, subgraphs=subgraphs, claimed_by=claimed_by)
    finish_all(changed.graph, changed, changed.passes, earlier=changed.passes)
    return changed


def _require_accepted(state: PartitionState, made: Sequence[Cut]) -> None:
    for subgraph, value, refusal in forbidden_crossings(state, made):
        raise ConfigError(
            "SGK123",
            f"value {value!r} may not cross the edge of subgraph {subgraph.id!r}: {refusal}",
        )
    for subgraph, claim in made:
        asked: CheckedProperty = state.properties[claim]
        first = Node(state.graph, subgraph.nodes[0])
        answer = asked.ask(asked.claim.property, "accept", subgraph, about=first)
        if answer is not None:
            problem = f"backend {subgraph.backend!r} refuses subgraph {subgraph.id!r}: {answer}"
            raise ConfigError("SGK123", problem)


def explain_refused(partitioning: PartitioningT, constants: Mapping[str, Initializer]) -> str:
    """Say which node its backend would refuse if constants were others, and why; empty if none.

    Nothing is known of a graph that properties from outside divided.
    """
    before = partitioning.passes.claims
    graph = replace(partitioning.graph, constants={**partitioning.graph.constants, **constants})
    claims = choose_again(graph, before)
    if [one.property_name for one in claims] != [one.property_name for one in before]:
        return ""
    try:
        columns = claim_regions(graph, claims, partitioning.constraints)[1].columns
    except InvalidModelError:  # a bundle leaves out weights that only its engines hold
        return ""
    for subgraph, at in zip(partitioning.subgraphs, partitioning.claimed_by, strict=True):
        if (column := columns[at]) is None:
            continue
        for node in subgraph.nodes:
            if (refusal := column.of(node)) is not None:
                return f"{subgraph.backend} refuses node {Node(graph, node).label}: {refusal}"
    return ""


def merge_subgraphs(partitioning: PartitioningT, ids: Sequence[str]) -> PartitioningT:
    """Return the partitioning with some subgraphs of one backend as one, as ``with_regions``."""
    places = sorted({partitioning.place_of(one) for one in ids})
    backends = dict.fromkeys(partitioning.subgraphs[place].backend for place in places)
    if len(backends) > 1:
        raise ConfigError(
            "SGK123",
            f"subgraphs of several backends ({', '.join(backends)}) cannot be merged",
            hint="Put them on one first: partitioning.move(subgraph_id, backend).",
        )
    regions = regions_of(partitioning)
    nodes = list(chain.from_iterable(regions[place][1] for place in places))
    whole = [(regions[place][0], nodes) for place in places[:1]]
    rest = [one for place, one in enumerate(regions) if place not in places]
    return with_regions(partitioning, [*rest, *whole])


def split(partitioning: PartitioningT, subgraph_id: str, nodes: Iterable[int]) -> PartitioningT:
    """Return the partitioning with some nodes of a subgraph apart, as ``with_regions``."""
    place, apart = partitioning.place_of(subgraph_id), frozenset(nodes)
    claim, whole = regions_of(partitioning)[place]
    if not apart or not apart < frozenset(whole):
        raise ConfigError(
            "SGK123",
            f"nodes {sorted(apart)} are not a part of subgraph {subgraph_id!r}",
            hint=f"Name some of its nodes, and not all: {sorted(whole)}.",
        )
    regions = regions_of(partitioning)
    regions[place : place + 1] = [(claim, apart), (claim, frozenset(whole) - apart)]
    return with_regions(partitioning, regions)


def move_subgraph(partitioning: PartitioningT, subgraph_id: str, backend: object) -> PartitioningT:
    """Return the partitioning with the nodes of a subgraph pinned to another backend."""
    place = partitioning.place_of(subgraph_id)
    name, claims, shift = _with_backend(partitioning, backend)
    subgraph = partitioning.subgraphs[place]
    pinned = {**partitioning.constraints.pinned, **dict.fromkeys(subgraph.nodes, name)}
    demanded = partitioning.constraints._replace(pinned=pinned)
    changed = replace(
        partitioning,
        passes=_spread(partitioning.passes, claims, shift),
        claimed_by=tuple(shift[at] for at in partitioning.claimed_by),
        constraints=demanded,
    )
    return divided_anew(changed, place)


def _spread(passes: Passes, claims: tuple[Claim, ...], shift: Sequence[int]) -> Passes:
    """Return passes with claims put in between, which were asked nothing yet."""
    old = {new: at for at, new in enumerate(shift)}
    columns = tuple(passes.columns[old[at]] if at in old else None for at in range(len(claims)))
    bounds = tuple(passes.bounds[old[at]] if at in old else None for at in range(len(claims)))
    return Passes(claims, columns, bounds)


def _with_backend(
    partitioning: PartitioningT, backend: object
) -> tuple[str, tuple[Claim, ...], list[int]]:
    """Return a backend's name, claims with its own among them, and where the others stand now."""
    claims, settings = partitioning.passes.claims, partitioning.graph.settings
    origin = f"argument backend={backend!r}"
    choices = parse_selection(backend, origin)
    if len(choices) != 1:
        raise ConfigError("SGK123", f"{origin} names {len(choices)} backends, expected one")
    name = choices[0].name
    if name in partitioning.backends:
        return name, claims, list(range(len(claims)))
    alone = settings.selecting(choices, "call", origin)
    *_, found = choose_claimants(partitioning.graph, alone, lambda _: True)
    own = [one for one in found if one.backend.name == name]
    last = claims[-1]
    behind = last.is_fallback or last.backend.name == settings.fallback  # takes refused nodes
    place = len(claims) - behind * sum(one.backend is last.backend for one in claims)
    shift = [at + len(own) * (at >= place) for at in range(len(claims))]
    return name, (*claims[:place], *own, *claims[place:]), shift


def divided_anew(
    partitioning: PartitioningT,
    place: int,
    first: int = 0,
    given_back: Mapping[int, Refusal] = MappingProxyType({}),
) -> PartitioningT:
    """Divide the subgraph at a place anew, under the demands; its successors take the place.

    ``given_back``: The nodes that the ``first`` property to be asked gave back, with the reasons.
    """
    graph, demanded = partitioning.graph, partitioning.constraints
    columns = [
        column.copy() if column is not None and at >= first else column
        for at, column in enumerate(partitioning.passes.columns)
    ]
    earlier = partitioning.passes._replace(columns=tuple(columns))
    subgraph: Subgraph = partitioning.subgraphs[place]
    state = PartitionState(graph, earlier.claims, subgraph.nodes, wanted=subgraph.outputs)

    def bar_nodes(at: int) -> Mapping[int, Refusal]:
        kept = kept_away(earlier.claims[at], graph, demanded)
        return {**kept, **given_back} if at == first else kept

    passes = claim_all(state, bar_nodes, first=first, earlier=earlier)
    require_all_claimed(state, passes, demanded)
    pieces, claims = cut(state, passes)
    before, claimed_by = partitioning.subgraphs, partitioning.claimed_by
    changed = replace(
        partitioning,
        subgraphs=(*before[:place], *pieces, *before[place + 1 :]),
        passes=passes,
        claimed_by=(*claimed_by[:place], *claims, *claimed_by[place + 1 :]),
    )
    finish_all(graph, changed, passes, earlier=partitioning.passes)
    return changed


def taken_away(
    partitioning: PartitioningData, subgraph: Subgraph, index: int, refused: Mapping[int, Refusal]
) -> dict[int, Refusal]:
    """Return the nodes to keep from the backend: of a ``Constant`` node, those that read it.

    Without one node fewer the backend would get the same subgraph, and give it back, for ever.
    """
    graph, inside = partitioning.graph, frozenset(subgraph.nodes)
    kept_off: dict[int, Refusal] = {}
    constants: dict[str, Refusal] = {}
    for node, refusal in refused.items():
        if node not in inside:
            raise partitioning.passes.claims[index].fault(
                "SGK122",
                f"gave back node {node!r}, which is not in subgraph {subgraph.id!r}",
                "Unsupported(nodes=...) takes indices into the model's node list.",
            )
        if graph.is_constant_node(node):
            constants.update(dict.fromkeys(graph.table.outputs[node], refusal))
        else:
            kept_off[node] = refusal
    for node in subgraph.nodes if constants else ():
        for value in graph.read_by(node):
            if value in constants:
                kept_off.setdefault(node, constants[value])
    if not kept_off:
        named = ", ".join(Node(graph, node).label for node in sorted(refused)) or "no node"
        raise partitioning.passes.claims[index].fault(
            "SGK122",
            f"gave back {named} of subgraph {subgraph.id!r}, which takes nothing away from it",
            "Name nodes that run; of a Constant node, the nodes that read it.",
        )
    return kept_off
