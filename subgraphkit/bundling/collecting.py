"""The contents of a bundle, taken from a plan while nothing runs."""

import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from subgraphkit.backend.contract import Backend, EngineOrigin, stores_engines
from subgraphkit.backend.operator import SubgraphOperator, maker_of
from subgraphkit.backend.options import Option
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.bundling import messages
from subgraphkit.bundling.reading import BackendEntry, OriginEntry
from subgraphkit.compiling import IsolatedOperator, close_all, compile_subgraph
from subgraphkit.compiling.caching.keying import name_implementation
from subgraphkit.compiling.compilation import Setup
from subgraphkit.compiling.proving import (
    EngineFaultError,
    Proofs,
    ProofStep,
    Unproven,
    came_back,
    engine_of,
)
from subgraphkit.configuration.config import ResolvedConfig, plain_value
from subgraphkit.errors import InternalError, OptionError, describe_exception
from subgraphkit.ir import BoundGraph, Initializer, Subgraph
from subgraphkit.ir.structure import NoKeyError, structure_digest
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.planning import Plan, Step

_LAYER = "bundle"


def carried_options(
    backend: Backend, settings: ResolvedConfig, *, has_engines: bool
) -> dict[str, Any]:
    """Return options for a bundle; OptionError (SGK111, SGK112) if JSON would change a value."""
    given = settings.options_for(backend.name)
    carried = {}
    for option in backend.options:
        value = getattr(backend.option_values, option.name, option.default)
        asked = option.name in given
        # Options that nobody asked for came from a neighbour's word, and decide the results.
        if value == option.default or not (option.cache or (asked and not has_engines)):
            continue
        carried[option.name] = plain_value(value)
        option.read(carried[option.name], "the bundle", backend.name)
    return carried


def with_carried_options(
    settings: ResolvedConfig, entries: tuple[BackendEntry, ...], place: Path
) -> ResolvedConfig:
    """Return settings with the options of a bundle where nobody here gives others.

    Backends given as instances have their options already.
    """
    instances = {
        choice.name
        for choice in settings.backends
        if choice.target is not None and not isinstance(choice.target, type)
    }
    origin = f"the bundle {str(place)!r}"
    options = {name: dict(entries) for name, entries in settings.option_sources.items()}
    for entry in entries:
        if entry.name not in instances and entry.options:
            carried = {name: (value, _LAYER, origin) for name, value in entry.options.items()}
            options[entry.name] = carried | options.get(entry.name, {})
    sources = MappingProxyType({**settings.sources, "backend": (_LAYER, origin)})
    frozen = {name: MappingProxyType(values) for name, values in options.items() if values}
    return replace(settings, sources=sources, option_sources=MappingProxyType(frozen))


def check_options(backend: Backend, entry: BackendEntry, settings: ResolvedConfig) -> None:
    """Make sure that the engines of a backend are those its options ask for.

    BundleError (SGK185) if an option that shapes engines has another value here. Files may lie
    elsewhere. A bundle may not set options that do not shape engines, such as whether code inside
    them may run (SGK185 as well).
    """
    shaping = {option.name for option in backend.options if option.cache}
    for name in entry.options.keys() - shaping:
        raise messages.contradiction(
            f"the bundle sets option {name!r} of backend {entry.name!r}, which is for whoever "
            "opens it to say",
            "No version of subgraphkit writes that; export the session again.",
        )
    for option in backend.options:
        if not option.cache or option.kind == "path":
            continue
        here = getattr(backend.option_values, option.name, option.default)
        there = _stored_value(option, entry)
        if here != there:
            given = settings.options_for(entry.name).get(option.name)
            by = f" (given by {given[1]})" if given else ""
            raise messages.contradiction(
                f"option {option.name!r} of backend {entry.name!r} is {here!r}{by}, and the "
                f"engines of the bundle were made with {there!r}",
                "Leave the option out to run what the bundle has, or export it again.",
            )


def _stored_value(option: Option, entry: BackendEntry) -> Any:
    if option.name not in entry.options:
        return option.default
    try:
        return option.read(entry.options[option.name], "the bundle", entry.name)
    except OptionError:
        return entry.options[option.name]


