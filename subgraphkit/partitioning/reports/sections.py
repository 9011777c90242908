"""The sections of a page about a partitioning: shares, picture, nodes, subgraphs and reasons."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from subgraphkit.ir import Node, Subgraph
from subgraphkit.ir.costs import bytes_of
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import (
    Cause,
    find_all_causes,
    main_reason,
    operators_of,
    refused_for_good,
)
from subgraphkit.partitioning.reports.quality import Quality, find_moves, homes, move_table
from subgraphkit.texts import count_of, in_bytes, in_seconds, list_texts, printable
from subgraphkit.viewing import Arrow, Box, Drawing, Section, Table, Text, fragment, page

_NODES = "Nodes"
_SHOWN_OPERATORS = 6
_SHOWN_VALUES = 6
_MILLION = 1e6
_PART = "% of the FLOPs"
_TIME = "time, ms"
_LEAST = 0.001


@dataclass(frozen=True, eq=False)
class _Portrait:
    """A partitioning as sections of a page.

    Attributes:
        times: Seconds of one run, by subgraph id and by number of a node, as far as they are known.
        before: By node, its backend in the partitioning to compare with.
    """

    partitioning: PartitioningData
    quality: Quality
    times: Mapping[str | int, float]
    before: Mapping[int, str]

    def sections(self) -> Iterator[Section]:
        """Go through the sections, the picture first and the reasons last."""
        yield self.summary()
        yield self.drawing("Subgraphs", opens=_NODES)
        yield self._nodes()
        yield self.subgraphs()
        yield self.reasons()

    def summary(self) -> Table:
        """Return the backends' shares of the work."""
        quality = self.quality
        said = [
            main_reason(self._causes),
            f"Handed over between subgraphs: {count_of(quality.cut_tensors, 'tensor')}, "
            f"{in_bytes(quality.cut_bytes)} in all."
            if quality.cut_tensors
            else "",
            "Dimensions that are not known count as 1." if quality.has_open_flops else "",
            "" if all(one.maximal for one in quality.backends) else "Merging ended by its budget.",
        ]
        rows = [
            (
                f"{one.backend} (fallback)" if one.is_fallback else one.backend,
                one.regions,
                one.lower_bound,
                one.nodes,
                one.parameters,
                one.flops / _MILLION,
                self._percent(one.flops),
                self._time_of(one.backend),
            )
            for one in quality.backends
        ]
        whole = ("backend", "subgraphs", "at least", "nodes", "parameters")
        columns = (*whole, "MFLOPs", _PART, _TIME)
        notes = [*dry_run_lines(self.partitioning), *left_out_lines(self.partitioning)]
        caption = " ".join(filter(None, [*said, *(f"{one}." for one in notes)]))
        return Table(columns, rows, "Shares", caption, (_PART,)).drop_empty()

    def drawing(self, title: str, *, opens: str = "") -> Drawing:
        """Return the picture of the subgraphs."""
        running = [one for one in self.partitioning.subgraphs if one.outputs]
        what, sizes = self._sizes(running)
        words = (
            f"A box is a subgraph, coloured by the backend that runs it; its area is {what}. An "
            "arrow is data handed over, as wide as it is large."
        )
        moved = " A bold edge: nodes in it came from another backend." if self.before else ""
        opened = " Open a box to see its nodes." if opens else ""
        return Drawing(
            [self._box(one, size) for one, size in zip(running, sizes, strict=True)],
            self._arrows(),
            title=title,
            caption=words + moved + opened,
            opens=opens,
        )

    def _sizes(self, running: Sequence[Subgraph]) -> tuple[str, list[float]]:
        """Return the meaning of areas, and the sizes: times if all are known, else operations."""
        if running and all(one.id in self.times for one in running):
            return "its time", [self.times[one.id] for one in running]
        flops = [float(self.partitioning.flops_of(one.nodes)) for one in running]
        if any(flops):
            return "its arithmetic (FLOPs)", flops
        return "its number of nodes", [float(len(one.nodes)) for one in running]

    def _box(self, subgraph: Subgraph, size: float) -> Box:
        nodes = self._running(subgraph)
        flops, seconds = self.partitioning.flops_of(subgraph.nodes), self.times.get(subgraph.id)
        share = _share(flops, self.quality.flops)
        worth = in_seconds(seconds) if seconds is not None else share
        graph = self.partitioning.graph
        facts = [
            ("backend", subgraph.backend),
            ("nodes", _most(Counter(Node(graph, node).qualified_op_type for node in nodes))),
            ("arithmetic", f"{flops / _MILLION:,.4g} MFLOPs, {share}" if flops else ""),
            ("time", worth if seconds is not None else ""),
            ("reads", self._list_types(subgraph.inputs)),
            ("hands over", self._list_types(subgraph.outputs)),
        ]
        return Box(
            subgraph.id,
            subgraph.backend,
            size,
            f"{count_of(len(nodes), 'node')}, {worth}" if worth else count_of(len(nodes), "node"),
            [(name, value) for name, value in facts if value],
            marked=any(self._has_moved(node, subgraph) for node in subgraph.nodes),
        )

    def _list_types(self, names: Sequence[str]) -> str:
        types = self.partitioning.graph.types
        return list_texts([f"{name}: {types.get(name, '?')}" for name in names], _SHOWN_VALUES)

    def _arrows(self) -> list[Arrow]:
        types, subgraphs = self.partitioning.graph.types, self.partitioning.subgraphs
        running = [place for place, one in enumerate(subgraphs) if one.outputs]
        box = {place: at for at, place in enumerate(running)}
        found = []
        for source, target, names in self.partitioning.crossings():
            if target in box:
                size = sum(bytes_of(types.get(name)) for name in names)
                found.append(Arrow(box[source], box[target], size, self._list_types(names)))
        return found

    def _nodes(self) -> Table:
        graph = self.partitioning.graph
        parts = self.partitioning.subgraphs
        homes = [(one, node) for one in parts for node in self._running(one)]
        rows = [self._node(subgraph, Node(graph, node)) for subgraph, node in homes]
        place = {node: at for at, (_, node) in enumerate(homes)}
        makers = [{graph.producers.get(name) for name in graph.read_by(node)} for _, node in homes]
        links = [sorted(place[one] for one in found if one in place) for found in makers]
        columns = [
            *("subgraph", "number", "operator", "name", "backend", "before", "MFLOPs", _TIME),
            *("reads", "makes", "refused by"),
        ]
        names = self.partitioning.graph.table.names
        caption = "" if all(names) else "A node without a name has the first value it makes, in ()."
        bars = ("MFLOPs", _TIME)
        return Table(columns, rows, _NODES, caption, bars, links=links).drop_empty()

    def _node(self, subgraph: Subgraph, node: Node) -> tuple[str | int | float | None, ...]:
        types = node.graph.types
        return (
            subgraph.id,
            node.id,
            node.qualified_op_type,
            node.name or f"({next(filter(None, node.outputs), '')})",
            subgraph.backend,
            self.before[node.id] if self._has_moved(node.id, subgraph) else "",
            self.partitioning.flops_of([node.id]) / _MILLION,
            _in_ms(self.times.get(node.id)),
            ", ".join(str(types.get(name, "?")) for name in node.inputs if name),
            ", ".join(str(types.get(name, "?")) for name in node.outputs if name),
            "; ".join(f"{who}: {reason}" for who, reason in self._refusals.get(node.id, ())),
        )

    def subgraphs(self) -> Table:
        """Return the subgraphs that run."""
        graph, rows, idle = self.partitioning.graph, [], 0
        for subgraph in self.partitioning.subgraphs:
            nodes = self._running(subgraph) or list(subgraph.nodes)
            idle += 0 if subgraph.outputs else len(subgraph.nodes)
            row = (
                subgraph.id,
                subgraph.backend,
                len(nodes),
                self.partitioning.flops_of(subgraph.nodes) / _MILLION,
                _in_ms(self.times.get(subgraph.id)),
                *(Node(graph, nodes[end]).label for end in (0, -1)),
                self._list_types(subgraph.inputs),
                self._list_types(subgraph.outputs),
            )
            rows += [row] if subgraph.outputs else []
        ends = ("from", "to", "inputs", "outputs")
        columns = ("subgraph", "backend", "nodes", "MFLOPs", _TIME, *ends)
        said = f"Not run, because nothing reads it: {count_of(idle, 'node')}." if idle else ""
        title = "Subgraphs in running order"
        return Table(columns, rows, title, said, ("MFLOPs", _TIME)).drop_empty()

    @cached_property
    def _causes(self) -> Sequence[Cause]:
        return find_all_causes(self.partitioning)

    def reasons(self) -> Section:
        """Return why nodes are not elsewhere, by root cause."""
        title = "Why nodes are not on a backend that was asked"
        if not self._causes:
            return Text("No node is on another backend than the first that was asked.", title)
        rows = [
            (
                one.backend,
                len(one.nodes),
                self._percent(self.partitioning.flops_of(one.nodes)),
                operators_of(self.partitioning.graph, one.nodes),
                one.code,
                one.text,
            )
            for one in self._causes
        ]
        return Table(("refused by", "nodes", _PART, "operators", "code", "reason"), rows, title)

    def _percent(self, flops: int) -> float | None:
        return 100 * flops / self.quality.flops if self.quality.flops else None

    @cached_property
    def _refusals(self) -> Mapping[int, list[tuple[str, str]]]:
        return {
            node: [(one.backend, one.refusal.text) for one in refused]
            for node, refused in refused_for_good(self.partitioning)
        }

    def _running(self, subgraph: Subgraph) -> list[int]:
        graph = self.partitioning.graph
        return [node for node in subgraph.nodes if not graph.is_constant_node(node)]

    def _has_moved(self, node: int, subgraph: Subgraph) -> bool:
        return self.before.get(node, subgraph.backend) != subgraph.backend

    def _time_of(self, backend: str) -> float | None:
        ids = [one.id for one in self.partitioning.subgraphs if one.backend == backend]
        times = [self.times[name] for name in ids if name in self.times]
        return _in_ms(sum(times) if times else None)


