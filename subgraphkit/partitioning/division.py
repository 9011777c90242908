"""Division of a whole graph among the backends of a bind; of those behind ``auto``, few.

Unclaimed nodes are an error with the refusals and a remedy.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.names import BACKEND_NAMES, KNOWN_BACKENDS
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import ConfigError, SubgraphkitError, UnclaimedNodesError
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.claim import Passes, claim_all
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.claims import Claim, choose_again, choose_claimants, survivors
from subgraphkit.partitioning.constraints import (
    NO_DEMANDS,
    Constraints,
    ResolvedConstraints,
    kept_away,
    resolve_constraints,
)
from subgraphkit.partitioning.predictions import MARGIN, Predictions

_Division = tuple[PartitionState, Passes]


def divide_model(
    bound: BoundModel,
    settings: ResolvedConfig,
    demands: Constraints | None,
    *,
    named: dict[str, str],
    dry_run: bool,
) -> tuple[PartitionState, Passes, ResolvedConstraints]:
    """Let the selected backends claim, and as many of those behind ``auto`` as can win anything.

    If the selection is ``auto`` alone and nothing is demanded, costs decide. Small regions that
    cost more to hand over than they gain are given back. If one backend that takes everything is
    predicted to be quicker, it gets all.
    """
    weighs = demands is None and settings.auto is not None
    costs = Predictions(bound, settings) if weighs else None
    among = partial(costs.candidates, fallback=settings.fallback) if costs is not None else None

    def takes_all(claims: Sequence[Claim]) -> bool:
        return not any(claim_regions(bound, claims)[0].free)

    choices = choose_claimants(
        bound, settings, takes_all, named=named, among=among, dry_run=dry_run
    )
    # a demand may name any of them, so then all are opened at once
    claims = next(choices) if demands is None else list(choices)[-1]
    claims = survivors(bound, claims, named)
    names = tuple(dict.fromkeys(claim.backend.name for claim in claims))
    demanded = resolve_constraints(bound, demands, names)
    found = claim_regions(bound, claims, demanded)
    while _wants_more(found[0], costs) and (wider := next(choices, None)) is not None:
        claims = survivors(bound, wider, named)
        found = claim_regions(bound, claims, demanded)
    if costs is not None:
        found = _weigh_division(bound, claims, found, costs)
    return *found, demanded


def claim_regions(
    bound: BoundModel,
    claims: Sequence[Claim],
    demanded: ResolvedConstraints = NO_DEMANDS,
    costs: Predictions | None = None,
    told: Callable[[Claim], object] = lambda _: None,
) -> _Division:
    """Let properties claim; ``costs`` weighs their regions, ``told`` hears of each."""
    state = PartitionState(bound, claims)
    state.weigh = costs.worth if costs is not None else None
    refusals = [kept_away(claim, bound, demanded) for claim in claims]
    return state, claim_all(state, lambda index: refusals[index], told=told)


def _weigh_division(
    bound: BoundModel, claims: Sequence[Claim], found: _Division, costs: Predictions
) -> _Division:
    """Give back small regions, or all to one backend, if ``auto`` divided the model."""
    if len(_taking_part(found[0])) < 2:  # noqa: PLR2004 (nothing is divided)
        return found
    best = claim_regions(bound, choose_again(bound, claims), costs=costs)
    if any(best[0].free):  # nobody else takes the nodes given back
        best = found
    least = (costs.total(best[0]) or 0.0) / MARGIN
    for name in dict.fromkeys(claim.backend.name for claim in claims):
        alone = claim_regions(bound, choose_again(bound, claims, name))
        takes_all = not any(alone[0].free) and _taking_part(alone[0]) == {name}
        predicted = costs.total(alone[0]) if takes_all else None
        if predicted is not None and predicted <= least:
            best, least = alone, predicted
    return best


def _taking_part(state: PartitionState) -> set[str]:
    return {state.properties[region.claim].claim.backend.name for region in state.regions}


def _wants_more(state: PartitionState, costs: Predictions | None) -> bool:
    """Say whether one more backend could have nodes: those that nobody took, or the fallback."""
    left = list(compress(state.order, state.free))
    for region in state.regions:
        if state.properties[region.claim].claim.is_fallback:
            left += state.nodes_of(region)
    if costs is not None:
        costs.left, costs.divided = left, costs.total(state) or 0.0
    return bool(left)


_SHOWN_NODES = 10
_TOTAL_BACKEND = "numpy"
_RUNTIME = "onnxruntime"
_RUNTIME_DOMAINS = "com.microsoft"


def require_all_claimed(
    state: PartitionState, passes: Passes, constraints: ResolvedConstraints
) -> None:
    """Raise if nodes are left: ConfigError (SGK123) if pinned, or UnclaimedNodesError (SGK120)."""
    left = sorted(compress(state.order, state.free))
    if not passes.claims:
        left = sorted(state.order)
    if not left:
        return
    listed = [
        f"{Node(state.graph, node).label}: {_reasons(passes, node)}" for node in left[:_SHOWN_NODES]
    ]
    if len(left) > _SHOWN_NODES:
        listed.append(f"... and {len(left) - _SHOWN_NODES} more")
    pinned = next((node for node in left if node in constraints.pinned), None)
    if pinned is not None:
        label, target = Node(state.graph, pinned).label, constraints.pinned[pinned]
        in_group = any(one.refusal.code == "group" for one in passes.refusals_of(pinned))
        advice = ". Pin every node of the group to the same backend." if in_group else ""
        raise ConfigError(
            "SGK123",
            f"node {label} is pinned to {target!r}, which refused it",
            hint=_reasons(passes, pinned) + advice,
            node=pinned,
        )
    asked = tuple(dict.fromkeys(claim.backend.name for claim in passes.claims))
    nodes = "1 node is" if len(left) == 1 else f"{len(left)} nodes are"
    raise UnclaimedNodesError(
        "SGK120",
        f"{nodes} claimed by no backend; asked: {', '.join(asked) or 'none'}",
        hint="\n".join([*listed, *_remedies(state.graph, left, asked)]),
        nodes=tuple(left),
        backends=asked,
    )


def _takers(graph: BoundModel, left: Sequence[int], asked: Sequence[str]) -> Iterator[str]:
    """Yield the backends that were not asked and would take all that is left.

    Those of ours that have fewer operators than NumPy are not opened for that.
    """
    for name in sorted((BACKEND_NAMES.known_names() - KNOWN_BACKENDS.keys()) | {_RUNTIME}):
        if name in asked or not BACKEND_NAMES.is_installed(name):
            continue
        # it cannot run here, or is broken; options for others are of no interest
        with suppress(SubgraphkitError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = graph.settings.selecting(parse_selection(name, name), "call", name)
            state, _, _ = divide_model(graph, chosen, None, named={}, dry_run=False)
            if not {*left}.intersection(compress(state.order, state.free)):
                yield name


def _remedies(graph: BoundModel, left: Sequence[int], asked: Sequence[str]) -> list[str]:
    """Return remedies for the nodes that are left, except those that were tried."""
    takers = list(_takers(graph, left, asked))
    remedies = [f"Backend {name!r} takes them: add {name!r} to the backends." for name in takers]
    domains = {graph.table.domains[node] for node in left}
    foreign = sorted(domain for domain in domains if domain and not domain.startswith("ai.onnx"))
    theirs = [domain for domain in foreign if domain.startswith(_RUNTIME_DOMAINS)]
    if theirs and not BACKEND_NAMES.is_installed(_RUNTIME):
        named = ", ".join(map(repr, theirs))
        remedies.append(
            f"Operators of domain {named} are ONNX Runtime's own, which runs them: "
            f"{KNOWN_BACKENDS[_RUNTIME]}, and add {_RUNTIME!r} to the backends."
        )
        foreign = [domain for domain in foreign if domain not in theirs]
    if foreign and not takers:
        named = ", ".join(map(repr, foreign))
        remedies.append(f"Install or write a backend for the operators of domain {named}.")
    if graph.settings.strict:
        remedies.append("strict is on, so nothing falls back: add a backend, or leave strict off.")
    elif _TOTAL_BACKEND not in asked:
        remedies.append(
            "The NumPy backend runs every operator of ONNX: "
            'pip install "subgraphkit[numpy]", and leave fallback at its default.'
        )
    return remedies


def _reasons(passes: Passes, node: int) -> str:
    refused = passes.refusals_of(node)
    return "; ".join(f"{one.backend}: {one.refusal}" for one in refused) or "nobody was asked"
