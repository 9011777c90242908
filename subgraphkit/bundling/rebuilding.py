"""From the manifest to the partitioning that was exported, with every claim of it checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from subgraphkit.binding import BoundModel
from subgraphkit.bundling import messages
from subgraphkit.bundling.manifest import BundleManifest, SubgraphEntry
from subgraphkit.errors import BundleError
from subgraphkit.ir import Boundary, BoundGraph, Subgraph, boundaries, make_subgraph
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.partitioning.claiming.claim import Passes
from subgraphkit.partitioning.constraints import ResolvedConstraints


def rebuild(
    folder: Path, manifest: BundleManifest, bound: BoundModel, claims: Sequence[Claim]
) -> Partitioning:
    """Cut the model as it was cut when it was exported.

    Raises:
        BundleError: The manifest divides another model (SGK182), or a backend here has no property
            of that name (SGK186).
    """
    places = {
        (claim.backend.name, claim.property_name): at
        for at, claim in reversed([*enumerate(claims)])
    }
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
        raise messages.damaged(folder, f"no subgraph of its manifest makes output {unmade[0]!r}")
    nothing = (None,) * len(claims)
    return Partitioning(
        graph=bound,
        subgraphs=tuple(subgraphs),
        passes=Passes(tuple(claims), nothing, nothing),
        claimed_by=tuple(_place(entry, places) for entry in manifest.subgraphs),
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
            raise messages.damaged(folder, "its subgraphs hold a node of the model twice")
        seen |= nodes


def _check_edge(folder: Path, entry: SubgraphEntry, edge: Boundary, bound: BoundGraph) -> None:
    made = {name for node in entry.nodes for name in bound.table.outputs[node] if name}
    outputs = set(entry.outputs)
    fits = (
        set(entry.inputs) == set(edge.inputs)
        and set(entry.constants) == set(edge.constants)
        and set(edge.outputs) <= outputs <= made
        and all(
            len(set(names)) == len(names)
            for names in (entry.inputs, entry.outputs, entry.constants)
        )
    )
    if not fits:
        raise _wrong(folder, entry, "its inputs, outputs or constants are not those of its nodes")


def _subgraph(folder: Path, entry: SubgraphEntry, bound: BoundGraph) -> Subgraph:
    edge = Boundary(entry.inputs, entry.outputs, entry.constants)
    subgraph = make_subgraph(bound, entry.nodes, entry.backend, entry.property, edge=edge)
    if subgraph.id != entry.id:
        raise _wrong(folder, entry, f"it would be called {subgraph.id!r}")
    return subgraph


def _place(entry: SubgraphEntry, places: Mapping[tuple[str, str], int]) -> int:
    at = places.get((entry.backend, entry.property))
    if at is None:
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
    return messages.damaged(folder, f"subgraph {entry.id!r} of its manifest: {problem}")
