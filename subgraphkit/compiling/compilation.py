"""The compile step: each backend makes the operators of its subgraphs, or gives nodes back."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Self, overload

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.binding import BoundModel
from subgraphkit.boundary import walking
from subgraphkit.compiling.caching import EngineCache, stores_engines
from subgraphkit.compiling.composition import ComposedOperator, IdleOperator
from subgraphkit.compiling.creation import Creation, close_all, given_back, tell_compiled
from subgraphkit.compiling.isolation import IsolatedOperator
from subgraphkit.compiling.proving import Proofs, ProofStep, Unproven
from subgraphkit.compiling.timeouts import attended
from subgraphkit.errors import CompileError, SubgraphkitWarning
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Partitioning, partition, reports
from subgraphkit.partitioning.claims import Claim
from subgraphkit.processes.memory import give_back

_WORTH_GIVING: Final = 4 << 20
"""Bytes of constants from which on it pays to look for memory that compilers have freed."""


@dataclass(frozen=True, eq=False)
class CompiledSubgraphs(Sequence[SubgraphOperator]):
    """One operator per subgraph, in the order of ``partitioning.subgraphs``.

    Attributes:
        partitioning: The partitioning the operators belong to: the one given to
            ``compile_subgraphs``, or its successor if a backend gave nodes back.
        origin: The partitioning given to ``compile_subgraphs``.
        operators: The operators.
        seconds: How long each took to compile or to restore, by subgraph id.
        restored: Ids of the subgraphs whose engine came from the cache.
        cache: The cache of the bind, if it has one.
    """

    partitioning: Partitioning
    origin: Partitioning
    operators: tuple[SubgraphOperator, ...]
    seconds: Mapping[str, float]
    restored: frozenset[str] = frozenset()
    cache: EngineCache | None = None

    @property
    def kept(self) -> frozenset[str]:
        """Ids of the subgraphs whose engine is in the cache now."""
        return frozenset(self.cache.kept if self.cache is not None else ())

    def __len__(self) -> int:
        """Count the operators."""
        return len(self.operators)

    @overload
    def __getitem__(self, index: int | str) -> SubgraphOperator: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SubgraphOperator]: ...
    def __getitem__(
        self, index: int | str | slice
    ) -> SubgraphOperator | Sequence[SubgraphOperator]:
        """Return operators by place, or the one of a subgraph id.

        Raises:
            ConfigError: There is no subgraph of that id (SGK123).
        """
        if isinstance(index, str):
            index = self.partitioning.place_of(index)
        return self.operators[index]

    def __iter__(self) -> Iterator[SubgraphOperator]:
        """Iterate over the operators."""
        return iter(self.operators)

    def close(self) -> None:
        """Close every operator, when engines that wait have been proven."""
        if self.cache is not None:
            self.cache.proofs.settle()
        close_all(self.operators)


def compile_subgraphs(
    partitioning: Partitioning | BoundModel | Model | ModelSource,
    *,
    progress: Progress | None = None,
) -> CompiledSubgraphs:
    """Compile every subgraph and keep the engines; see ``compile_unproven`` and ``proving``.

    Args:
        partitioning: Who compiles what; or what ``partition`` makes one of.
        progress: As there.

    Raises:
        SubgraphkitError: As there.
    """
    if not isinstance(partitioning, Partitioning):
        partitioning = partition(partitioning)
    return compile_unproven(partitioning, progress=progress, proves=True)


def compile_unproven(
    partitioning: Partitioning, *, progress: Progress | None = None, proves: bool = False
) -> CompiledSubgraphs:
    """Compile every subgraph on its backend, or restore what it compiled at an earlier bind.

    A backend that raises ``Unsupported`` gets its region partitioned again without the nodes it
    gave back; the other regions and their operators stay as they are. Any other failure is raised,
    unless ``on_compile_error="fallback"`` is set, which treats it as giving all nodes back.

    Args:
        partitioning: Who compiles what.
        progress: Told before every subgraph, and by backends meanwhile; stops the work. So does
            Ctrl-C: whatever library is at work, the caller is free within seconds, and nothing
            that is half done is kept.
        proves: Whether engines are proven before it returns.

    Returns:
        The operators, with the partitioning they belong to. Engines wait in ``cache.proofs`` to be
        proven and kept.

    Raises:
        BackendUnavailableError: The partitioning is that of a dry run (SGK104).
        CompileError: A backend failed to compile what it claimed (SGK130).
        CompileTimeoutError: It took longer than the setting ``timeout_s`` says (SGK135).
        OptionError: A backend found only now that an option does not fit the model.
        UnclaimedNodesError: Nobody is left to take the nodes that were given back (SGK120), or a
            backend that was named has less of the model than it has to (SGK125).
        MemoryLimitError: It would need more memory than ``max_memory`` allows (SGK134).
    """
    setup = Setup.of(partitioning, progress)
    with walking("compile", partitioning.graph.name, setup.progress.is_own):
        return _attended(partitioning, setup, proves=proves)


def _attended(partitioning: Partitioning, setup: "Setup", *, proves: bool) -> CompiledSubgraphs:
    _require_no_dry_run(partitioning)
    shortfall = partitioning.shortfall()  # what is to be an error is one before the work
    if partitioning.graph.settings.max_memory is not None:
        reports.check_memory(partitioning)
    compiled = attended(
        lambda watched: _compiled(partitioning, setup._replace(progress=watched), proves=proves),
        setup.progress,
        CompiledSubgraphs.close,
        partitioning.graph.settings.timeout_s,
    )
    try:
        if compiled.partitioning is not partitioning:
            shortfall = compiled.partitioning.shortfall()
        if shortfall is not None:
            shortfall.report(partitioning)
        setup.progress("compiling", len(compiled), len(compiled))
    except BaseException:
        compiled.close()
        raise
    if sum(one.type.nbytes or 0 for one in partitioning.graph.constants.values()) > _WORTH_GIVING:
        give_back()
    return compiled


def _compiled(partitioning: Partitioning, setup: "Setup", *, proves: bool) -> CompiledSubgraphs:
    current, progress = partitioning, setup.progress
    done: list[SubgraphOperator] = []
    seconds: dict[str, float] = {}
    restored: set[str] = set()
    with _proven(partitioning, setup, done, proves=proves) as proofs:
        # What comes of a subgraph given back stands in its place, so all before it is done.
        while len(done) < len(current.subgraphs):
            place = len(done)
            subgraph = current.subgraphs[place]
            progress.check()
            claim = current.passes.claims[current.claimed_by[place]]
            part = setup.on(subgraph)
            if setup.tells:
                part.progress("compiling", place, len(current.subgraphs), subgraph.id)
            started = time.perf_counter()
            try:
                operator, from_cache = obtained(current, subgraph, claim, part)
            except (Unsupported, CompileError) as error:
                before, current = current, given_back(current, place, error)
                _close_misinformed(before, current, done, proofs)
                continue
            done.append(operator)
            spent = seconds[subgraph.id] = time.perf_counter() - started
            extensions = current.graph.extensions
            tell_compiled(extensions, subgraph, operator, spent, from_cache=from_cache)
            proofs.compiled.append(ProofStep(subgraph, operator))
            if setup.tells and any(one.operator not in done for one in proofs.waiting.values()):
                proofs.settle(gives_up=False)  # no step of a session runs what is inside of one
            restored.update([subgraph.id] if from_cache else [])
    return CompiledSubgraphs(
        current,
        partitioning,
        tuple(done),
        MappingProxyType(seconds),
        frozenset(restored),
        setup.cache,
    )


@contextmanager
def _proven(
    partitioning: Partitioning, setup: "Setup", done: list[SubgraphOperator], *, proves: bool
) -> Iterator[Proofs]:
    """Prove engines in the end if that is asked for; and if the rest fails, to have these kept."""
    proofs = setup.cache.proofs if setup.cache is not None else Proofs(partitioning.graph)
    try:
        yield proofs
        if proves:
            proofs.settle()
    except BaseException:
        if setup.tells:
            with suppress(SubgraphkitWarning):
                proofs.settle()
        proofs.drop(done)
        close_all(done)
        raise


def compile_subgraph(partitioning: Partitioning, subgraph: Subgraph) -> SubgraphOperator:
    """Compile one subgraph on the backend that claimed it, past the cache.

    New weights, those of a session that is being trained, would only fill that.

    Args:
        partitioning: Who compiles what.
        subgraph: One of its subgraphs, perhaps with new weights.

    Raises:
        Unsupported: The backend gives nodes back.
        BackendUnavailableError: The partitioning is that of a dry run (SGK104).
        CompileError: The backend failed in any other way (SGK130).
        SelectorContractError: It returned something that is not an operator (SGK122).
    """
    _require_no_dry_run(partitioning)
    claim = partitioning.claim_of(subgraph)
    return obtained(partitioning, subgraph, claim, Setup(None, Progress()))[0]


def compile_elsewhere(partitioning: Partitioning, subgraph: Subgraph) -> SubgraphOperator:
    """Compile one subgraph on the fallback backend, in place of the one that claimed it.

    Args:
        partitioning: Who claimed what.
        subgraph: One of its subgraphs.

    Raises:
        LookupError: There is no fallback backend.
        Exception: Whatever the fallback backend raises.
    """
    creation = _creation(partitioning, Setup(None, Progress()))
    return creation.on_fallback(subgraph, partitioning.claim_of(subgraph))


def _require_no_dry_run(partitioning: Partitioning) -> None:
    for lacking in partitioning.cannot_run.values():
        raise lacking.with_traceback(None)


def _close_misinformed(
    before: Partitioning, after: Partitioning, done: list[SubgraphOperator], proofs: Proofs
) -> None:
    """Close operators that were told what no longer holds, to be compiled again.

    If the processors are shared now and were not, or the other way round, those are the first whose
    threads may spin, and all after it.
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
    """What subgraphs are compiled with.

    Attributes:
        cache: Where engines are found and kept, or None.
        progress: Told how far it is, and stops the work.
        tells: Whether the subgraphs are counted to those who listen: not those inside of one.
        shares_processors: Whether others around the subgraphs have pools of threads.
    """

    cache: EngineCache | None
    progress: Progress
    tells: bool = True
    shares_processors: bool = False

    @classmethod
    def of(
        cls,
        partitioning: Partitioning,
        progress: Progress | None,
        *,
        shares_processors: bool = False,
    ) -> Self:
        """Return what the settings of a bind say."""
        graph = partitioning.graph
        settings, progress = graph.settings, graph.extensions.hearing(progress)
        cache = None
        if settings.cache:
            cache = EngineCache(settings.cache_dir, settings.cache_size, Proofs(graph))
        return cls(cache, progress, shares_processors=shares_processors)

    def on(self, subgraph: Subgraph) -> Self:
        """Return the same for one subgraph, which its reports name."""
        facts = {"subgraph": subgraph.id, "backend": subgraph.backend}
        return self._replace(progress=Progress(None, self.progress, **facts))


