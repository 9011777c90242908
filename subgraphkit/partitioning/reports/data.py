"""A partitioning as plain data for machines, as a graph for networkx, and as text for people."""

from typing import Any

from subgraphkit.ir.costs import bytes_of
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import (
    example_sizes,
    find_all_causes,
    operators_of,
    refused_for_good,
    symbol_words,
)
from subgraphkit.partitioning.reports.quality import Quality
from subgraphkit.partitioning.reports.sections import dry_run_lines, tables_of
from subgraphkit.texts import aligned, count_of, printable
from subgraphkit.viewing import lines_of


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

    Node attributes: ``backend``, ``property``, ``nodes`` (how many it runs), ``flops``. Edge
    attributes: ``tensors`` (names), ``bytes``. Graph attribute: ``name``.
    """
    import networkx as nx  # noqa: PLC0415 (imported only for those who need it)

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
    return quotient


def as_text(
    partitioning: PartitioningData, quality: Quality, *, details: bool, width: int | None = None
) -> str:
    """Render each backend's share and why it is not more; with ``details``, as tables.

    ``width``: Cells in a line, to which tables are fitted; None for lines without end.
    """
    subgraphs = len(partitioning.subgraphs)
    head = (
        f"{printable(partitioning.graph.name)}: {count_of(quality.nodes, 'node')} "
        f"in {count_of(subgraphs, 'subgraph')}"
    )
    if not details:
        return "\n".join([head, *_summary(partitioning, quality)]) + "\n"
    rest_on = [f"{name} ({evidence})" for name, evidence in partitioning.evidence.items()]
    head += f", backends {', '.join(rest_on) or 'none'}"
    return "\n".join([head, "", *lines_of(tables_of(partitioning, quality), width)]) + "\n"


def _summary(partitioning: PartitioningData, quality: Quality) -> list[str]:
    """Write the backends' shares, the reasons and the remedies in a few lines."""
    given = partitioning.given_options.items()
    chosen = {name: [f"{key}={value}" for key, value in it.items()] for name, it in given}
    rows = [
        (
            printable("  " + ":".join([one.backend, *chosen.get(one.backend, ())])),
            count_of(one.nodes, "node"),
            count_of(one.regions, "subgraph"),
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
    if most is None and (auto := partitioning.graph.settings.auto) and auto.plan is not None:
        return lines  # tuning found it
    if most is None:
        return [*lines, "what to do: 'subgraphkit tune' finds out whether another is faster"]
    nodes = f"{count_of(len(most.nodes), 'node')}: {operators_of(partitioning.graph, most.nodes)}"
    lines.append(printable(f"why not more on {most.backend}: {most.text} ({nodes})"))
    if most.sizes:
        sizes = symbol_words(example_sizes(partitioning.graph, most.sizes))
        return [*lines, printable(f"what to do: give the sizes, such as {sizes}")]
    return [*lines, "what to do: 'plan --details', or report(details=True), has every reason"]
