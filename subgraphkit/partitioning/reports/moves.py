"""The difference of two partitionings of a model: nodes on another backend, and their work."""

from collections.abc import Sequence
from dataclasses import dataclass

from subgraphkit.errors import ConfigError
from subgraphkit.partitioning.outcome.partitioning_data import PartitioningData
from subgraphkit.partitioning.reports.quality import working_nodes
from subgraphkit.viewing import Table


@dataclass(frozen=True, slots=True)
class Move:
    """The nodes that went from one backend to another.

    Attributes:
        source: Who has them in the partitioning that is compared with.
    """

    source: str
    target: str
    nodes: tuple[int, ...]
    flops: int


def find_moves(partitioning: PartitioningData, against: PartitioningData) -> list[Move]:
    """Return what is on another backend than in ``against``, the most work first.

    Raises:
        ConfigError: They are not of the same model (SGK123).
    """
    tables = partitioning.graph.table, against.graph.table
    if tables[0] is not tables[1] and (
        list(tables[0].op_types) != list(tables[1].op_types)
        or list(tables[0].outputs) != list(tables[1].outputs)
    ):
        raise ConfigError(
            "SGK123",
            f"{against.graph.name!r} and {partitioning.graph.name!r} are different models, "
            "or one was folded and the other was not",
            hint="Compare two partitionings of one model.",
        )
    before, found = homes(against), dict[tuple[str, str], list[int]]()
    for node, backend in homes(partitioning).items():
        if before.get(node, backend) != backend:
            found.setdefault((before[node], backend), []).append(node)
    moves = [
        Move(*ends, tuple(nodes), partitioning.flops_of(nodes)) for ends, nodes in found.items()
    ]
    return sorted(moves, key=lambda move: (-move.flops, -len(move.nodes)))


def move_table(moves: Sequence[Move], all_flops: int) -> Table:
    """Return what moved from where to where as a table."""
    rows = [
        (
            move.source,
            move.target,
            len(move.nodes),
            move.flops / 1e6,
            100 * move.flops / all_flops if all_flops else None,
        )
        for move in moves
    ]
    caption = "" if rows else "Every node is on the same backend in both."
    columns = ("from", "to", "nodes", "MFLOPs", "% of the FLOPs")
    return Table(columns, rows, title="What moved", caption=caption, bars=columns[-1:])


def homes(partitioning: PartitioningData) -> dict[int, str]:
    """Return by node the backend that has it; ``Constant`` nodes and what nobody reads left out."""
    return {
        node: subgraph.backend
        for subgraph in partitioning.subgraphs
        for node in working_nodes(partitioning.graph, subgraph)
    }
