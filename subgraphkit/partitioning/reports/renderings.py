"""Renderings of a partitioning: text for people, plain data for machines, a graph for networkx."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.ir.costs import bytes_of
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.refusals import RefusedBy
from subgraphkit.partitioning.reports.explanation import (
    Cause,
    Roots,
    example_sizes,
    find_causes,
    operators_of,
    symbol_words,
)
from subgraphkit.partitioning.reports.quality import BackendQuality, Quality
from subgraphkit.texts import aligned, counted, in_bytes, printable


def as_data(partitioning: PartitioningData, quality: Quality) -> dict[str, Any]:
    """Return the partitioning as plain data: dicts, lists, numbers and text only.

    Left out are refusals by one property of nodes that another property of the same backend took.
    """
    return {
        "model": partitioning.graph.name,
        "node_count": len(partitioning.graph.order),
        "left_out": {str(node): became for node, became in partitioning.graph.left_out.items()},
        "backends": list(partitioning.backends),
        "evidence": dict(partitioning.evidence),
        "cannot_run": {
            name: {"code": error.code, "message": error.message, "hint": error.hint}
            for name, error in partitioning.cannot_run.items()
        },
        "subgraphs": [
            {
                "id": subgraph.id,
                "backend": subgraph.backend,
                "property_name": subgraph.property_name,
                "nodes": list(subgraph.nodes),
                "inputs": list(subgraph.inputs),
                "outputs": list(subgraph.outputs),
            }
            for subgraph in partitioning.subgraphs
        ],
        "refusals": [
            {
                "node": node,
                "backend": one.backend,
                "property": one.property,
                "code": one.refusal.code,
                "text": one.refusal.text,
            }
            for node, refused in refused_for_good(partitioning)
            for one in refused
        ],
        "quality": quality.to_dict(),
    }


def as_networkx(partitioning: PartitioningData) -> Any:
    """Return a ``networkx.DiGraph`` whose nodes are subgraph ids and whose edges are values.

    Returns:
        Node attributes: ``backend``, ``property``, ``nodes`` (how many it runs), ``flops``. Edge
        attributes: ``tensors`` (names), ``bytes``. Graph attributes: ``name``, ``critical_path``
        (ids of the chain of subgraphs that does the most operations one after the other) and
        ``critical_flops``.

    Raises:
        ImportError: networkx is not installed.
    """
    import networkx as nx  # noqa: PLC0415 (only those who ask for it pay for it)

    graph, types = partitioning.graph, partitioning.graph.types
    quotient = nx.DiGraph(name=graph.name)
    for subgraph in partitioning.subgraphs:
        quotient.add_node(
            subgraph.id,
            backend=subgraph.backend,
            property=subgraph.property_name,
            nodes=sum(not graph.is_constant_node(node) for node in subgraph.nodes),
            flops=partitioning.flops_of(subgraph.nodes),
        )
    for *ends, values in partitioning.crossings():
        source, target = (partitioning.subgraphs[place].id for place in ends)
        size = sum(bytes_of(types.get(value)) for value in values)
        quotient.add_edge(source, target, tensors=tuple(values), bytes=size)
    path, flops = _critical_path(partitioning, quotient)
    quotient.graph["critical_path"] = path
    quotient.graph["critical_flops"] = flops
    return quotient


def _critical_path(partitioning: PartitioningData, quotient: Any) -> tuple[tuple[str, ...], int]:
    """Return the heaviest chain; of equally heavy ones the longest, then the first in run order."""
    best: dict[str, tuple[int, int]] = {}
    before: dict[str, str | None] = {}
    for subgraph in partitioning.subgraphs:
        name = subgraph.id
        reached, before[name] = (0, 0), None
        for source in quotient.predecessors(name):
            if best[source] > reached:
                reached, before[name] = best[source], source
        best[name] = (reached[0] + quotient.nodes[name]["flops"], reached[1] + 1)
    if not best:
        return (), 0
    at: str | None = max(best, key=lambda name: best[name])
    flops = best[at][0] if at is not None else 0
    path = []
    while at is not None:
        path.append(at)
        at = before[at]
    return tuple(reversed(path)), flops


def as_text(
    partitioning: PartitioningData, quality: Quality, *, details: bool, width: int | None = None
) -> str:
    """Render the partitioning: who runs what share and why not more; with ``details``, as tables.

    ``width``: Cells in a line, to which tables are fitted; None for lines without end.
    """
    subgraphs = len(partitioning.subgraphs)
    head = (
        f"{printable(partitioning.graph.name)}: {counted(quality.nodes, 'node')} "
        f"in {counted(subgraphs, 'subgraph')}"
    )
    if not details:
        return "\n".join([head, *_summary(partitioning, quality)]) + "\n"
    rest_on = [f"{name} ({evidence})" for name, evidence in partitioning.evidence.items()]
    head += f", backends {', '.join(rest_on) or 'none'}"
    left_out = left_out_lines(partitioning)
    parts = ["\n".join([head, *dry_run_lines(partitioning), *left_out])]
    if subgraphs:
        parts.append(_subgraph_table(partitioning, width=width))
    parts.append(_refusal_table(partitioning, width=width))
    parts.append(_quality_lines(partitioning.graph, quality, width=width))
    return "\n\n".join(filter(None, parts)) + "\n"


def _summary(partitioning: PartitioningData, quality: Quality) -> list[str]:
    """Say in a few lines who runs which share, why not more, and what to do."""
    rows = [
        (
            f"  {one.backend}",
            counted(one.nodes, "node"),
            counted(one.regions, "subgraph"),
            f"{one.flops / quality.flops:.1%} of the FLOPs" if quality.flops else "",
        )
        for one in quality.backends
        if one.nodes
    ]
    lines = [*aligned(rows, {1, 2, 3}), *dry_run_lines(partitioning)]
    leading = max(quality.backends, key=lambda one: (one.flops, one.nodes), default=None)
    expected = {leading.backend if leading else "", next(iter(partitioning.named), "")}
    causes = [one for one in find_all_causes(partitioning) if one.backend in expected]
    most = max(causes, key=lambda one: len(one.nodes), default=None)
    if most is None:
        return [*lines, "what to do: 'subgraphkit tune' finds out whether another is faster"]
    nodes = f"{counted(len(most.nodes), 'node')}: {operators_of(partitioning.graph, most.nodes)}"
    lines.append(printable(f"why not more on {most.backend}: {most.text} ({nodes})"))
    if most.sizes:
        given = symbol_words(example_sizes(partitioning.graph, most.sizes))
        return [*lines, printable(f"what to do: give the sizes, such as {given}")]
    return [*lines, "what to do: 'plan --details', or report(details=True), has every reason"]


def dry_run_lines(partitioning: PartitioningData) -> list[str]:
    """Say of every backend that plans here and cannot run what it lacks, in one line."""
    return [
        printable(
            f"dry run, nothing can run here: {name}: {error.context.get('problem', error.message)}"
        )
        for name, error in partitioning.cannot_run.items()
    ]


def left_out_lines(partitioning: PartitioningData) -> list[str]:
    """Say in a line what became of the nodes that were left out at bind, if any were."""
    left_out = partitioning.graph.left_out.values()
    computed = sum(became == "computed at bind" for became in left_out)
    replaced = sum(became.endswith("branch is taken, known at bind") for became in left_out)
    others = len(left_out) - computed - replaced
    said = [f"{counted(computed, 'node')} computed at bind"] if computed else []
    if replaced:
        said.append(f"{counted(replaced, 'If')} replaced by the branch that is taken")
    if others:
        said.append(f"{counted(others, 'node')} left out, as a copy or because nothing reads it")
    return ["; ".join(said)] if said else []


def _subgraph_table(partitioning: PartitioningData, *, width: int | None) -> str:
    rows: list[Sequence[str]] = [
        ("subgraph", "backend", "nodes", "from", "to", "inputs", "outputs")
    ]
    running = [one for one in partitioning.subgraphs if one.outputs]
    for subgraph in running:
        rows += _subgraph_rows(subgraph)
    lines = aligned(rows, {2}, width=width)
    if idle := [one for one in partitioning.subgraphs if not one.outputs]:
        nodes = sum(len(one.nodes) for one in idle)
        lines.append(f"not run, because nothing reads it: {counted(nodes, 'node')}")
    return "\n".join(lines)


def _subgraph_rows(subgraph: Subgraph) -> list[Sequence[str]]:
    graph = subgraph.graph
    running = [node for node in subgraph.nodes if not graph.is_constant_node(node)] or list(
        subgraph.nodes
    )
    count = str(len(running))
    ends = (Node(graph, running[0]).label, Node(graph, running[-1]).label)
    types = graph.types
    inputs, outputs = (
        [f"{name}: {types.get(name, 'unknown')}" for name in names]
        for names in (subgraph.inputs, subgraph.outputs)
    )
    rows: list[Sequence[str]] = []
    for line, values in enumerate(zip_longest(inputs or [""], outputs, fillvalue="")):
        lead = (subgraph.id, subgraph.backend, count, *ends) if not line else ("",) * 5
        rows.append((*lead, *values))
    return rows


def refused_for_good(
    partitioning: PartitioningData,
) -> Iterator[tuple[int, Sequence[RefusedBy]]]:
    """Go through the refused nodes, with the refusals by backends they did not end on."""
    for node, refused in partitioning.refusals.items():
        home = partitioning.home_of(node).backend
        lasting = [one for one in refused if one.backend != home]
        if lasting:
            yield node, lasting


def find_all_causes(partitioning: PartitioningData) -> list[Cause]:
    """Group the refusals of nodes that run by root cause, backend by backend."""
    graph = partitioning.graph
    by_backend: dict[str, list[tuple[int, Refusal]]] = {name: [] for name in partitioning.backends}
    for node, refused in refused_for_good(partitioning):
        if partitioning.home_of(node).outputs:
            for one in refused:
                by_backend[one.backend].append((node, one.refusal))
    roots = Roots(graph)
    return [
        cause
        for name, refused in by_backend.items()
        for cause in find_causes(graph, name, refused, roots)
    ]


def _refusal_table(partitioning: PartitioningData, *, width: int | None) -> str:
    graph, causes = partitioning.graph, find_all_causes(partitioning)
    if not causes:
        return ""
    rows: list[Sequence[str]] = [("refused by", "nodes", "operator", "code", "reason")]
    rows += [
        (one.backend, str(len(one.nodes)), operators_of(graph, one.nodes), one.code, one.text)
        for one in causes
    ]
    return "\n".join(aligned(rows, {1}, width=width))


def _quality_lines(graph: BoundGraph, quality: Quality, *, width: int | None) -> str:
    rows: list[Sequence[str]] = [
        ("backend", "regions", "bound", "gap", "nodes", "parameters", "FLOPs")
    ]
    rows += [
        (
            f"{one.backend} (fallback)" if one.is_fallback else one.backend,
            str(one.regions),
            _known(one.lower_bound),
            _known(one.gap) if one.maximal else f"{_known(one.gap)} (budget ended)",
            _share(one.nodes, quality.nodes),
            _share(one.parameters, quality.parameters),
            _share(one.flops, quality.flops) + ("+" if one.has_open_flops else ""),
        )
        for one in quality.backends
    ]
    lines = aligned(rows, {1, 2, 3, 4, 5, 6}, width=width)
    lines.append(f"cut: {counted(quality.cut_tensors, 'tensor')}, {in_bytes(quality.cut_bytes)}")
    if quality.has_open_flops:
        lines.append("+: at least, because dimensions that are not known count as 1")
    lines.append(f"largest subgraph: {quality.largest_share:.1%} of the nodes")
    for one in quality.backends:
        lines += _gain_lines(graph, quality, one)
    return "\n".join(lines)


def _gain_lines(graph: BoundGraph, quality: Quality, one: BackendQuality) -> list[str]:
    lines = []
    for gain in one.gains:
        share = f" ({gain.flops / quality.flops:.1%} of the FLOPs)" if gain.flops else ""
        given = symbol_words(example_sizes(graph, gain.sizes))
        took = (
            f"if {one.backend} took {gain.operator}"
            if gain.operator
            else f"for {one.backend}, with {given}"
        )
        lines.append(printable(f"{took}: {counted(gain.nodes, 'node')} gained{share}"))
    return lines


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _share(part: int, whole: int) -> str:
    if not whole:
        return f"{part:,}"
    return f"{part:,} ({part / whole:.1%})"
