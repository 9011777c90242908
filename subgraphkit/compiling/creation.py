"""Creation of one operator, and the nodes that its backend gives back meanwhile.

The property that claimed a region is asked for it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import index as as_index
from typing import NamedTuple

from subgraphkit import backend as contract
from subgraphkit.backend.operator import SubgraphOperator, set_maker
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.property import BindContext, PartitionSummary, SubgraphProperty
from subgraphkit.backend.refusal import Refusal, Unsupported
from subgraphkit.binding import BoundModel
from subgraphkit.boundary import pass_on
from subgraphkit.compiling.isolation import isolated
from subgraphkit.errors import (
    BackendError,
    CompileError,
    InvalidModelError,
    OptionError,
    SelectorContractError,
    UnclaimedNodesError,
    text_of,
)
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.ir import Subgraph
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Claim, Partitioning, partition_within
from subgraphkit.partitioning.constraints import ResolvedConstraints

_logger = logger_of("compile")


class Creation(NamedTuple):
    """Asks properties for operators, and gives them what they may call on meanwhile.

    Attributes:
        constraints: What the user demands; holds inside subgraphs as well.
        is_cached: Whether engines are looked for in the cache and kept there.
        compose: Compiles a division of a subgraph into one operator.
    """

    graph: BoundModel
    constraints: ResolvedConstraints
    shares_processors: bool
    is_cached: bool
    progress: Progress
    compose: Callable[[Partitioning], SubgraphOperator]

    def compiled(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        """Have a region compiled by the property that claimed it.

        Raises:
            Unsupported: The property gives nodes back.
            CompileError: It failed in any other way (SGK130).
            OptionError: It found only now that an option does not fit the model.
            InvalidModelError: A weight cannot be read (SGK208, SGK210, SGK211).
            SelectorContractError: It returned something that is not an operator (SGK122).
        """
        try:
            return self._asked(subgraph, claim)
        except (Unsupported, BackendError, OptionError, InvalidModelError):
            raise  # the last is of weights that cannot be read, which no backend can mend
        except BaseException as error:
            self.progress.check()  # it was stopped, and says so in words of its own
            pass_on(error)
            raise failure(subgraph, error) from error

    def on_fallback(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        """Have a region compiled by the fallback backend, in place of the backend that claimed it.

        Raises:
            LookupError: There is no fallback backend.
            Exception: Whatever the fallback backend raises.
        """
        if claim.fallback is None:
            return claim.context.compile(subgraph)  # which says that there is none
        operator = self._asked(subgraph, claim.fallback)
        set_maker(operator, claim.fallback.backend.name)
        return operator

    def _asked(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        if self.graph.settings.isolates(claim.backend.name):
            how = {"shares": self.shares_processors, "cached": self.is_cached}
            return isolated(subgraph, claim, self.constraints, self.progress, how)
        operator: object = claim.property.create_operator(subgraph, self.context(claim))
        if not isinstance(operator, SubgraphOperator):
            raise SelectorContractError(
                "SGK122",
                f"create_operator of property {type(claim.property).__name__!r} returned a "
                f"{type(operator).__name__}, expected a SubgraphOperator",
                backend=claim.backend.name,
                subgraph=subgraph.id,
            )
        return operator

    def context(self, claim: Claim) -> BindContext:
        """Return what a property is told while it compiles, or restores, an operator."""
        return replace(
            claim.context,
            compile=partial(self._compile, claim),
            partition=partial(self._partition, claim),
            shares_processors=self.shares_processors,
            progress=self.progress,
        )

    def _partition(
        self, claim: Claim, subgraph: Subgraph, properties: Sequence[SubgraphProperty]
    ) -> Partitioning:
        with _giving_back():
            return partition_within(subgraph, properties, claim, self.constraints)

    def _compile(self, claim: Claim, what: Subgraph | PartitionSummary) -> SubgraphOperator:
        if isinstance(what, Subgraph):
            return self.on_fallback(what, claim)
        if not isinstance(what, Partitioning):
            raise claim.fault(
                "SGK122",
                f"compile() was given {what!r}, expected a subgraph or what partition() returned",
            )
        with _giving_back():
            return self.compose(what)


@contextmanager
def _giving_back() -> Iterator[None]:
    """Give nodes that nobody takes at the second level back to the first."""
    try:
        yield
    except UnclaimedNodesError as error:
        raise Unsupported(error.message, nodes=error.context["nodes"]) from error


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
