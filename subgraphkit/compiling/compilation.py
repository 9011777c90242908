"""The compile step: each backend makes the operators of its subgraphs, or gives nodes back."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from subgraphkit import errors
from subgraphkit.backend.contract import stores_engines
from subgraphkit.backend.operator import SubgraphOperator, set_maker
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.property import BindContext, PartitionSummary, SubgraphProperty
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.binding import BoundModel
from subgraphkit.boundary import pass_on, walking
from subgraphkit.compiling.caching.engine_cache import EngineCache
from subgraphkit.compiling.composition import CompiledSubgraphs, ComposedOperator, IdleOperator
from subgraphkit.compiling.isolation import IsolatedOperator
from subgraphkit.compiling.outcomes import attend, close_all, failure, given_back, tell_compiled
from subgraphkit.compiling.proving import Proofs, ProofStep, Unproven
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Partitioning, partition, partition_within, reports
from subgraphkit.partitioning.claims import Claim
from subgraphkit.processes.memory import give_back

# Bytes of constants from which on it pays to look for memory that compilers have freed.
_WORTH_GIVING: Final = 4 << 20


def compile_subgraphs(
    partitioning: Partitioning | BoundModel | Model | ModelSource,
    *,
    progress: Progress | None = None,
) -> CompiledSubgraphs:
    """Compile every subgraph and keep the engines; see ``compile_unproven`` and ``proving``.

    Args:
        partitioning: The partitioning to compile, or a source that ``partition`` takes.
        progress: As there.

    Raises:
        SubgraphkitError: As there.
    """
    if not isinstance(partitioning, Partitioning):
        partitioning = partition(partitioning)
    return _compiled_within_time(partitioning, progress, proves=True)


def compile_unproven(
    partitioning: Partitioning, *, progress: Progress | None = None
) -> CompiledSubgraphs:
    """Compile every subgraph on its backend, or restore its engine from an earlier bind.

    A backend that raises ``Unsupported`` gets its region partitioned again without the nodes it
    gave back. The other regions and their operators stay as they are. Any other failure is raised,
    unless ``on_compile_error="fallback"`` is set, which treats it as giving all nodes back. Engines
    wait in ``cache.proofs`` to be proven and kept.

    ``progress``: Told before every subgraph, and by backends meanwhile; stops the work. So does
    Ctrl-C: you are free within seconds, in any library, and nothing half done is kept.

    Raises:
        BackendUnavailableError: The partitioning is that of a dry run (SGK104).
        CompileError: A backend failed to compile a subgraph (SGK130).
        CompileTimeoutError: It took longer than the setting ``timeout_s`` says (SGK135).
        OptionError: A backend found only now that an option does not fit the model.
        UnclaimedNodesError: No backend is left for nodes that were given back (SGK120), or a named
            backend has less of the model than required (SGK125).
        MemoryLimitError: It would need more memory than ``max_memory`` allows (SGK134).
    """
    return _compiled_within_time(partitioning, progress, proves=False)


def _compiled_within_time(
    partitioning: Partitioning, progress: Progress | None, *, proves: bool
) -> CompiledSubgraphs:
    """Compile within the setting ``timeout_s``, and prove engines before it returns, if asked."""
    setup, graph = Setup.of(partitioning, progress), partitioning.graph
    with walking("compile", graph.name, setup.progress.is_own):
        _require_no_dry_run(partitioning)
        shortfall = partitioning.shortfall()  # errors come before the work
        if graph.settings.max_memory is not None:
            reports.check_memory(partitioning)
        compiled = attend(
            lambda watched: _compile_subgraphs(setup._replace(progress=watched), proves=proves),
            setup.progress,
            CompiledSubgraphs.close,
            graph.settings.timeout_s,
        )
        try:
            if compiled.partitioning is not partitioning:
                shortfall = compiled.partitioning.shortfall()
            if shortfall is not None:
                shortfall.report(partitioning)
            count = len(compiled.operators)
            setup.progress("compiling", count, count)
        except BaseException:
            compiled.close()
            raise
        if sum(one.type.nbytes or 0 for one in graph.constants.values()) > _WORTH_GIVING:
            give_back()
        return compiled


def _compile_subgraphs(setup: "Setup", *, proves: bool) -> CompiledSubgraphs:
    origin = current = setup.partitioning
    done: list[SubgraphOperator] = []
    seconds: dict[str, float] = {}
    restored: set[str] = set()
    with _proven(setup, done, proves=proves) as proofs:
        # The successors of a subgraph given back take its place, so all before it are done.
        while len(done) < len(current.subgraphs):
            place = len(done)
            subgraph = current.subgraphs[place]
            setup.progress.check()
            claim = current.passes.claims[current.claimed_by[place]]
            part = setup.on(subgraph)
            if setup.tells:
                part.progress("compiling", place, len(current.subgraphs), subgraph.id)
            started = time.perf_counter()
            try:
                operator, from_cache = part.obtain(subgraph, claim)
            except (Unsupported, errors.CompileError) as error:
                before, current = current, given_back(current, place, error)
                setup = setup._replace(partitioning=current)
                _close_misinformed(before, current, done, proofs)
                continue
            done.append(operator)
            spent = seconds[subgraph.id] = time.perf_counter() - started
            extensions = current.graph.extensions
            tell_compiled(extensions, subgraph, operator, spent, from_cache=from_cache)
            proofs.compiled.append(ProofStep(subgraph, operator))
            if setup.tells and any(one.operator not in done for one in proofs.waiting.values()):
                proofs.settle(gives_up=False)  # no step of a session runs its inner regions
            restored.update([subgraph.id] if from_cache else [])
    return CompiledSubgraphs(
        current, origin, tuple(done), MappingProxyType(seconds), frozenset(restored), setup.cache
    )


@contextmanager
def _proven(setup: "Setup", done: list[SubgraphOperator], *, proves: bool) -> Iterator[Proofs]:
    """Prove engines in the end if that is asked for; and if the rest fails, to have these kept."""
    graph = setup.partitioning.graph
    proofs = setup.cache.proofs if setup.cache is not None else Proofs(graph)
    try:
        yield proofs
        if proves:
            proofs.settle()
    except BaseException:
        if setup.tells:
            with suppress(errors.SubgraphkitWarning):
                proofs.settle()
        proofs.drop(done)
        close_all(done)
        raise


def compile_subgraph(partitioning: Partitioning, subgraph: Subgraph) -> SubgraphOperator:
    """Compile one subgraph, perhaps with new weights, on the backend that claimed it.

    It goes past the cache, which the weights of a session that is being trained would only fill.
    """
    _require_no_dry_run(partitioning)
    claim = partitioning.claim_of(subgraph)
    return Setup(partitioning, None, Progress()).obtain(subgraph, claim)[0]


def compile_elsewhere(partitioning: Partitioning, subgraph: Subgraph) -> SubgraphOperator:
    """Compile one subgraph on the fallback backend; LookupError if there is none."""
    setup = Setup(partitioning, None, Progress())
    return setup.on_fallback(subgraph, partitioning.claim_of(subgraph))


def _require_no_dry_run(partitioning: Partitioning) -> None:
    for lacking in partitioning.cannot_run.values():
        raise lacking.with_traceback(None)


def _close_misinformed(
    before: Partitioning, after: Partitioning, done: list[SubgraphOperator], proofs: Proofs
) -> None:
    """Close operators compiled for assumptions that no longer hold, to compile them again.

    If sharing of the processors begins or ends, these are all from the first whose threads may
    spin.
    """
    if after.shares_processors == before.shares_processors:
        return
    place = len(done)
    pools = [before.passes.claims[at].backend.traits.pool for at in before.claimed_by[:place]]
    first = next((at for at, pool in enumerate(pools) if pool in {"spins", "unknown"}), place)
    proofs.drop(done[first:])
    close_all(done[first:])
    del done[first:]


class Setup(NamedTuple):
    """The means to compile the subgraphs of a partitioning.

    Attributes:
        partitioning: The partitioning to compile; its demands hold inside of subgraphs as well.
        cache: Where engines are found and kept, or None.
        progress: Told how far it is, and stops the work.
        tells: Whether listeners hear of the subgraphs one by one: not of those inside of one.
        shares_processors: Whether others around the subgraphs have pools of threads.
    """

    partitioning: Partitioning
    cache: EngineCache | None
    progress: Progress
    tells: bool = True
    shares_processors: bool = False

    @classmethod
    def of(cls, partitioning: Partitioning, progress: Progress | None) -> Self:
        """Return the setup from the settings of a bind."""
        graph = partitioning.graph
        settings, progress = graph.settings, graph.extensions.hearing(progress)
        cache = None
        claims = partitioning.passes.claims
        if settings.cache and any(stores_engines(type(one.backend)) for one in claims):
            cache = EngineCache(settings.cache_dir, settings.cache_size, Proofs(graph))
        return cls(partitioning, cache, progress)

    def on(self, subgraph: Subgraph) -> Self:
        """Return the same for one subgraph, which its reports name."""
        facts = {"subgraph": subgraph.id, "backend": subgraph.backend}
        return self._replace(progress=Progress(None, self.progress, **facts))

    @property
    def is_shared(self) -> bool:
        """Whether there are other pools of threads, around the subgraphs or among them."""
        return self.shares_processors or self.partitioning.shares_processors

    def obtain(self, subgraph: Subgraph, claim: Claim) -> tuple[SubgraphOperator, bool]:
        """Return the operator of a subgraph, and whether it came from the cache."""
        if not subgraph.outputs:
            return IdleOperator(), False
        compile_ = partial(self.compile_region, subgraph, claim)
        if self.partitioning.graph.settings.isolates(claim.backend.name):
            operator = compile_()
            if not isinstance(operator, IsolatedOperator):
                return operator, False
            if self.cache is not None and operator.engine == "kept":
                self.cache.kept.add(subgraph.id)
            elif self.cache is not None and operator.engine == "unproven":
                keep, prove = partial(self.cache.kept.add, subgraph.id), operator.prove
                self.cache.proofs.waiting[subgraph.id] = Unproven(
                    claim.backend, subgraph, operator, lambda _, given, __: prove(given), keep
                )
            return operator, operator.restored
        if self.cache is None or not stores_engines(type(claim.backend)):
            return compile_(), False
        return self.cache.obtain(subgraph, claim, compile_, self.context(claim))

    def compile_region(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        """Have a region compiled by the property that claimed it; else CompileError (SGK130)."""
        try:
            return self._ask(subgraph, claim)
        except (Unsupported, errors.BackendError, errors.OptionError, errors.InvalidModelError):
            raise  # the last is of weights that cannot be read, which no backend can mend
        except BaseException as error:
            self.progress.check()  # it was stopped, and says so in words of its own
            pass_on(error)
            raise failure(subgraph, error) from error

    def on_fallback(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        """Have the fallback compile a region that another claimed; LookupError without one."""
        if claim.fallback is None:
            return claim.context.compile(subgraph)  # which says that there is none
        operator = self._ask(subgraph, claim.fallback)
        set_maker(operator, claim.fallback.backend.name)
        return operator

    def _ask(self, subgraph: Subgraph, claim: Claim) -> SubgraphOperator:
        if self.partitioning.graph.settings.isolates(claim.backend.name):
            how = {"shares": self.is_shared, "cached": self.cache is not None}
            demands = self.partitioning.constraints
            return IsolatedOperator(subgraph, claim, demands, self.progress, how)
        operator: object = claim.property.create_operator(subgraph, self.context(claim))
        if not isinstance(operator, SubgraphOperator):
            raise errors.SelectorContractError(
                "SGK122",
                f"create_operator of property {type(claim.property).__name__!r} returned a "
                f"{type(operator).__name__}, expected a SubgraphOperator",
                backend=claim.backend.name,
                subgraph=subgraph.id,
            )
        return operator

    def context(self, claim: Claim) -> BindContext:
        """Return the context of a property while it compiles, or restores, an operator."""
        return replace(
            claim.context,
            compile=partial(self._compile, claim),
            partition=partial(self._partition, claim),
            shares_processors=self.is_shared,
            progress=self.progress,
        )

    def _partition(
        self, claim: Claim, subgraph: Subgraph, properties: Sequence[SubgraphProperty]
    ) -> Partitioning:
        with _giving_back():
            return partition_within(subgraph, properties, claim, self.partitioning.constraints)

    def _compile(self, claim: Claim, what: Subgraph | PartitionSummary) -> SubgraphOperator:
        if isinstance(what, Subgraph):
            return self.on_fallback(what, claim)
        if not isinstance(what, Partitioning):
            raise claim.fault(
                "SGK122",
                f"compile() was given {what!r}, expected a subgraph or what partition() returned",
            )
        with _giving_back():
            return self._compose_parts(what)

    def _compose_parts(self, division: Partitioning) -> SubgraphOperator:
        cache = self.cache.apart() if self.cache is not None else None
        inner = self._replace(
            partitioning=division, cache=cache, tells=False, shares_processors=self.is_shared
        )
        compiled = _compile_subgraphs(inner, proves=False)
        parts = zip(compiled.partitioning.subgraphs, compiled, strict=True)
        return ComposedOperator(division.graph, parts)


@contextmanager
def _giving_back() -> Iterator[None]:
    """Give nodes that nobody takes at the second level back to the first."""
    try:
        yield
    except errors.UnclaimedNodesError as error:
        raise Unsupported(error.message, nodes=error.context["nodes"]) from error
