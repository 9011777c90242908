"""Plan files: which backend runs which nodes of a model, and in which regions, as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import ConfigError
from subgraphkit.ir import Node
from subgraphkit.partitioning.constraints import Constraints
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.storing.files import write_whole

_FORMAT: Final = 1
_LARGEST: Final = 64 << 20


@dataclass(frozen=True)
class PlacedRegion:
    """A region of a placement.

    Attributes:
        backend: Who runs it.
        property: Which property of the backend; any if it has none of that name.
        nodes: Its nodes; see ``first_output``.
    """

    backend: str
    property: str
    nodes: Annotated[tuple[str, ...], Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which backend runs which nodes of a model.

    Attributes:
        backends: The options of each backend that takes part, in the order of claiming. The last
            one also takes nodes that earlier ones refuse.
        nodes: By backend, the nodes it is to take; see ``first_output``.
        circumstances: The model, settings and machine it was measured for; see ``circumstances``.
        figures: The measurements, for people.
        regions: The regions, if they are fixed; otherwise they are made of the nodes.
    """

    backends: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, tuple[str, ...]]
    circumstances: Mapping[str, Any]
    figures: Mapping[str, Any]
    regions: tuple[PlacedRegion, ...] = ()

    def choices(self, origin: str) -> tuple[BackendChoice, ...]:
        """Return the selection of backends."""
        return tuple(
            BackendChoice(name, options=options, origin=origin)
            for name, options in self.backends.items()
        )

    def constraints(self, bound: BoundModel) -> Constraints:
        """Return constraints that keep nodes in their places; ConfigError (SGK124) if not there."""
        makers = {first_output(bound, node): node for node in range(len(bound.table.outputs))}
        placed = {name: backend for backend, names in self.nodes.items() for name in names}
        if unknown := [name for name in placed if name not in makers]:
            raise ConfigError(
                "SGK124",
                f"the plan is of another model: it places the node that makes {unknown[0]!r}, "
                f"which {bound.name!r} does not have",
                hint="Measure this model: subgraphkit tune MODEL.",
            )
        first = list(self.backends)[:-1]
        homes = {makers[name]: backend for name, backend in placed.items()}
        exclusions = {name: [node for node, at in homes.items() if at != name] for name in first}
        return Constraints(exclusions=exclusions)

    def regions_in(self, partitioning: PartitioningData) -> list[tuple[int, list[int]]]:
        """Return regions by claim and node; ConfigError (SGK124) if a backend now refuses one."""
        graph, claims = partitioning.graph, partitioning.passes.claims
        makers = {first_output(graph, node): node for node in graph.order}
        regions = []
        for one in self.regions:
            own = [at for at, claim in enumerate(claims) if claim.backend.name == one.backend]
            named = [at for at in own if claims[at].property_name == one.property]
            nodes = [makers[value] for value in one.nodes]
            for node in nodes:
                self._require_home(partitioning, node, one.backend)
            regions.append(((named or own)[0], nodes))
        placed = sorted(node for _, nodes in regions for node in nodes)
        if placed != [node for node in sorted(graph.order) if not graph.is_constant_node(node)]:
            problem = f"it places {len(placed)} nodes in its regions, which are not those of"
            raise ConfigError("SGK124", f"the plan is of another model: {problem} {graph.name!r}")
        return regions

    def _require_home(self, partitioning: PartitioningData, node: int, backend: str) -> None:
        if partitioning.home_of(node).backend == backend:
            return
        reason = partitioning.refusals_by(backend).get(node)
        raise ConfigError(
            "SGK124",
            f"the plan places node {Node(partitioning.graph, node).label} on {backend!r}, which "
            f"refuses it now: {reason}",
            hint="Divide the model anew, and save that.",
        )

    def to_json(self) -> str:
        """Return the text of a plan file."""
        kept = {key: value for key, value in asdict(self).items() if value or key != "regions"}
        if self.regions:
            del kept["nodes"]  # the regions say the same
        return json.dumps({"format": _FORMAT, **kept}, indent=2) + "\n"


def save_regions(partitioning: PartitioningData, path: Path) -> None:
    """Write regions into a plan file; ConfigError (SGK124) if it cannot hold them."""
    graph = partitioning.graph
    regions = tuple(
        PlacedRegion(
            one.backend,
            one.property_name,
            tuple(first_output(graph, n) for n in one.nodes if not graph.is_constant_node(n)),
        )
        for one in partitioning.subgraphs
    )
    placement = Placement(
        backends=dict(partitioning.given_options),
        nodes={},
        circumstances={"shapes": shapes_of(graph)},
        figures={},
        regions=tuple(one for one in regions if one.nodes),
    )
    try:
        write_whole(path, placement.to_json().encode())
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(
            "SGK124", f"plan file {str(path)!r} cannot be written: {error}"
        ) from error


def read_placement(path: Path) -> Placement:
    """Read a plan file; ConfigError (SGK124) if it cannot be read, or is none."""
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            "SGK124",
            f"plan file {str(path)!r} cannot be read: {_reason(error)}",
            hint="Write one: subgraphkit tune MODEL --output plan.json.",
        ) from error


@lru_cache(maxsize=1)  # a command asks for the sizes before it binds
def _read(path: Path, *_state: int) -> Placement:  # of another state it is another answer
    with path.open("rb") as file:
        return placement_of(file.read(_LARGEST))


def _reason(error: OSError | ValueError | RecursionError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    no_json = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
    return f"it is not JSON: {error}" if no_json else str(error)


def placement_of(text: str | bytes) -> Placement:
    """Return the placement in a text; ValueError if it has none, RecursionError if too deep."""
    read = json.loads(text)
    if not isinstance(read, dict) or read.pop("format", None) != _FORMAT:
        raise ValueError(f"it has no 'format' that is {_FORMAT}")
    return plain_placement({"nodes": {}, **read} if read.get("regions") else read)


def plain_placement(read: Mapping[str, Any]) -> Placement:
    """Return the placement plain data says, with the nodes if regions say; else ValueError."""
    try:
        found = msgspec.convert(read, Placement)
    except msgspec.ValidationError as error:
        raise ValueError(f"a member of it is wrong: {error}") from None
    nodes: dict[str, list[str]] = {}
    for one in found.regions:
        nodes.setdefault(one.backend, []).extend(one.nodes)
    if nodes:
        found = replace(found, nodes={name: tuple(several) for name, several in nodes.items()})
    if not found.backends or not found.nodes.keys() <= found.backends.keys():
        raise ValueError("it places nodes on backends that it does not list")
    return found


def first_output(bound: BoundModel, node: int) -> str:
    """Return the first output of a node that has a name, by which a placement names the node."""
    return next(filter(None, bound.table.outputs[node]), "")


def shapes_of(bound: BoundModel) -> dict[str, str]:
    """Return the types of the inputs, for people."""
    return {name: str(bound.types.get(name)) for name in bound.inputs}
