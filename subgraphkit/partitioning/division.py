"""Division of a whole graph among the backends of a bind; of those behind ``auto``, few."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.partitioning.claiming.claim import Passes, claim_all
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.claims import (
    Claim,
    choose_again,
    choose_claimants,
    rehearsed,
)
from subgraphkit.partitioning.constraints import (
    NO_DEMANDS,
    Constraints,
    ResolvedConstraints,
    kept_away,
    resolve_constraints,
)
from subgraphkit.partitioning.predictions import Predictions


def divided(
    bound: BoundModel,
    settings: ResolvedConfig,
    demands: Constraints | None,
    *,
    named: dict[str, str],
    dry_run: bool,
) -> tuple[PartitionState, Passes, ResolvedConstraints]:
    """Let the selected backends claim, and as many of those behind ``auto`` as can win anything.

    Where ``auto`` is all of the selection and nothing is demanded, small regions that cost more to
    hand over than they gain are given back, and all goes to one backend that takes everything
    where that is predicted to be quicker.

    Raises:
        SubgraphkitError: As ``partition``.
    """
    weighs = demands is None and settings.auto is not None
    costs = Predictions(bound, settings) if weighs else None
    among = partial(costs.candidates, fallback=settings.fallback) if costs is not None else None
    takes_all = partial(_takes_all, bound)
    choices = choose_claimants(
        bound, settings, takes_all, named=named, among=among, dry_run=dry_run
    )
    # a demand may name any of them, so then all are opened at once
    claims = next(choices) if demands is None else list(choices)[-1]
    claims = rehearsed(bound, claims, named)
    names = tuple(dict.fromkeys(claim.backend.name for claim in claims))
    demanded = resolve_constraints(bound, demands, names)
    found = claimed(bound, claims, demanded)
    while _wants_more(found[0], costs) and (wider := next(choices, None)) is not None:
        claims = rehearsed(bound, wider, named)
        found = claimed(bound, claims, demanded)
    if costs is not None:
        found = _weighed(bound, claims, found, costs)
    return *found, demanded


def claimed(
    bound: BoundModel,
    claims: Sequence[Claim],
    demanded: ResolvedConstraints = NO_DEMANDS,
    costs: Predictions | None = None,
    told: Callable[[Claim], object] = lambda _: None,
) -> tuple[PartitionState, Passes]:
    """Let properties claim; ``costs`` weighs their regions, ``told`` hears of each."""
    state = PartitionState(bound, claims)
    state.weigh = costs.worth if costs is not None else None
    refusals = [kept_away(claim, bound, demanded) for claim in claims]
    return state, claim_all(state, lambda index: refusals[index], told=told)


def _weighed(
    bound: BoundModel,
    claims: Sequence[Claim],
    found: tuple[PartitionState, Passes],
    costs: Predictions,
) -> tuple[PartitionState, Passes]:
    """Give back small regions, or all to one backend, where what ``auto`` found is divided."""
    if len(_taking_part(found[0])) < 2:  # noqa: PLR2004 (nothing is divided)
        return found
    best = claimed(bound, choose_again(bound, claims), costs=costs)
    if any(best[0].free):  # what was given back nobody else takes
        best = found
    for name in dict.fromkeys(claim.backend.name for claim in claims):
        seconds = costs.total(best[0])
        alone = claimed(bound, choose_again(bound, claims, name))
        takes_all = not any(alone[0].free) and _taking_part(alone[0]) == {name}
        predicted = costs.total(alone[0]) if takes_all and seconds is not None else None
        if predicted is not None and seconds is not None and predicted <= seconds:
            best = alone
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
        costs.left = left
    return bool(left)


def _takes_all(bound: BoundModel, claims: Sequence[Claim]) -> bool:
    return not any(claimed(bound, claims)[0].free)
