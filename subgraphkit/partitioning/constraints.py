"""Nodes that a backend must not have: by demand of the user, or because NaN would get lost."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import ConfigError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.ir.graph import with_bodies
from subgraphkit.partitioning.claims import Claim, whole_number
from subgraphkit.types import DataType

NodeSelector = str | int | Callable[[Node], bool]
"""Names nodes: a node's name, an operator (``com.acme::Conv`` outside the default domain), a place
in the node list, or a predicate. Text is a node's name if some node has it, else an operator. It is
an error to name no node. A predicate does not get ``Constant`` nodes."""

_FORMS = "Name a node, an operator, a place in the node list, or give a predicate."


@dataclass(frozen=True, slots=True)
class Constraints:
    """Demands on a partitioning.

    Attributes:
        pins: The backend that must take the nodes; no other is asked about them.
        exclusions: By backend, nodes it must not take: several selectors, or a single one.

    Example:
        >>> Constraints(pins={"head": "numpy"}, exclusions={"tensorrt": ["Resize"]}).pins
        {'head': 'numpy'}
    """

    pins: Mapping[NodeSelector, str] = field(default_factory=lambda: MappingProxyType({}))
    exclusions: Mapping[str, Iterable[NodeSelector] | NodeSelector] = field(
        default_factory=lambda: MappingProxyType({})
    )


class ResolvedConstraints(NamedTuple):
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
        if backend in self.excluded:
            reason = Refusal("excluded", f"excluded from backend {backend!r} by a constraint")
            barred |= dict.fromkeys(self.excluded[backend], reason)
        return barred


NO_DEMANDS: Final = ResolvedConstraints(MappingProxyType({}), MappingProxyType({}))


def all_demands(settings: ResolvedConfig, given: Constraints | None) -> Constraints | None:
    """Add the demands of the settings ``pin`` and ``keep_off`` to those of a call, which win."""
    if not (settings.pin or settings.keep_off) or not isinstance(given, Constraints | None):
        return given
    demands = given or Constraints()
    pins: dict[NodeSelector, str] = {one.node: one.backend for one in settings.pin}
    exclusions: dict[str, list[NodeSelector]] = {}
    for one in settings.keep_off:
        exclusions.setdefault(one.backend, []).append(one.node)
    for backend, selectors in demands.exclusions.items():
        exclusions[backend] = [*exclusions.get(backend, ()), *listed_selectors(selectors)]
    return Constraints({**pins, **demands.pins}, exclusions)


def resolve_constraints(
    graph: BoundGraph, constraints: Constraints | None, backends: Sequence[str]
) -> ResolvedConstraints:
    """Find the nodes and backends that constraints name; ``Constant`` nodes go with their readers.

    ConfigError (SGK123): a node or backend is unknown, or two demands contradict each other.
    """
    if constraints is None:
        return NO_DEMANDS
    _check_kinds(constraints)
    finder = _Finder(graph)
    pinned = _pin_nodes(graph, constraints, backends, finder)
    excluded: dict[str, frozenset[int]] = {}
    for backend, selectors in constraints.exclusions.items():
        _check_backend(backend, backends)
        nodes = frozenset(node for one in listed_selectors(selectors) for node in finder.find(one))
        excluded[backend] = nodes
        for node in sorted(nodes):
            if pinned.get(node) == backend:
                label = Node(graph, node).label
                raise _unmet(f"node {label} is pinned to {backend!r} and excluded from it")
    return ResolvedConstraints(pinned, excluded)


def _pin_nodes(
    graph: BoundGraph, constraints: Constraints, backends: Sequence[str], finder: "_Finder"
) -> dict[int, str]:
    pinned: dict[int, str] = {}
    for selector, backend in constraints.pins.items():
        _check_backend(backend, backends)
        for node in finder.find(selector):
            if pinned.setdefault(node, backend) != backend:
                label = Node(graph, node).label
                raise _unmet(f"node {label} is pinned to {pinned[node]!r} and to {backend!r}")
    return pinned


def _check_kinds(constraints: Any) -> None:
    if not isinstance(constraints, Constraints):
        raise _unmet(
            f"constraints is a {type(constraints).__name__}, expected Constraints",
            'Write Constraints(pins={"Conv": "numpy"}).',
        )
    for name, example in (("pins", '{"Conv": "numpy"}'), ("exclusions", '{"numpy": ["Conv"]}')):
        given = getattr(constraints, name)
        if not isinstance(given, Mapping):
            raise _unmet(
                f"{name} of the constraints is a {type(given).__name__}, expected a mapping",
                f"Write Constraints({name}={example}).",
            )


def listed_selectors(selectors: Any) -> Iterable[NodeSelector]:
    """Return selectors, of which one may stand for a list of one."""
    several = isinstance(selectors, Iterable) and not isinstance(selectors, str)
    return selectors if several and not callable(selectors) else (selectors,)


def _check_backend(name: object, backends: Sequence[str]) -> None:
    if not isinstance(name, str):
        raise _unmet(f"a constraint names backend {name!r}, expected the name of one")
    if name not in backends:
        listed = ", ".join(map(repr, backends)) or "none"
        raise _unmet(
            f"a constraint names backend {name!r}, which is not among the backends used"
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

    def find(self, selector: object) -> list[int]:
        if isinstance(selector, str):
            found = self._find_name(selector)
        elif callable(selector):
            return self._wanted_by(selector)
        else:
            found = [self._place(selector)]
        return [node for node in found if not self._graph.is_constant_node(node)]

    def _place(self, selector: Any) -> int:
        count, place = len(self._graph.nodes), whole_number(selector)
        if place is None:
            raise _unmet(
                f"a constraint names nodes by {selector!r}, which is a {type(selector).__name__}",
                _FORMS,
            )
        if not 0 <= place < count:
            raise _unmet(f"a constraint names node {place}; the model has {count} nodes")
        return place

    def _wanted_by(self, predicate: Callable[[Node], object]) -> list[int]:
        graph, name = self._graph, getattr(predicate, "__name__", repr(predicate))
        found = []
        for node in graph.nodes:
            if graph.is_constant_node(node.id):
                continue
            try:
                wanted = bool(predicate(node))
            except Exception as error:
                raise _unmet(
                    f"predicate {name!r} of a constraint raised {type(error).__name__} for node "
                    f"{node.label}: {error}"
                ) from error
            if wanted:
                found.append(node.id)
        if not found:
            raise _unmet(f"predicate {name!r} of a constraint holds for no node of the model")
        return found

    def _find_name(self, text: str) -> Iterable[int]:
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
                _FORMS,
            )
        return found


_FLOATS: Final = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.UNDEFINED}
)
_KEEPING: Final = frozenset({"propagate", "error"})


def kept_away(
    claim: Claim, bound: BoundModel, demanded: ResolvedConstraints
) -> Mapping[int, Refusal]:
    """Return the nodes that a property is not asked about, each with the reason."""
    own = demanded.refusals_for(claim.backend.name)
    return {**_kept_for_nan(claim, bound), **_kept_for_size(claim, bound), **own}


def _kept_for_size(claim: Claim, bound: BoundModel) -> Mapping[int, Refusal]:
    """Return the nodes that a property must not have, since it does not look how much they make.

    A fed length may ask for any amount of memory, and a library allocates it.
    """
    if claim.backend.traits.holds_limits or not bound.settings.limits.value_bytes:
        return {}
    text = "how much {} makes is fed, and nothing here holds that against max_value_bytes"
    culprits = bound.fed_sizes.items()
    return {node: Refusal("fed_size", text.format(one.label)) for node, one in culprits}


def _kept_for_nan(claim: Claim, graph: BoundModel) -> Mapping[int, Refusal]:
    """Return the nodes that lose NaN and must not: as ``nan_policy`` says, or IsNaN looks at it."""
    losing, name = claim.backend.traits.loses_nan, claim.backend.name
    nodes: Iterable[int] = range(len(graph.table.op_types)) if losing else ()
    told = "{} makes a number of NaN on {!r}"
    if graph.settings.nan_policy not in _KEEPING:
        nodes, told = sorted(_before_isnan(graph) if losing else ()), f"{told}; IsNaN asks later"
    found = nodes_that_lose_nan(graph, nodes, losing)
    return {node: Refusal("nan", told.format(op, name)) for node, op in found}


def _before_isnan(graph: BoundGraph) -> set[int]:
    """Return the nodes whose values IsNaN looks at, also in a body, however far behind."""
    asking = (place for place, op in enumerate(graph.table.op_types) if op == "IsNaN")
    waiting = [place for place in asking if not _finds_masked_rows(Node(graph, place))]
    for place, bodies in graph.table.bodies.items():
        inner = (one.table.op_types for body in bodies.values() for one in with_bodies(body))
        waiting += [place] if any("IsNaN" in names for names in inner) else []
    found: set[int] = set()
    while waiting:
        makers = set(graph.adjacency.predecessors(waiting.pop())) - found
        found |= makers
        waiting += makers
    return found


def _finds_masked_rows(node: Node) -> bool:
    """Say whether NaN comes from Softmax on a row that a mask left empty.

    That is how attention is exported from PyTorch: ``Where(IsNaN(weights), 0, weights)``. A row of
    nothing but negative infinities is NaN everywhere; a single NaN that comes in may be lost.
    """
    weights, makes, made_by = node.inputs[0], node.outputs[0], node.producer(0)
    while made_by is not None and made_by.op_type in {"Cast", "Identity"}:
        made_by = made_by.producer(0)
    if made_by is None or made_by.op_type != "Softmax" or node.graph.is_output(makes):
        return False
    readers = ((reader.op_type, *reader.inputs[::2]) for reader in node.consumers())
    return all(one == ("Where", makes, weights) for one in readers)


def nodes_that_lose_nan(
    graph: BoundGraph, nodes: Iterable[int], losing: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield the nodes that compute with fractions by one of these operators, or in their bodies."""
    table = graph.table
    for place in nodes:
        if table.op_types[place] in losing and not table.domains[place]:
            if any(graph.dtype(name) in _FLOATS for name in table.inputs[place] if name):
                yield place, table.op_types[place]
        elif place in table.bodies:
            bodies = [one for body in table.bodies[place].values() for one in with_bodies(body)]
            inner = losing.intersection(name for one in bodies for name in one.table.op_types)
            if inner:
                yield place, min(inner)
