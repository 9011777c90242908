"""Nodes that a backend gives back while it compiles: to whom they go, and who is told."""

from collections.abc import Mapping
from operator import index as as_index

from subgraphkit.backend.events import FallbackEvent
from subgraphkit.backend.refusal import Refusal, Unsupported
from subgraphkit.compiling.creation import failure
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import CompileError, SelectorContractError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Partitioning
from subgraphkit.texts import logger_of

__all__ = ["given_back"]

_logger = logger_of("compile")


def given_back(
    current: Partitioning, place: int, error: Unsupported | CompileError
) -> Partitioning:
    """Return the partitioning without what a backend gives back of the subgraph at a place.

    Raises:
        CompileError: Nothing is to be given back, by the policy (SGK130).
        SelectorContractError: What is given back is not in the subgraph (SGK122).
        UnclaimedNodesError: Nobody else takes it (SGK120).
    """
    graph, subgraph = current.graph, current.subgraphs[place]
    refused = _given_back(subgraph, error, graph.settings)
    _tell_given_back(graph.extensions, subgraph, error, refused)
    return current.repartition_at(place, refused)


def _given_back(
    subgraph: Subgraph, error: Unsupported | CompileError, settings: ResolvedConfig
) -> dict[int, Refusal]:
    """Return the nodes to take away from the backend, or raise if the policy says so."""
    if isinstance(error, CompileError):
        if settings.on_compile_error != "fallback":
            raise error
        refusal, nodes = Refusal("compile_failed", error.message), subgraph.nodes
    else:
        if settings.on_unsupported == "raise":
            raise failure(subgraph, error) from error
        refusal, nodes = error.refusal, _named_nodes(subgraph, error) or subgraph.nodes
    return dict.fromkeys(nodes, refusal)


def _named_nodes(subgraph: Subgraph, error: Unsupported) -> tuple[int, ...]:
    """Return the nodes that a backend gives back by name.

    Raises:
        SelectorContractError: They are no node indices, or not of the subgraph (SGK122).
    """
    nodes: tuple[int, ...] = ()
    try:
        nodes = tuple(map(as_index, error.nodes))
    except TypeError:
        problem = f"nodes {error.nodes!r}, expected indices of nodes"
    else:
        foreign = sorted(set(nodes).difference(subgraph.nodes))
        problem = f"nodes {foreign}, which are not in the subgraph" if foreign else ""
    if problem:
        raise SelectorContractError(
            "SGK122",
            f"Unsupported names {problem}",
            backend=subgraph.backend,
            subgraph=subgraph.id,
            hint="Unsupported(nodes=...) takes a tuple of indices into the model's node list.",
        ) from error
    return nodes


def _tell_given_back(
    extensions: ExtensionManager,
    subgraph: Subgraph,
    error: Unsupported | CompileError,
    refused: Mapping[int, Refusal],
) -> None:
    refusal = next(iter(refused.values()))
    _logger.warning(
        "backend %r gives back %d of %d nodes of subgraph %r: %s",
        subgraph.backend,
        len(refused),
        len(subgraph.nodes),
        subgraph.id,
        refusal.text,
    )
    if extensions.implements("subgraphkit_fallback"):
        event = FallbackEvent(
            model=extensions.model,
            session=extensions.session,
            subgraph=subgraph.id,
            level="unsupported" if isinstance(error, Unsupported) else "compile",
            backend=subgraph.backend,
            target="",
            code=refusal.code,
            reason=refusal.text,
            node_count=len(refused),
        )
        extensions.notify("subgraphkit_fallback", event=event)
