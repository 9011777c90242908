"""What the user demands of a partitioning: nodes pinned to backends, or kept from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.suggestion import did_you_mean
from subgraphkit.errors import ConfigError
from subgraphkit.ir import BoundGraph, Node

__all__ = ["Constraints", "NodeSelector", "ResolvedConstraints", "resolve_constraints"]

NodeSelector = str | int | Callable[[Node], bool]
"""Names nodes: a node's name, an operator (``com.acme::Conv`` outside the default domain), a place
in the node list, or a predicate. Text is a node's name if some node has it, else an operator."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Demands on a partitioning.

    Attributes:
        pins: The backend that must take the nodes; no other is asked about them.
        exclusions: By backend, nodes it must not take.

    Example:
        >>> Constraints(pins={"head": "numpy"}, exclusions={"tensorrt": ["Resize"]}).pins
        {'head': 'numpy'}
    """

    pins: Mapping[NodeSelector, str] = field(default_factory=lambda: MappingProxyType({}))
    exclusions: Mapping[str, Sequence[NodeSelector]] = field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclass(frozen=True, slots=True)
class ResolvedConstraints:
    """Constraints as node indices.

    Attributes:
        pinned: The backend each pinned node must go to.
        excluded: By backend, the nodes it must not take.
    """

    pinned: Mapping[int, str]
    excluded: Mapping[str, frozenset[int]]

    def refusals_for(self, backend: str) -> dict[int, Refusal]:
        """Return the nodes that are kept from a backend, with the reasons."""
        barred = {
            node: Refusal("pinned", f"pinned to backend {target!r}")
            for node, target in self.pinned.items()
            if target != backend
        }
        reason = Refusal("excluded", f"excluded from backend {backend!r} by a constraint")
        barred |= dict.fromkeys(self.excluded.get(backend, ()), reason)
        return barred


def resolve_constraints(
    graph: BoundGraph, constraints: Constraints | None, backends: Sequence[str]
) -> ResolvedConstraints:
    """Find the nodes and backends that constraints name.

    ``Constant`` nodes are left out: they travel with their readers.

    Args:
        graph: The bound graph.
        constraints: The demands, or None.
        backends: Names of the backends that take part.

    Raises:
        ConfigError: A node or backend is unknown, or two demands contradict each other (SGK123).
    """
    if constraints is None:
        return ResolvedConstraints({}, {})
    finder = _Finder(graph)
    pinned: dict[int, str] = {}
    for selector, backend in constraints.pins.items():
        _check_backend(backend, backends)
        for node in finder.find(selector):
            if pinned.setdefault(node, backend) != backend:
                label = Node(graph, node).label
                raise _unmet(f"node {label} is pinned to {pinned[node]!r} and to {backend!r}")
    excluded: dict[str, frozenset[int]] = {}
    for backend, selectors in constraints.exclusions.items():
        _check_backend(backend, backends)
        listed = [selectors] if isinstance(selectors, str) else selectors
        nodes = frozenset(node for selector in listed for node in finder.find(selector))
        excluded[backend] = nodes
        for node in sorted(nodes):
            if pinned.get(node) == backend:
                label = Node(graph, node).label
                raise _unmet(f"node {label} is pinned to {backend!r} and excluded from it")
    return ResolvedConstraints(pinned, excluded)


def _check_backend(name: str, backends: Sequence[str]) -> None:
    if name not in backends:
        listed = ", ".join(map(repr, backends)) or "none"
        raise _unmet(
            f"a constraint names backend {name!r}, which takes no part"
            f"{did_you_mean(name, backends)}",
            f"Backends of this partitioning: {listed}.",
        )


def _unmet(problem: str, hint: str = "") -> ConfigError:
    return ConfigError("SGK123", problem, hint=hint)


class _Finder:
    """Finds the nodes a selector means."""

    def __init__(self, graph: BoundGraph) -> None:
        self._graph = graph
        self._by_name: dict[str, list[int]] | None = None
        self._by_operator: dict[str, list[int]] = {}

    def find(self, selector: NodeSelector) -> list[int]:
        graph = self._graph
        if isinstance(selector, str):
            found = self._named(selector)
        elif isinstance(selector, int):
            count = len(graph.nodes)
            if not 0 <= selector < count:
                raise _unmet(f"a constraint names node {selector}; the model has {count} nodes")
            found = [selector]
        else:
            found = [node.id for node in graph.nodes if selector(node)]
        return [node for node in found if not graph.is_constant_node(node)]

    def _named(self, text: str) -> Iterable[int]:
        if self._by_name is None:
            self._by_name = {}
            for node in self._graph.nodes:
                if node.name:
                    self._by_name.setdefault(node.name, []).append(node.id)
                self._by_operator.setdefault(node.qualified_op_type, []).append(node.id)
        found = self._by_name.get(text) or self._by_operator.get(text)
        if found is None:
            guess = did_you_mean(text, {*self._by_name, *self._by_operator})
            raise _unmet(
                f"a constraint names {text!r}, which is neither a node nor an operator of the "
                f"model{guess}",
                "Name a node, an operator, a place in the node list, or give a predicate.",
            )
        return found
