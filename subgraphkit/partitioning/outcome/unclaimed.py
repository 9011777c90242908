"""The error for nodes that nobody takes, with the reasons and what helps."""

from collections.abc import Sequence
from itertools import compress

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.names import BACKEND_NAMES, KNOWN_BACKENDS
from subgraphkit.errors import ConfigError, UnclaimedNodesError
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.claim import Passes
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.constraints import ResolvedConstraints
from subgraphkit.partitioning.refusals import RefusedBy, without_repeats

_SHOWN_NODES = 10
_TOTAL_BACKEND = "numpy"
_RUNTIME = "onnxruntime"
_RUNTIME_DOMAINS = "com.microsoft"


def require_all_claimed(
    state: PartitionState, passes: Passes, constraints: ResolvedConstraints
) -> None:
    """Raise if nodes are left that nobody claimed.

    Raises:
        ConfigError: Some of them are pinned to a backend that refused them (SGK123).
        UnclaimedNodesError: Names the nodes, why each was refused, and what to do (SGK120).
    """
    left = sorted(compress(state.order, state.free))
    if not passes.claims:
        left = sorted(state.order)
    if not left:
        return
    listed = [
        f"{Node(state.graph, node).label}: {_reasons(passes, node)}" for node in left[:_SHOWN_NODES]
    ]
    if len(left) > _SHOWN_NODES:
        listed.append(f"... and {len(left) - _SHOWN_NODES} more")
    pinned = next((node for node in left if node in constraints.pinned), None)
    if pinned is not None:
        label, target = Node(state.graph, pinned).label, constraints.pinned[pinned]
        raise ConfigError(
            "SGK123",
            f"node {label} is pinned to {target!r}, which refused it",
            hint=_reasons(passes, pinned) + _advice_on_groups(passes, pinned),
            node=pinned,
        )
    asked = tuple(dict.fromkeys(claim.backend.name for claim in passes.claims))
    nodes = "1 node is" if len(left) == 1 else f"{len(left)} nodes are"
    raise UnclaimedNodesError(
        "SGK120",
        f"{nodes} claimed by no backend; asked: {', '.join(asked) or 'none'}",
        hint="\n".join([*listed, *_remedies(state.graph, left, asked)]),
        nodes=tuple(left),
        backends=asked,
    )


def _advice_on_groups(passes: Passes, node: int) -> str:
    found = (column.of(node) for column in passes.columns if column is not None)
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


def _reasons(passes: Passes, node: int) -> str:
    refused = without_repeats(
        RefusedBy(claim.backend.name, claim.property_name, refusal)
        for claim, column in zip(passes.claims, passes.columns, strict=True)
        if column is not None and (refusal := column.of(node)) is not None
    )
    return "; ".join(f"{one.backend}: {one.refusal}" for one in refused) or "nobody was asked"
