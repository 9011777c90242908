"""The partition step: from a bound graph to a partitioning."""

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.selection import Selection
from subgraphkit.partitioning.algorithms.collector import collector_paused
from subgraphkit.partitioning.claiming.claimants import choose_claimants
from subgraphkit.partitioning.claiming.constraints import Constraints, resolve_constraints
from subgraphkit.partitioning.claiming.turns import finish_turns, require_all_claimed, take_turns
from subgraphkit.partitioning.claiming.work_table import Workspace
from subgraphkit.partitioning.outcome.subgraphs import cut
from subgraphkit.partitioning.partitioning import Partitioning

__all__ = ["partition"]


def partition(
    bound: BoundModel,
    backends: Selection | None = None,
    *,
    constraints: Constraints | None = None,
) -> Partitioning:
    """Divide a model among backends.

    The backends claim in order, each with its properties in order, what those before them left; at
    last the fallback backend takes the rest. Every region is convex and all can run one after the
    other. The same graph and backends always give the same result, which is verified before it is
    returned.

    Args:
        bound: The bound model; not changed.
        backends: The backends in order: a selection string, a name, a ``Backend`` class or
            instance, a pair ``(name, options)``, or a list of them. None for what was configured
            when it was bound.
        constraints: Nodes to be pinned to backends or kept from them.

    Raises:
        ConfigError: The selection cannot be read (SGK107), or a constraint names what does not
            exist or cannot be met (SGK123).
        BackendNotFoundError: A backend is not installed (SGK101) or not known (SGK102).
        BackendError: A backend cannot be loaded or cannot run here (SGK103 to SGK105).
        UnclaimedNodesError: Nodes are left that nobody takes (SGK120).
        SelectorContractError: A selector (SGK121) or a property (SGK122) broke its contract.
        InternalError: The verifier found a broken promise (SGK900).
    """
    claims = choose_claimants(bound, backends)
    names = tuple(dict.fromkeys(claim.backend.name for claim in claims))
    demanded = resolve_constraints(bound, constraints, names)
    with collector_paused():
        workspace = Workspace(bound)
        turns = take_turns(
            workspace, claims, lambda index: demanded.refusals_for(claims[index].backend.name)
        )
        require_all_claimed(workspace, turns, demanded)
        made = cut(workspace, turns)
    partitioning = Partitioning(
        graph=bound,
        subgraphs=tuple(subgraph for subgraph, _ in made),
        turns=turns,
        claimed_by=tuple(index for _, index in made),
        constraints=demanded,
    )
    finish_turns(bound, partitioning, turns)
    if bound.extensions.implements("subgraphkit_plan"):
        bound.extensions.notify("subgraphkit_plan", partitioning=partitioning)
    return partitioning
