"""Turns of all properties, each on the nodes that those before it left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

from subgraphkit.backend.property import PartitionSummary
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.names import BACKEND_NAMES, KNOWN_BACKENDS
from subgraphkit.errors import ConfigError, UnclaimedNodesError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.partitioning.claiming.constraints import ResolvedConstraints
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.refusals import RefusalColumn, RefusedBy, without_repeats
from subgraphkit.partitioning.claiming.turn import TurnOutcome, take_turn
from subgraphkit.partitioning.claiming.turn_input import open_turn
from subgraphkit.partitioning.claiming.work_table import WorkTable

_SHOWN_NODES = 10
_TOTAL_BACKEND = "numpy"
_RUNTIME = "onnxruntime"
_RUNTIME_DOMAINS = "com.microsoft"


class Turns(NamedTuple):
    """The outcome of all turns.

    Attributes:
        columns: Their refusals; None for a property that had nothing left to be asked about.
    """

    claims: tuple[Claim, ...]
    columns: tuple[RefusalColumn | None, ...]
    outcomes: tuple[TurnOutcome | None, ...]


def take_turns(
    work: WorkTable,
    barred: Callable[[int], Mapping[int, Refusal]],
    *,
    first: int = 0,
    earlier: Turns | None = None,
    told: Callable[[Claim], object] = lambda _: None,
) -> Turns:
    """Let every property claim regions of what those before it left.

    ``earlier``: What came of the turns when the whole graph was partitioned, if this is a second
    pass over a part of it; its columns are changed. The bounds of the properties that have a turn
    again are struck out: they were about other nodes.
    """
    claims = tuple(inquiry.claim for inquiry in work.inquiries)
    columns: list[RefusalColumn | None] = [None] * len(claims)
    outcomes: list[TurnOutcome | None] = [None] * len(claims)
    if earlier is not None:
        columns = list(earlier.columns)
        outcomes = [
            replace(outcome, lower_bound=None) if outcome is not None and at >= first else outcome
            for at, outcome in enumerate(earlier.outcomes)
        ]
    for index, inquiry in enumerate(work.inquiries):
        if index < first or not any(work.free):
            continue
        told(inquiry.claim)
        column = columns[index]
        if column is None:
            column = columns[index] = RefusalColumn(len(work.graph.table.op_types))
            with inquiry.blame("SGK122", "prepare"):
                inquiry.claim.property.prepare(work.graph, inquiry.claim.context)
        kept_away = _keep_away(work, barred(index), column)
        outcome = take_turn(open_turn(work, index, column, kept_away))
        if outcomes[index] is None:
            outcomes[index] = replace(outcome, whole=earlier is None)
    return Turns(claims, tuple(columns), tuple(outcomes))


def _keep_away(work: WorkTable, barred: Mapping[int, Refusal], column: RefusalColumn) -> bytearray:
    """Return, by rank, 1 for what a property must not take, and keep the reasons."""
    kept_away = bytearray(work.count)
    for node, refusal in barred.items():
        rank = work.rank_of[node]
        if rank >= 0:
            kept_away[rank] = 1
            if work.free[rank]:
                column.refuse(node, refusal)
    return kept_away


def finish_turns(
    graph: BoundGraph,
    partitioning: PartitionSummary,
    turns: Turns,
    earlier: Turns | None = None,
) -> None:
    """Show the finished partitioning to every property that had its first turn.

    Raises:
        SelectorContractError: ``finish`` raised (SGK122).
    """
    for at, (claim, column) in enumerate(zip(turns.claims, turns.columns, strict=True)):
        if column is None or (earlier is not None and earlier.columns[at] is not None):
            continue
        with Inquiry(claim, graph).blame("SGK122", "finish"):
            claim.property.finish(partitioning, claim.context)


def require_all_claimed(work: WorkTable, turns: Turns, constraints: ResolvedConstraints) -> None:
    """Raise if nodes are left that nobody claimed.

    Raises:
        ConfigError: Some of them are pinned to a backend that refused them (SGK123).
        UnclaimedNodesError: Names the nodes, why each was refused, and what to do (SGK120).
    """
    left = sorted(compress(work.order, work.free))
    if not turns.claims:
        left = sorted(work.order)
    if not left:
        return
    listed = [
        f"{Node(work.graph, node).label}: {_reasons(turns, node)}" for node in left[:_SHOWN_NODES]
    ]
    if len(left) > _SHOWN_NODES:
        listed.append(f"... and {len(left) - _SHOWN_NODES} more")
    pinned = next((node for node in left if node in constraints.pinned), None)
    if pinned is not None:
        label, target = Node(work.graph, pinned).label, constraints.pinned[pinned]
        raise ConfigError(
            "SGK123",
            f"node {label} is pinned to {target!r}, which refused it",
            hint=_reasons(turns, pinned) + _advice_on_groups(turns, pinned),
            node=pinned,
        )
    asked = tuple(dict.fromkeys(claim.backend.name for claim in turns.claims))
    nodes = "1 node is" if len(left) == 1 else f"{len(left)} nodes are"
    raise UnclaimedNodesError(
        "SGK120",
        f"{nodes} claimed by no backend; asked: {', '.join(asked) or 'none'}",
        hint="\n".join([*listed, *_remedies(work.graph, left, asked)]),
        nodes=tuple(left),
        backends=asked,
    )


def _advice_on_groups(turns: "Turns", node: int) -> str:
    found = (column.of(node) for column in turns.columns if column is not None)
    if any(refusal is not None and refusal.code == "group" for refusal in found):
        return ". Pin every node of the group to the same backend."
    return ""


def _advice_on_runtime(domains: Sequence[str]) -> str:
    named = ", ".join(map(repr, domains))
    how = f"add {_RUNTIME!r} to the backends"
    if not BACKEND_NAMES.is_installed(_RUNTIME):
        how = f"{KNOWN_BACKENDS[_RUNTIME]}, and {how}"
    return f"Operators of domain {named} are ONNX Runtime's own, which runs them: {how}."


def _remedies(graph: BoundModel, left: Sequence[int], asked: Sequence[str]) -> list[str]:
    """Say what would help with the nodes that are left: only what has not been tried."""
    remedies = []
    domains = {graph.table.domains[node] for node in left}
    foreign = sorted(domain for domain in domains if domain and not domain.startswith("ai.onnx"))
    if _RUNTIME not in asked:
        theirs = [domain for domain in foreign if domain.startswith(_RUNTIME_DOMAINS)]
        foreign = [domain for domain in foreign if domain not in theirs]
        if theirs:
            remedies.append(_advice_on_runtime(theirs))
    if foreign:
        named = ", ".join(map(repr, foreign))
        remedies.append(f"Install or write a backend for the operators of domain {named}.")
    if graph.settings.strict:
        remedies.append("strict is on, so nothing falls back: add a backend, or leave strict off.")
    elif _TOTAL_BACKEND not in asked:
        remedies.append(
            "The NumPy backend runs every operator of ONNX: "
            'pip install "subgraphkit[numpy]", and leave fallback at its default.'
        )
    return remedies


def _reasons(turns: Turns, node: int) -> str:
    refused = without_repeats(
        RefusedBy(claim.backend.name, claim.property_name, refusal)
        for claim, column in zip(turns.claims, turns.columns, strict=True)
        if column is not None and (refusal := column.of(node)) is not None
    )
    return "; ".join(f"{one.backend}: {one.refusal}" for one in refused) or "nobody was asked"
