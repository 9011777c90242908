"""The partition step: from a bound model, or a subgraph cut out of one, to a partitioning."""

from collections.abc import Sequence
from typing import overload

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.selection import Selection
from subgraphkit.errors import ConfigError
from subgraphkit.ir import Subgraph, within
from subgraphkit.partitioning.algorithms.collector import collector_paused
from subgraphkit.partitioning.claiming.claimants import (
    Claim,
    choose_claimants,
    choose_claimants_within,
)
from subgraphkit.partitioning.claiming.constraints import Constraints, resolve_constraints
from subgraphkit.partitioning.claiming.turns import finish_turns, require_all_claimed, take_turns
from subgraphkit.partitioning.claiming.work_table import Workspace
from subgraphkit.partitioning.outcome.subgraphs import cut
from subgraphkit.partitioning.partitioning import Partitioning

__all__ = ["partition", "partition_within"]


@overload
def partition(
    bound: BoundModel,
    backends: Selection | None = None,
    *,
    constraints: Constraints | None = None,
) -> Partitioning: ...
@overload
def partition(bound: Subgraph, backends: Sequence[SubgraphProperty]) -> Partitioning: ...
def partition(
    bound: BoundModel | Subgraph,
    backends: Selection | Sequence[SubgraphProperty] | None = None,
    *,
    constraints: Constraints | None = None,
) -> Partitioning:
    """Divide a model among backends, or a subgraph among properties.

    The backends claim in order, each with its properties in order, what those before them left; at
    last the fallback backend takes the rest. Every region is convex and all can run one after the
    other. The same graph and backends always give the same result, which is verified before it is
    returned.

    Args:
        bound: The bound model, or a subgraph of one; not changed. Nodes of a subgraph keep their
            numbers, and its boundary is that of the graph divided.
        backends: The backends in order: a selection string, a name, a ``Backend`` class or
            instance, a pair ``(name, options)``, or a list of them. None for what was configured
            when it was bound. For a subgraph, the properties in order.
        constraints: Nodes to be pinned to backends or kept from them.

    Raises:
        ConfigError: The selection cannot be read (SGK107), a constraint names what does not exist
            or cannot be met, or a subgraph is not of a bound model (SGK123).
        BackendNotFoundError: A backend is not installed (SGK101) or not known (SGK102).
        BackendError: A backend cannot be loaded or cannot run here (SGK103 to SGK105).
        UnclaimedNodesError: Nodes are left that nobody takes (SGK120).
        SelectorContractError: A selector (SGK121) or a property (SGK122) broke its contract.
        InternalError: The verifier found a broken promise (SGK900).
    """
    if isinstance(bound, Subgraph):
        return partition_within(bound, backends, bound.backend)
    partitioning = _divided(bound, choose_claimants(bound, backends), constraints)
    if bound.extensions.implements("subgraphkit_plan"):
        bound.extensions.notify("subgraphkit_plan", partitioning=partitioning)
    return partitioning


def partition_within(subgraph: Subgraph, properties: object, divider: Claim | str) -> Partitioning:
    """Divide a subgraph among properties, and the fallback backend after them.

    Args:
        subgraph: The subgraph.
        properties: The properties in order.
        divider: Who claimed the subgraph, or the name of the backend that did.

    Raises:
        SubgraphkitError: As ``partition``.
    """
    bound = subgraph.graph
    if not isinstance(bound, BoundModel):
        raise ConfigError(
            "SGK123",
            f"subgraph {subgraph.id!r} was not cut out of a bound model, so it cannot be divided",
            hint="Cut it out of what bind() returned.",
        )
    inside = within(bound, subgraph)
    return _divided(inside, choose_claimants_within(inside, properties, divider), None)


def _divided(
    bound: BoundModel, claims: Sequence[Claim], constraints: Constraints | None
) -> Partitioning:
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
    return partitioning
