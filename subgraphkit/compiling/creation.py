"""Creation of one operator: the property that claimed a region is asked for it."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.property import BindContext, PartitionSummary, SubgraphProperty
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.errors import (
    BackendError,
    CompileError,
    OptionError,
    SelectorContractError,
    UnclaimedNodesError,
)
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.partitioning.partition_pass import partition_within

__all__ = ["Compose", "close_all", "compile_claimed", "compile_on_fallback", "failure"]

_logger = logging.getLogger("subgraphkit.compile")

Compose = Callable[[Partitioning], SubgraphOperator]
"""Compiles a division of a subgraph into one operator."""


def compile_claimed(subgraph: Subgraph, claim: Claim, compose: Compose) -> SubgraphOperator:
    """Have a region compiled by the property that claimed it.

    Args:
        subgraph: The region.
        claim: Who claimed it.
        compose: Does what the property asks of ``BindContext.compose``.

    Raises:
        Unsupported: The property gives nodes back.
        CompileError: It failed in any other way (SGK130).
        OptionError: It found only now that an option does not fit the model.
        SelectorContractError: It returned something that is not an operator (SGK122).
    """
    try:
        return _asked(subgraph, claim, compose)
    except (Unsupported, BackendError, OptionError):
        raise
    except Exception as error:
        raise failure(subgraph, error) from error


def compile_on_fallback(subgraph: Subgraph, claim: Claim, compose: Compose) -> SubgraphOperator:
    """Have a region compiled by the fallback backend, whoever claimed it.

    Args:
        subgraph: The region.
        claim: Who claimed it.
        compose: As for ``compile_claimed``.

    Raises:
        LookupError: There is no fallback backend.
        Exception: Whatever the fallback backend raises.
    """
    if claim.fallback is None:
        return claim.context.fallback(subgraph)  # which says that there is none
    operator = _asked(subgraph, claim.fallback, compose)
    operator.made_by = claim.fallback.backend.name
    return operator


def _asked(subgraph: Subgraph, claim: Claim, compose: Compose) -> SubgraphOperator:
    operator: object = claim.property.create_operator(subgraph, _context(claim, compose))
    if not isinstance(operator, SubgraphOperator):
        raise SelectorContractError(
            "SGK122",
            f"create_operator of property {type(claim.property).__name__!r} returned a "
            f"{type(operator).__name__}, expected a SubgraphOperator",
            backend=claim.backend.name,
            subgraph=subgraph.id,
        )
    return operator


def _context(claim: Claim, compose: Compose) -> BindContext:
    """Return what the property is told, with all that it may call on while it compiles."""
    return replace(
        claim.context,
        fallback=partial(compile_on_fallback, claim=claim, compose=compose),
        partition=partial(_partition, claim),
        compose=partial(_compose, claim, compose),
    )


def _partition(
    claim: Claim, subgraph: Subgraph, properties: Sequence[SubgraphProperty]
) -> Partitioning:
    with _giving_back():
        return partition_within(subgraph, properties, claim)


def _compose(claim: Claim, compose: Compose, partitioning: PartitionSummary) -> SubgraphOperator:
    if not isinstance(partitioning, Partitioning):
        raise claim.fault(
            "SGK122", f"compose() was given {partitioning!r}, expected what partition() returned"
        )
    with _giving_back():
        return compose(partitioning)


@contextmanager
def _giving_back() -> Iterator[None]:
    """Give nodes that nobody takes at the second level back to the first."""
    try:
        yield
    except UnclaimedNodesError as error:
        raise Unsupported(error.message, nodes=error.context["nodes"]) from error


def failure(subgraph: Subgraph, error: Exception) -> CompileError:
    """Word that a backend failed to compile what it claimed (SGK130)."""
    members = subgraph.members or tuple(subgraph.graph.nodes[i] for i in subgraph.nodes)
    return CompileError(
        "SGK130",
        f"backend {subgraph.backend!r} claimed subgraph {subgraph.id!r} ({len(subgraph.nodes)} "
        f"nodes, {members[0].label} .. {members[-1].label}) but failed to compile it: "
        f"{type(error).__name__}: {error}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="To run these nodes elsewhere, leave the backend out of the list or set "
        "on_compile_error='fallback'.",
    )


def close_all(operators: Iterable[SubgraphOperator]) -> None:
    """Close operators; one that fails is logged, so that the others are closed all the same."""
    for operator in operators:
        try:
            operator.close()
        except Exception:
            _logger.exception("closing %s failed", type(operator).__name__)
