"""A partitioning in text for people: a few lines, or with details the tables of its page."""

from collections.abc import Mapping

from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.explanation import (
    example_sizes,
    find_all_causes,
    operators_of,
    symbol_words,
)
from subgraphkit.partitioning.reports.quality import Quality
from subgraphkit.partitioning.reports.sections import dry_run_lines, tables_of
from subgraphkit.texts import aligned, counted, printable
from subgraphkit.viewing import lines_of


def as_text(
    partitioning: PartitioningData, quality: Quality, *, details: bool, width: int | None = None
) -> str:
    """Render each backend's share and why it is not more; with ``details``, as tables.

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
    return "\n".join([head, "", *lines_of(tables_of(partitioning, quality), width)]) + "\n"


def _summary(partitioning: PartitioningData, quality: Quality) -> list[str]:
    """Say in a few lines who runs which share, why not more, and what to do."""
    given = partitioning.given_options
    rows = [
        (
            printable("  " + ":".join([one.backend, *_words(given.get(one.backend, {}))])),
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
        sizes = symbol_words(example_sizes(partitioning.graph, most.sizes))
        return [*lines, printable(f"what to do: give the sizes, such as {sizes}")]
    return [*lines, "what to do: 'plan --details', or report(details=True), has every reason"]


def _words(options: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]
