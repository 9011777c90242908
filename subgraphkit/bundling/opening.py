"""A bundle back to a plan: nothing is partitioned, no backend is asked, no engine is compiled."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel, Shapes, bind
from subgraphkit.bundling import messages
from subgraphkit.bundling.collecting import (
    check_options,
    compile_one,
    origin_here,
    restore_engine,
    structure_of,
    with_carried_options,
)
from subgraphkit.bundling.reading import BackendEntry, BundleFiles, BundleManifest, SubgraphEntry
from subgraphkit.bundling.writing import versions_here
from subgraphkit.compiling import CompiledSubgraphs, close_all
from subgraphkit.compiling.proving import EngineFaultError, restored_by
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.selection import BackendChoice, parse_selection
from subgraphkit.configuration.settings import OtherSettings
from subgraphkit.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    BundleError,
    SubgraphkitError,
    describe_exception,
)
from subgraphkit.ir import Boundary, BoundGraph, Subgraph, boundaries, make_subgraph
from subgraphkit.onnx_io import Model, load_read
from subgraphkit.partitioning import Claim, Constraints, Partitioning
from subgraphkit.partitioning.claiming.claim import Passes
from subgraphkit.partitioning.claims import choose_claimants
from subgraphkit.partitioning.constraints import ResolvedConstraints
from subgraphkit.planning import Plan, plan
from subgraphkit.storing.folders import kept_folder

_Engines = dict[str, bytes | memoryview]


def open_bundle(
    files: BundleFiles,
    backend: Any = None,
    shapes: Shapes | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    constraints: Constraints | None = None,
    **settings: Unpack[OtherSettings],
) -> Plan:
    """Make a plan of a bundle, which has shapes and a partitioning already.

    Every file is compared with its digest before a backend sees a byte of it, unless the same file
    was compared before. Options and settings are those of here, except those that shaped the
    engines. ``SUBGRAPH_BACKEND`` does not matter.

    ``backend``: Classes or instances for the backends of the bundle that are not registered.

    Raises:
        BundleError: It is damaged (SGK182), not to be trusted (SGK183), asked for something else
            (SGK185), or made for another machine or software (SGK186).
        BackendNotFoundError: A backend of it is not installed (SGK101), optional or not.
        BackendError: A backend cannot be loaded or cannot run here (SGK103 to SGK105).
        CompileError: A backend failed to restore an engine (SGK187), or to compile without one
            (SGK130).
        UnclaimedNodesError: A backend has less of it than ``require`` says (SGK125).
        SubgraphkitError: As ``load`` and ``bind``.
    """
    manifest = files.manifest
    if constraints is not None or settings.get("pin") or settings.get("keep_off"):
        raise messages.contradiction(
            "nodes are pinned to backends or kept from them, and a bundle is partitioned already",
            "Leave constraints, pin and keep_off out, or export again with them.",
        )
    if shapes:
        raise messages.contradiction(
            f"shapes are given, {', '.join(map(repr, shapes))}, and a bundle has those it was "
            "exported with",
            "Leave them out, or export again with these.",
        )
    choices = _choices(backend, manifest)
    stored, mapped, engines = _read_checked(files, resolve(**settings))
    model = load_read(stored, files.folder / manifest.model.name, mapped)
    told: Any = {**settings, "backend": choices, "options": options, "fold": False}
    bound = _bind_as_exported(files, model, told)
    del stored, model
    claims = _claims(files.folder, bound, manifest)
    partitioning = rebuild(files.folder, manifest, bound, claims)
    _check_structures(partitioning, manifest)
    partitioning.shortfall()  # nobody is named here, so this is about ``require`` alone
    by_name = {claim.backend.name: claim.backend for claim in claims}
    for entry in manifest.backends:
        _check_backend(by_name[entry.name], entry, partitioning)
    compiled = _operators(partitioning, engines)
    try:
        return plan(partitioning, compiled)
    except BaseException:
        compiled.close()
        raise


def _choices(backend: Any, manifest: BundleManifest) -> list[BackendChoice]:
    """Return the backends of the bundle, as the caller has them."""
    names = [entry.name for entry in manifest.backends]
    asked = () if backend is None else parse_selection(backend, "argument backend")
    given = {one.name: one for one in asked}
    if foreign := [name for name in given if name not in names]:
        raise messages.contradiction(
            f"backend names {', '.join(foreign)}, and the subgraphs of the bundle are on "
            f"{', '.join(names)}",
            "Leave backend out. It is for those of the bundle that are not registered by name.",
        )
    # None is optional: no other backend can claim its engines.
    chosen = (given.get(name) or BackendChoice(name, origin="the bundle") for name in names)
    return [replace(one, optional=False) for one in chosen]


def _read_checked(
    files: BundleFiles, settings: ResolvedConfig
) -> tuple[bytes, dict[str, memoryview], _Engines]:
    """Hold every file against its digest; return model, mapped weights, and engines by subgraph.

    They are used as they were read: the bundle may be replaced at any time.
    """
    manifest = files.manifest
    model = files.read(manifest.model)
    kept = kept_folder(settings.cache_dir, "bundles") if settings.cache else None
    map_ = partial(files.map, kept=kept)
    mapped: dict[str, memoryview] = {}
    if (entry := manifest.weights) is not None:
        if files.is_own:
            mapped[entry.name] = map_(entry)
        else:
            files.check(entry)
    read = map_ if files.is_own else files.read
    engines = {one.id: read(one.engine) for one in manifest.subgraphs if one.engine is not None}
    return model, mapped, engines


def _bind_as_exported(files: BundleFiles, model: Model, told: Mapping[str, Any]) -> BoundModel:
    manifest = files.manifest
    bound = bind(replace(model, is_edited=True), {**manifest.symbols, **manifest.shapes}, **told)
    at_home = {node for entry in manifest.subgraphs for node in entry.nodes}
    left_out = {
        node: "left out when the bundle was exported"
        for node in bound.order
        if node not in at_home and not bound.is_constant_node(node)
    }
    settings = with_carried_options(bound.settings, manifest.backends, files.folder)
    settings = replace(settings, on_missing="error")
    order = [node for node in bound.order if node in at_home]
    return replace(bound, name=manifest.name, settings=settings, order=order, left_out=left_out)


def _claims(folder: Path, bound: BoundModel, manifest: BundleManifest) -> list[Claim]:
    """Open the backends of the bundle."""
    try:
        return next(choose_claimants(bound, bound.settings, lambda _: False))
    except (BackendNotFoundError, BackendUnavailableError) as error:
        backend = error.context.get("backend") or getattr(error, "backend", None)
        mine = sum(one.backend == backend for one in manifest.subgraphs)
        if not mine:
            raise
        counts = (mine, len(manifest.subgraphs))
        raise messages.backend_is_missing(folder, error, str(backend), counts) from error


def _check_structures(partitioning: Partitioning, manifest: BundleManifest) -> None:
    """Make sure that every subgraph with an engine is the one that was exported."""
    for subgraph, entry in zip(partitioning.subgraphs, manifest.subgraphs, strict=True):
        if entry.engine is not None and structure_of(subgraph) != entry.structure:
            raise messages.other_types(subgraph.id, manifest.versions, versions_here())


def _check_backend(backend: Backend, entry: BackendEntry, partitioning: Partitioning) -> None:
    """Make sure that the engines of a backend fit here."""
    if entry.origin is None:
        return
    origin = entry.origin.made
    mine = [one for one in partitioning.subgraphs if one.backend == entry.name]
    check_options(backend, entry, partitioning.graph.settings)
    try:
        here = origin_here(backend, [partitioning.claim_of(one).property for one in mine])
        answer = backend.accepts(origin, here)
    except SubgraphkitError:
        raise
    except Exception as error:
        told = entry.name, mine[0].id, "judge the engine of", describe_exception(error)
        raise messages.engine_failed(*told) from error
    if answer is not True:
        reason = answer.text if isinstance(answer, Refusal) else ""
        raise messages.other_engine(entry.name, origin, here, reason)


def _operators(partitioning: Partitioning, engines: _Engines) -> CompiledSubgraphs:
    done: list[SubgraphOperator] = []
    seconds: dict[str, float] = {}
    stored = frozenset(engines)
    prepared: set[Claim] = set()
    try:
        for subgraph in partitioning.subgraphs:
            started = time.perf_counter()
            claim = partitioning.claim_of(subgraph)
            if subgraph.id in engines:
                # Let go of each as soon as the library has it.
                restore = partial(restore_engine, partitioning, claim, engines.pop(subgraph.id))
                done.append(_restore(claim.backend, restore, subgraph))
            else:
                if claim not in prepared:
                    prepared.add(claim)
                    _prepare(claim, partitioning.graph)
                done.append(compile_one(partitioning, subgraph))
            seconds[subgraph.id] = time.perf_counter() - started
    except BaseException:
        close_all(done)
        raise
    taken = MappingProxyType(seconds)
    return CompiledSubgraphs(partitioning, partitioning, tuple(done), taken, stored)


def _restore(
    backend: Backend, restore: Callable[[Subgraph], object], subgraph: Subgraph
) -> SubgraphOperator:
    try:
        return restored_by(restore, subgraph)
    except EngineFaultError as fault:
        cause = fault.__cause__
        hint = cause.hint if isinstance(cause, SubgraphkitError) else ""
        raise messages.engine_failed(
            backend.name, subgraph.id, "restore the engine of", str(fault), hint
        ) from cause


def _prepare(claim: Claim, graph: BoundGraph) -> None:
    """Show a property the graph, as it is shown before it compiles anything."""
    try:
        claim.property.prepare(graph, claim.context)
    except SubgraphkitError:
        raise
    except Exception as error:
        raise claim.fault("SGK122", f"prepare raised {describe_exception(error)}") from error


def rebuild(
    folder: Path, manifest: BundleManifest, bound: BoundModel, claims: Sequence[Claim]
) -> Partitioning:
    """Cut the model as it was cut when it was exported.

    BundleError if the manifest divides another model (SGK182), or a backend here has no property of
    that name (SGK186).
    """
    numbered = reversed([*enumerate(claims)])
    places = {(one.backend.name, one.property_name): at for at, one in numbered}
    _check_nodes(folder, manifest, bound)
    found = boundaries(bound, [entry.nodes for entry in manifest.subgraphs])
    subgraphs = []
    known = {*bound.inputs, *bound.defaults}
    for entry, edge in zip(manifest.subgraphs, found, strict=True):
        _check_edge(folder, entry, edge, bound)
        if not known.issuperset(entry.inputs):
            raise _wrong(folder, entry, "it would run before what it reads is made")
        known.update(entry.outputs)
        subgraphs.append(_subgraph(folder, entry, bound))
    unmade = [name for name in bound.outputs if name not in known and name not in bound.constants]
    if unmade:
        raise messages.bad_bundle(folder, f"no subgraph of its manifest makes output {unmade[0]!r}")
    nothing = (None,) * len(claims)
    return Partitioning(
        graph=bound,
        subgraphs=tuple(subgraphs),
        passes=Passes(tuple(claims), nothing, nothing),
        claimed_by=tuple(_claim_index(entry, places) for entry in manifest.subgraphs),
        constraints=ResolvedConstraints({}, {}),
    )


def _check_nodes(folder: Path, manifest: BundleManifest, bound: BoundGraph) -> None:
    """Make sure that no node is in two subgraphs."""
    count = len(bound.table.op_types)
    seen: set[int] = set()
    for entry in manifest.subgraphs:
        nodes = set(entry.nodes)
        if not nodes or len(nodes) != len(entry.nodes):
            raise _wrong(folder, entry, "its nodes cannot be those of a subgraph")
        if max(nodes) >= count:
            raise _wrong(folder, entry, f"the model has no node {max(nodes)}")
        if not seen.isdisjoint(nodes):
            raise messages.bad_bundle(folder, "its subgraphs hold a node of the model twice")
        seen |= nodes


def _check_edge(folder: Path, entry: SubgraphEntry, edge: Boundary, bound: BoundGraph) -> None:
    made = {name for node in entry.nodes for name in bound.table.outputs[node] if name}
    outputs = set(entry.outputs)
    listed = entry.inputs, entry.outputs, entry.constants
    fits = (
        set(entry.inputs) == set(edge.inputs)
        and set(entry.constants) == set(edge.constants)
        and set(edge.outputs) <= outputs <= made
        and all(len(set(names)) == len(names) for names in listed)
    )
    if not fits:
        raise _wrong(folder, entry, "its inputs, outputs or constants are not those of its nodes")


def _subgraph(folder: Path, entry: SubgraphEntry, bound: BoundGraph) -> Subgraph:
    edge = Boundary(entry.inputs, entry.outputs, entry.constants)
    subgraph = make_subgraph(bound, entry.nodes, entry.backend, entry.property, edge=edge)
    if subgraph.id != entry.id:
        raise _wrong(folder, entry, f"it would be called {subgraph.id!r}")
    return subgraph


def _claim_index(entry: SubgraphEntry, places: Mapping[tuple[str, str], int]) -> int:
    if (at := places.get((entry.backend, entry.property))) is None:
        raise BundleError(
            "SGK186",
            f"backend {entry.backend!r} has no property {entry.property!r} here, which subgraph "
            f"{entry.id!r} of the bundle belongs to",
            hint="Install the version of the backend that the bundle was exported with, or export "
            "it again.",
            backend=entry.backend,
        )
    return at


def _wrong(folder: Path, entry: SubgraphEntry, problem: str) -> BundleError:
    return messages.bad_bundle(folder, f"subgraph {entry.id!r} of its manifest: {problem}")
