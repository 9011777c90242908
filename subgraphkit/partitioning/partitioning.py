"""The partition step: from a bound graph to a partitioning and its reports."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel, bind
from subgraphkit.boundary import walking
from subgraphkit.configuration.selection import Selection
from subgraphkit.errors import ConfigError
from subgraphkit.ir import Node, Subgraph, within
from subgraphkit.lazy import cached_property, collector_paused
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import reports
from subgraphkit.partitioning.claiming.claim import Passes, finish_all
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.claims import Claim, choose_claimants_within
from subgraphkit.partitioning.constraints import (
    NO_DEMANDS,
    Constraints,
    ResolvedConstraints,
    all_demands,
)
from subgraphkit.partitioning.division import claim_regions, divide_model, require_all_claimed
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData, cut
from subgraphkit.partitioning.placements import resolve_selection
from subgraphkit.partitioning.plan_files import save_regions
from subgraphkit.partitioning.regrouping import (
    divided_anew,
    merge_subgraphs,
    move_subgraph,
    split,
    taken_away,
    with_regions,
)
from subgraphkit.texts import count_of


@dataclass(frozen=True, eq=False, repr=False)
class Partitioning(PartitioningData):
    """Every node of a model in exactly one subgraph, with the reasons.

    The subgraphs are convex and can run one after the other in the order given. Reports and
    measures are made when first asked for.

    Thread-safety: immutable, safe.
    """

    @cached_property
    def quality(self) -> "reports.Quality":
        """Regions against the lower bound, coverage, crossing values and refusals."""
        return reports.measure(self)

    def memory(self) -> "reports.Memory":
        """Say how much memory a session of it will take, before anything is compiled."""
        return reports.foresee(self)

    def shortfall(self) -> "reports.Shortfall | None":
        """Return a report on named backends that have little of the model; None if none has.

        Raises:
            UnclaimedNodesError: A backend has less than ``require`` says, or there is something to
                report and ``on_fallback`` is ``"error"`` (SGK125).
        """
        return None if self.is_as_asked else reports.find_shortfall(self)

    def explain(self, node: int | str | Node) -> "reports.Explanation":
        """Return the answers of all backends that were asked about a node, in order.

        Args:
            node: The node, its index, its name, or the name of a value that it makes. If several
                nodes have the name, it is the first.

        Raises:
            ConfigError: The model has no such node (SGK123).
        """
        return reports.explain(self, self.index_of(node))

    def report(self, *, details: bool = False, width: int | None = None) -> str:
        """Say in a few lines which backend runs which share, and why not more.

        Args:
            details: Whether to list every subgraph, reason and measure instead.
            width: Cells in a line, to which tables are fitted; None for lines without end.
        """
        return reports.as_text(self, self.quality, details=details, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return the partitioning as plain data.

        Keys: ``model``, ``node_count``, ``left_out`` (by node, the reason), ``backends``,
        ``evidence`` and ``cannot_run`` (both by backend; the latter ``code``, ``message``,
        ``hint``), ``subgraphs`` (``id``, ``backend``, ``property``, ``nodes``, ``inputs``,
        ``outputs``), ``refusals`` (``node``, ``backend``, ``property``, ``code``, ``text``) and
        ``quality``.
        """
        return reports.as_data(self, self.quality)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(
        self,
        *,
        against: "Partitioning | None" = None,
        times: Mapping[str | int, float] | None = None,
    ) -> str:
        """Return one HTML page that needs nothing else, to be written as UTF-8.

        It has the graph of the subgraphs as a picture, and the nodes of each with types, arithmetic
        and refusals. You can sort, filter and search its tables.

        Args:
            against: A partitioning of the same model to compare with. The page shows the nodes that
                moved, and both pictures.
            times: Seconds of one run, by subgraph id and by number of a node. Areas are times if
                those of all subgraphs are given, and arithmetic if not.

        Raises:
            ConfigError: ``against`` is of another model (SGK123).
        """
        return reports.as_page(self, self.quality, against=against, times=times or {})

    def to_networkx(self) -> Any:
        """Return the graph of the subgraphs as a ``networkx.DiGraph``.

        Raises:
            ImportError: networkx is not installed.
        """
        return reports.as_networkx(self)

    def repartition(self, subgraph_id: str, refused: Mapping[int, Refusal]) -> "Partitioning":
        """Divide one subgraph anew, without nodes that its backend gave back.

        The backend keeps the nodes that it still takes. The others are offered to the properties
        and backends after it, the fallback last. All other subgraphs stay the same objects.
        Dividing one region of a partitioning again never makes a cycle.

        Args:
            subgraph_id: The subgraph.
            refused: The nodes given back, with the reasons. A ``Constant`` node stands for those of
                the subgraph that read it.

        Raises:
            ConfigError: There is no such subgraph, a reason is not a refusal, or a pinned node was
                given back (SGK123).
            SelectorContractError: A node given back is not in the subgraph, or nothing that runs
                was given back (SGK122).
            UnclaimedNodesError: Nobody takes the nodes given back (SGK120).

        Source: refinement in partitioning theory. In an acyclic partitioning, an acyclic
        partitioning of one region's nodes may replace the region; the whole stays acyclic.
        """
        reasons: Iterable[object] = refused.values()
        wrong = next((reason for reason in reasons if not isinstance(reason, Refusal)), None)
        if wrong is not None:
            raise ConfigError(
                "SGK123",
                f"a node is given back because of {wrong!r}, expected a Refusal",
                hint="Give a mapping from node to Refusal(code, text).",
            )
        return self.repartition_at(self.place_of(subgraph_id), refused)

    def repartition_at(self, place: int, refused: Mapping[int, Refusal]) -> "Partitioning":
        """Do as ``repartition`` for the subgraph at a place in ``subgraphs``.

        Its successors take the same place, one after the other.
        """
        index = self.claimed_by[place]
        return divided_anew(
            self, place, index, taken_away(self, self.subgraphs[place], index, refused)
        )

    def give_back(self, subgraph_id: str, reason: Refusal) -> "Partitioning":
        """Give a whole subgraph to the properties and backends after the one that claimed it.

        Raises:
            ConfigError: There is no such subgraph, or one of its nodes is pinned (SGK123).
            UnclaimedNodesError: Nobody else takes it (SGK120).
        """
        nodes = self.subgraph(subgraph_id).nodes
        return self.repartition(subgraph_id, dict.fromkeys(nodes, reason))

    def merge(self, *ids: str) -> "Partitioning":
        """Return the partitioning with some subgraphs of one backend as one.

        Raises:
            ConfigError: They would wait on others in a circle, the backend refuses the whole, their
                backends differ, or one does not exist (SGK123).
        """
        return merge_subgraphs(self, ids)

    def split(self, subgraph_id: str, nodes: Iterable[int | Node]) -> "Partitioning":
        """Return the partitioning with some nodes of a subgraph in a subgraph of their own.

        Raises:
            ConfigError: The parts would wait on each other in a circle, the backend refuses one, or
                nodes or subgraph do not exist there (SGK123).
        """
        return split(self, subgraph_id, [one.id if isinstance(one, Node) else one for one in nodes])

    def move(self, subgraph_id: str, backend: Selection) -> "Partitioning":
        """Return the partitioning with a subgraph on another backend; all others stay.

        The nodes are pinned there. Where the backend cannot run them as one region there are more.

        Raises:
            ConfigError: There is no such subgraph, or the backend refuses some of its nodes
                (SGK123).
            BackendError: The backend cannot be loaded or cannot run here (SGK103 to SGK105).
        """
        return move_subgraph(self, subgraph_id, backend)

    def diff(self, other: "Partitioning") -> "Sequence[reports.Move]":
        """Return the nodes on another backend than in ``other``, the most work first.

        Raises:
            ConfigError: They are of different models (SGK123).
        """
        return reports.find_moves(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the regions into a plan file, JSON to be read and reviewed.

        ``partition(model, "@plan.json")`` divides the same model in the same way, also one with
        other weights.

        Raises:
            ConfigError: The file cannot be written, or an option is no plain data (SGK124).
        """
        save_regions(self, Path(path))

    @property
    def summary(self) -> str:
        """Its nodes and subgraphs in a few words, and how many subgraphs each backend has."""
        is_constant = self.graph.is_constant_node
        nodes = count_of(sum(not is_constant(node) for node in self.graph.order), "node")
        subgraphs = count_of(len(self.subgraphs), "subgraph")
        having = Counter(subgraph.backend for subgraph in self.subgraphs)
        shares = ", ".join(f"{name} {count:,}" for name, count in having.items())
        return f"{nodes} in {subgraphs}{': ' if shares else ''}{shares}"

    def _repr_html_(self) -> str:
        return reports.as_fragment(self, self.quality, {})

    def __repr__(self) -> str:
        """Render as ``Partitioning('m.onnx', 176 nodes in 3 subgraphs: numpy 2, openvino 1)``."""
        return f"Partitioning({self.graph.name!r}, {self.summary})"


@overload
def partition(
    bound: BoundModel | Model | ModelSource,
    backends: Selection | None = None,
    *,
    constraints: Constraints | None = None,
    dry_run: bool = False,
) -> Partitioning: ...
@overload
def partition(bound: Subgraph, backends: Sequence[SubgraphProperty]) -> Partitioning: ...
def partition(
    bound: BoundModel | Model | ModelSource | Subgraph,
    backends: Selection | Sequence[SubgraphProperty] | None = None,
    *,
    constraints: Constraints | None = None,
    dry_run: bool = False,
) -> Partitioning:
    """Divide a model among backends, or a subgraph of one among properties.

    The backends claim in order, each with its properties in order. Each gets the nodes that earlier
    ones left; the fallback backend takes the rest. Every region is convex and all can run one after
    the other. The same graph and backends always give the same result, which is verified before it
    is returned.

    Args:
        bound: The bound model, or a source that ``bind`` takes, or a subgraph of a bound model. It
            is not changed. Nodes of a subgraph keep their numbers, and the fallback backend gets
            those that no property takes.
        backends: The backends in order: a selection string, a name, a ``Backend`` class or
            instance, a pair ``(name, options)``, or a list of them. Or ``"@plan.json"`` for a file
            of ``tune``, or the placement it returned. None for those configured when it was bound.
            For a subgraph, the properties in order.
        constraints: Nodes to pin to backends or keep from them, beside those of the settings
            ``pin`` and ``keep_off``. These here win.
        dry_run: Whether a named backend that cannot run here still takes part, if its claims need
            neither its device nor its library. You can look at the result but not compile it; its
            ``cannot_run`` says why.

    Raises:
        ConfigError: The selection cannot be read (SGK107), or a constraint names something unknown
            or cannot be met (SGK123). Or a subgraph is not bound or not to be divided (SGK123), or
            a plan file cannot be read or is of another model (SGK124).
        BackendNotFoundError: A backend is not installed (SGK101) or not known (SGK102).
        BackendError: A backend cannot be loaded, or cannot run here, nor plan in a dry run (SGK103
            to SGK105).
        UnclaimedNodesError: Nodes are left that nobody takes (SGK120).
        SelectorContractError: A selector (SGK121) or a property (SGK122) broke its contract.
        InternalError: The verifier found a broken promise (SGK900).
    """
    if isinstance(bound, Subgraph):
        return partition_within(bound, backends, bound.backend, NO_DEMANDS)
    if not isinstance(bound, BoundModel):
        bound = bind(bound)
    with walking("partition", bound.name):
        settings, placement = resolve_selection(bound, backends, constraints)
        placed = placement.constraints(bound) if placement is not None else None
        demands = placed or all_demands(settings, constraints)
        named: dict[str, str] = {}
        with collector_paused():
            state, passes, demanded = divide_model(
                bound, settings, demands, named=named, dry_run=dry_run
            )
            # nobody named those of a placement, so none of them falls short
            partitioning = _make_partitioning(state, passes, demanded, {} if placed else named)
            if placement is not None and placement.regions:
                partitioning = with_regions(partitioning, placement.regions_in(partitioning))
        if bound.extensions.implements("subgraphkit_plan"):
            bound.extensions.notify("subgraphkit_plan", partitioning=partitioning)
        return partitioning


def partition_within(
    subgraph: Subgraph, properties: object, divider: Claim | str, demanded: ResolvedConstraints
) -> Partitioning:
    """Divide a subgraph among properties, and the fallback backend after them; as ``partition``.

    ``divider``: Who claimed the subgraph, or the name of the backend that did.
    """
    bound = subgraph.graph
    if not isinstance(bound, BoundModel):
        raise ConfigError(
            "SGK123",
            f"subgraph {subgraph.id!r} was not cut out of a bound model, so it cannot be divided",
            hint="Cut it out of what bind() returned.",
        )
    inside = within(bound, subgraph)
    claims = choose_claimants_within(inside, properties, divider)
    with collector_paused():
        return _make_partitioning(*claim_regions(inside, claims, demanded), demanded, {})


def _make_partitioning(
    state: PartitionState, passes: Passes, demanded: ResolvedConstraints, named: Mapping[str, str]
) -> Partitioning:
    require_all_claimed(state, passes, demanded)
    subgraphs, claimed_by = cut(state, passes)
    partitioning = Partitioning(state.graph, subgraphs, passes, claimed_by, demanded, named)
    finish_all(state.graph, partitioning, passes)
    return partitioning
