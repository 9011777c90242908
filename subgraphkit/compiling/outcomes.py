"""Outcomes of compiling a subgraph: an operator, a failure, or nodes that are given back."""

from collections.abc import Iterable
from operator import index as as_index

from subgraphkit import backend as contract
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.refusal import Refusal, Unsupported
from subgraphkit.boundary import pass_on
from subgraphkit.errors import (
    CompileError,
    SelectorContractError,
    text_of,
)
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.ir import Subgraph
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Partitioning

_logger = logger_of("compile")


def failure(subgraph: Subgraph, error: BaseException) -> CompileError:
    """Word that a backend failed to compile what it claimed (SGK130)."""
    members = subgraph.members or tuple(subgraph.graph.nodes[i] for i in subgraph.nodes)
    found = CompileError(
        "SGK130",
        f"backend {subgraph.backend!r} claimed subgraph {subgraph.id!r} ({len(subgraph.nodes)} "
        f"nodes, {members[0].label} .. {members[-1].label}) but failed to compile it: "
        f"{type(error).__name__}: {text_of(error)}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="To run these nodes elsewhere, leave the backend out of the list or set "
        "on_compile_error='fallback'.",
    )
    for note in getattr(error, "__notes__", ()):  # what the library printed meanwhile
        found.add_note(note)
    return found


def close_all(operators: Iterable[SubgraphOperator]) -> None:
    """Close operators; one that fails is logged, so that the others are closed all the same."""
    for operator in operators:
        try:
            operator.close()
        except BaseException as error:
            pass_on(error)
            _logger.exception("closing %s failed", type(operator).__name__)


def given_back(
    current: Partitioning, place: int, error: Unsupported | CompileError
) -> Partitioning:
    """Return the partitioning without what a backend gives back of the subgraph at a place.

    Raises:
        CompileError: Nothing is to be given back, by the policy (SGK130).
        SelectorContractError: What is given back is not in the subgraph (SGK122).
        UnclaimedNodesError: Nobody else takes it (SGK120).
    """
    subgraph, settings = current.subgraphs[place], current.graph.settings
    if isinstance(error, CompileError):
        if settings.on_compile_error != "fallback":
            raise error
        refusal, nodes = Refusal("compile_failed", error.message), subgraph.nodes
    else:
        if settings.on_unsupported == "raise":
            raise failure(subgraph, error) from error
        refusal, nodes = error.refusal, _named_nodes(subgraph, error) or subgraph.nodes
    _tell_given_back(current.graph.extensions, subgraph, error, refusal, len(nodes))
    return current.repartition_at(place, dict.fromkeys(nodes, refusal))


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
    refusal: Refusal,
    count: int,
) -> None:
    _logger.warning(
        "backend %r gives back %d of %d nodes of subgraph %r: %s",
        subgraph.backend,
        count,
        len(subgraph.nodes),
        subgraph.id,
        refusal.text,
    )
    if extensions.implements("subgraphkit_fallback"):
        event = contract.FallbackEvent(
            model=extensions.model,
            session=extensions.session,
            subgraph=subgraph.id,
            level="unsupported" if isinstance(error, Unsupported) else "compile",
            backend=subgraph.backend,
            target="",
            code=refusal.code,
            reason=refusal.text,
            node_count=count,
        )
        extensions.notify("subgraphkit_fallback", event=event)


def tell_compiled(
    extensions: ExtensionManager,
    subgraph: Subgraph,
    operator: SubgraphOperator,
    seconds: float,
    *,
    from_cache: bool,
) -> None:
    """Tell the log and extensions that there is an operator."""
    verb = "restored" if from_cache else "compiled"
    _logger.info("%s %s (%d nodes, %.3f s)", verb, subgraph.id, len(subgraph.nodes), seconds)
    if extensions.implements("subgraphkit_compiled"):
        event = contract.CompileEvent(
            model=extensions.model,
            session=extensions.session,
            subgraph=subgraph.id,
            backend=subgraph.backend,
            node_count=len(subgraph.nodes),
            seconds=seconds,
            from_cache=from_cache,
            info=operator.info(),
        )
        extensions.notify("subgraphkit_compiled", event=event)