def obtained(
    partitioning: Partitioning, subgraph: Subgraph, claim: Claim, setup: Setup
) -> tuple[SubgraphOperator, bool]:
    """Return the operator of a subgraph, and whether it came from the cache.

    Raises:
        Exception: As ``compile_subgraph``.
    """
    if not subgraph.outputs:
        return IdleOperator(), False
    creation = _creation(partitioning, setup)
    compile_ = partial(creation.compiled, subgraph, claim)
    if partitioning.graph.settings.isolates(claim.backend.name):
        operator = compile_()
        if not isinstance(operator, IsolatedOperator):
            return operator, False
        if setup.cache is not None and operator.engine == "kept":
            setup.cache.kept.add(subgraph.id)
        elif setup.cache is not None and operator.engine == "unproven":
            keep, prove = partial(setup.cache.kept.add, subgraph.id), operator.prove
            setup.cache.proofs.waiting[subgraph.id] = Unproven(
                claim.backend, subgraph, operator, lambda _, given, __: prove(given), keep
            )
        return operator, operator.restored
    if setup.cache is None or not stores_engines(type(claim.backend)):
        return compile_(), False
    return setup.cache.obtain(subgraph, claim, compile_, creation.context(claim))


def _creation(partitioning: Partitioning, setup: Setup) -> Creation:
    shares = setup.shares_processors or partitioning.shares_processors
    inner = setup._replace(tells=False, shares_processors=shares)
    return Creation(
        partitioning.graph,
        partitioning.constraints,
        shares,
        setup.cache is not None,
        setup.progress,
        partial(_composed, inner),
    )


def _composed(setup: Setup, division: Partitioning) -> SubgraphOperator:
    cache = setup.cache.apart() if setup.cache is not None else None
    compiled = _compiled(division, setup._replace(cache=cache), proves=False)
    parts = zip(compiled.partitioning.subgraphs, compiled, strict=True)
    return ComposedOperator(division.graph, parts)