_logger = logger_of("bundle")

SYSTEM: Final = f"{sys.platform}-{platform.machine()}-{sys.byteorder}"


@dataclass(frozen=True, slots=True)
class CollectedSubgraph:
    """A subgraph as it goes into a bundle.

    Attributes:
        structure: Digest of all that it computes but the data of its constants, if there is one.
        engine: What its operator serialized; None if it is compiled when the bundle is opened.
    """

    subgraph: Subgraph
    structure: str
    engine: bytes | None


@dataclass(frozen=True, slots=True)
class BundleContents:
    """The contents of a bundle that is to be written.

    Attributes:
        graph: The bound graph.
        constants: Its constants with their data of today.
        kept: Names of those whose data is needed.
        settled: Names of those from which something was computed at bind, or a branch chosen.
        backends: The backends.
        subgraphs: The subgraphs in the order of running.
    """

    graph: BoundGraph
    constants: Mapping[str, Initializer]
    kept: frozenset[str]
    settled: frozenset[str]
    backends: tuple[BackendEntry, ...]
    subgraphs: tuple[CollectedSubgraph, ...]


def collect(plan: Plan, constants: Mapping[str, Initializer] | None = None) -> BundleContents:
    """Take the contents of a bundle from a plan.

    Args:
        plan: The plan; no operator may be running.
        constants: The constants of the graph, if some were replaced since it was bound.

    Raises:
        CompileError: A backend cannot store an engine, or cannot describe its machine (SGK187).
        OptionError: An option cannot be written down (SGK111, SGK112).
    """
    graph, partitioning = plan.graph, plan.partitioning
    current = dict(graph.constants if constants is None else constants)
    steps = {step.subgraph.id: step for step in plan.steps}
    kept = {name for name in graph.outputs if name in current}
    collected: list[CollectedSubgraph] = []
    engines = _proven_engines(plan)
    for subgraph in partitioning.subgraphs:
        step = steps.get(subgraph.id)
        claim = partitioning.claim_of(subgraph)
        engine = engines.get(subgraph.id)
        if step is not None:
            kept.update(_needed_constants(claim.backend, step.subgraph, engine))
        structure = structure_of(subgraph)
        if engine is not None and not structure:
            told = "store the engine of", "it has no canonical form"
            raise messages.engine_failed(subgraph.backend, subgraph.id, *told)
        collected.append(CollectedSubgraph(subgraph, structure, engine))
    backends = _backends(partitioning, collected)
    known = {} if graph.folding is None else graph.folding.sources
    conditions = [known.get(name, {name}) for name, _ in graph.inlined.conditions.values()]
    settled = graph.inlined.settled.union(*known.values(), *conditions)
    return BundleContents(graph, current, frozenset(kept), settled, backends, tuple(collected))


def structure_of(subgraph: Subgraph) -> str:
    """Return the digest of a subgraph's computation, names included; empty if there is none."""
    try:
        return structure_digest(subgraph, with_names=True)
    except NoKeyError:
        return ""


def origin_here(backend: Backend, parts: Iterable[object]) -> EngineOrigin:
    """Say where engines of a backend are made; NoKeyError if the code or fingerprint is unknown."""
    implementation = name_implementation(backend, parts)
    return EngineOrigin(str(backend.fingerprint()), SYSTEM, implementation)


def _needed_constants(backend: Backend, subgraph: Subgraph, engine: bytes | None) -> Sequence[str]:
    if engine is None or backend.traits.keeps_weights:
        return list(subgraph.constants)
    return [name for name in backend.separate_weights(subgraph) if name in subgraph.constants]


