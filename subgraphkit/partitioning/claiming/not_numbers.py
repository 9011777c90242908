"""Nodes of which a backend says that NaN gets lost: kept from it, or reported once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from subgraphkit.backend.notices import PLACEMENT_LOG
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.ir import BoundGraph, Graph, Node
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.types import DataType

__all__ = ["kept_for_nan", "report_lost_nan"]

_FLOATS: Final = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.UNDEFINED}
)
_KEEPING: Final = frozenset({"propagate", "error"})

_reported: set[str] = set()
"""The backends that this process was told of."""


def kept_for_nan(claim: Claim, graph: BoundModel) -> Mapping[int, Refusal]:
    """Return the nodes that a property must not have under the setting ``nan_policy``."""
    losing = claim.property.loses_nan
    if not losing or graph.settings.nan_policy not in _KEEPING:
        return {}
    return {
        node: Refusal("nan", f"{op} makes a number of NaN on {claim.backend.name!r}")
        for node, op in _losing(graph, range(len(graph.table.op_types)), losing)
    }


def report_lost_nan(claims: Iterable[tuple[Claim, Iterable[int]]], graph: BoundModel) -> None:
    """Write to the log that a backend loses NaN, and where; once per process and backend.

    Args:
        claims: Properties, each with the nodes of its subgraphs.
        graph: The graph; its setting ``nan_policy`` says whether anything is to be written.
    """
    found: dict[str, set[str]] = {}
    for claim, nodes in claims if graph.settings.nan_policy == "warn" else ():
        name, losing = claim.backend.name, claim.property.loses_nan
        if losing and name not in _reported:
            found.setdefault(name, set()).update(op for _, op in _losing(graph, nodes, losing))
    for name, operators in found.items():
        if operators:
            _reported.add(name)
            PLACEMENT_LOG.warning(
                "%s makes numbers of NaN in %s. "
                'nan_policy="propagate" runs such nodes elsewhere, "ignore" accepts it.',
                name,
                ", ".join(sorted(operators)),
            )


def _losing(
    graph: BoundGraph, nodes: Iterable[int], losing: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield the nodes that compute with fractions by one of these operators, or in their bodies."""
    table = graph.table
    for index in nodes:
        if table.op_types[index] in losing and not table.domains[index]:
            if any(graph.dtype(name) in _FLOATS for name in table.inputs[index] if name):
                yield index, table.op_types[index]
        elif index in table.bodies:
            inner = _inner_operators(Node(graph, index)) & losing
            if inner:
                yield index, min(inner)


def _inner_operators(node: Node) -> set[str]:
    found: set[str] = set()
    for body in node.bodies.values():
        found |= _operators(body)
    return found


def _operators(graph: Graph) -> set[str]:
    inner = (Node(graph, index) for index in graph.table.bodies)
    return set(graph.table.op_types).union(*map(_inner_operators, inner))