def sections_of(
    partitioning: PartitioningData, quality: Quality, times: Mapping[str | int, float]
) -> list[Section]:
    """Return a partitioning for a page: a summary, a picture and tables."""
    return list(_Portrait(partitioning, quality, times, {}).sections())


def tables_of(partitioning: PartitioningData, quality: Quality) -> list[Section]:
    """Return a partitioning for a text: subgraphs, reasons and shares."""
    shown = _Portrait(partitioning, quality, {}, {})
    return [shown.subgraphs(), shown.reasons(), shown.summary()]


def as_page(
    partitioning: PartitioningData,
    quality: Quality,
    *,
    against: PartitioningData | None,
    times: Mapping[str | int, float],
) -> str:
    """Return one HTML page about a partitioning, compared with another one if there is one."""
    nodes = count_of(quality.nodes, "node")
    title = f"{partitioning.graph.name}: {nodes} in "
    title += count_of(len(partitioning.subgraphs), "subgraph")
    if against is None:
        return page(title, *_Portrait(partitioning, quality, times, {}).sections())
    moves = find_moves(partitioning, against)
    portrait = _Portrait(partitioning, quality, times, homes(against))
    earlier = _Portrait(against, quality, {}, {})
    summary, drawing, *rest = portrait.sections()
    before = earlier.drawing("Compared with")
    return page(title, move_table(moves, quality.flops), summary, drawing, before, *rest)