def _proven_engines(plan: Plan) -> dict[str, bytes]:
    """Return engines by subgraph, of those that come back as they were compiled."""
    partitioning, proofs = plan.partitioning, Proofs(plan.graph)
    engines: dict[str, bytes] = {}
    for step in plan.steps:
        claim = partitioning.claim_of(step.subgraph)
        if (engine := _engine(partitioning, step, claim)) is not None:
            restore = partial(restore_engine, partitioning, claim, engine)
            keep = partial(engines.__setitem__, step.subgraph.id, engine)
            known = claim.backend, step.subgraph, step.operator
            check = came_back(claim.backend, restore)
            proofs.waiting[step.subgraph.id] = Unproven(*known, check, keep)
    proofs.settle(ProofStep(step.subgraph, step.operator) for step in plan.steps)
    return engines


def restore_engine(
    partitioning: Partitioning, claim: Claim, engine: bytes | memoryview, subgraph: Subgraph
) -> object:
    """Restore an engine by its backend, here or in the model's process."""
    setup = Setup(partitioning, None, claim.context.progress)
    context = setup.context(claim)
    if not claim.backend.traits.maps_engines:
        engine = bytes(engine)
    if not partitioning.graph.settings.isolates(claim.backend.name):
        return claim.backend.deserialize(cast("bytes", engine), subgraph, context)
    how = {"shares": setup.is_shared, "cached": False}
    demands = partitioning.constraints
    return IsolatedOperator(subgraph, claim, demands, context.progress, how, engine)


def _engine(partitioning: Partitioning, step: Step, claim: Claim) -> bytes | None:
    """Return the engine of a step, or None if its backend compiles it when it is opened."""
    subgraph, operator = step.subgraph, step.operator
    # This backend could not restore another's engine.
    if not stores_engines(type(claim.backend)) or maker_of(operator) not in {"", subgraph.backend}:
        return None
    if not _holds_new_weights(claim.backend, subgraph):
        engine = _serialize(operator, subgraph)
    else:
        fresh = compile_one(partitioning, subgraph)
        try:
            engine = _serialize(fresh, subgraph)
        finally:
            close_all([fresh])
    if engine is None:
        _logger.warning(
            "subgraph %s has no engine yet and is compiled when the bundle is opened; run the "
            "session first, or give shapes at bind",
            subgraph.id,
        )
    return engine


def _holds_new_weights(backend: Backend, subgraph: Subgraph) -> bool:
    """Say whether the operator's engine may have the old weights."""
    replaced = [name for name, constant in subgraph.constants.items() if constant.version]
    return bool(replaced and set(replaced).difference(backend.separate_weights(subgraph)))


def compile_one(partitioning: Partitioning, subgraph: Subgraph) -> SubgraphOperator:
    """Compile a subgraph; if a backend no longer compiles it, that is its fault (SGK187)."""
    try:
        return compile_subgraph(partitioning, subgraph)
    except Unsupported as error:
        told = subgraph.backend, subgraph.id, "compile", error.refusal.text
        raise messages.engine_failed(*told) from error


def _serialize(operator: SubgraphOperator, subgraph: Subgraph) -> bytes | None:
    try:
        return engine_of(operator)
    except EngineFaultError as fault:
        told = subgraph.backend, subgraph.id, "store the engine of", str(fault)
        raise messages.engine_failed(*told) from fault.__cause__


def _backends(
    partitioning: Partitioning, collected: Sequence[CollectedSubgraph]
) -> tuple[BackendEntry, ...]:
    """Describe the backends that run something, in the order of claiming."""
    entries = []
    settings = partitioning.graph.settings
    for name in partitioning.backends:
        mine = [one for one in collected if one.subgraph.backend == name]
        if not mine:
            continue
        claims = [partitioning.claim_of(one.subgraph) for one in mine]
        backend = claims[0].backend
        stored = [one for one in mine if one.engine is not None]
        origin: OriginEntry | None = None
        if stored:
            try:
                made = origin_here(backend, [claim.property for claim in claims])
                origin = OriginEntry(made.fingerprint, made.system, made.implementation)
            except InternalError:
                raise
            except Exception as error:
                raise messages.engine_failed(
                    name, stored[0].subgraph.id, "name the engine of", describe_exception(error)
                ) from error
        options = carried_options(backend, settings, has_engines=bool(stored))
        entries.append(BackendEntry(name, options, origin))
    return tuple(entries)