def as_fragment(
    partitioning: PartitioningData, quality: Quality, times: Mapping[str | int, float]
) -> str:
    """Return the backends' shares of the work, and the picture, for a notebook."""
    portrait = _Portrait(partitioning, quality, times, {})
    return fragment(portrait.summary(), portrait.drawing("Subgraphs"))


def _in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _share(flops: int, whole: int) -> str:
    if not flops:
        return "no FLOPs" if whole else ""
    share = flops / whole
    return f"{share:.1%} of the FLOPs" if share >= _LEAST else "< 0.1% of the FLOPs"


def _most(counts: Counter[str]) -> str:
    return list_texts([f"{count} {name}" for name, count in counts.most_common()], _SHOWN_OPERATORS)


def dry_run_lines(partitioning: PartitioningData) -> list[str]:
    """Return a line for each backend that plans here and cannot run, with its lack."""
    return [
        printable(
            f"dry run, nothing can run here: {name}: {error.context.get('problem', error.message)}"
        )
        for name, error in partitioning.cannot_run.items()
    ]


def left_out_lines(partitioning: PartitioningData) -> list[str]:
    """Return a line on the nodes that were left out at bind, if any were."""
    left_out = partitioning.graph.left_out.values()
    computed = sum(became == "computed at bind" for became in left_out)
    replaced = sum(became.endswith("branch is taken, known at bind") for became in left_out)
    by_extensions = Counter(one for one in left_out if one.startswith("replaced by extension"))
    others = len(left_out) - computed - replaced - by_extensions.total()
    said = [f"{count_of(computed, 'node')} computed at bind"] if computed else []
    if replaced:
        said.append(f"{count_of(replaced, 'If')} replaced by the branch that is taken")
    said += [f"{count_of(many, 'node')} {why}" for why, many in by_extensions.items()]
    if others:
        said.append(
            f"{count_of(others, 'node')} left out, as a copy, as computed "
            "before, or because nothing reads it"
        )
    return ["; ".join(said)] if said else []
