"""Regions that may be exchanged, and the choice of a backend for each, from what they took.

A network is cut at narrow places, and equal pieces are known as equal.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.binding import BoundModel
from subgraphkit.comparing.intervals import Interval, interval
from subgraphkit.ir import Node, make_subgraph
from subgraphkit.ir.structure import NoKeyError, structure_digest
from subgraphkit.partitioning import Partitioning
from subgraphkit.partitioning.placements import first_output
from subgraphkit.partitioning.reports.flops import estimate_flops
from subgraphkit.types import TensorType

_MOST_VALUES: Final = 4
_LEAST_REGIONS: Final = 4
_WINDOW: Final = 3
"""How many nodes before and after a cut no place may be narrower."""

_OF_AN_ELEMENT: Final = 10
"""What to write an element weighs, beside the operations that compute it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes that follow each other, with few values entering and leaving.

    Attributes:
        nodes: Indices into the model's node list, in order of running.
        kind: The same for regions that are equal node by node, whatever their names and weights.
    """

    nodes: tuple[int, ...]
    weight: float
    kind: str


def node_weights(bound: BoundModel) -> dict[int, float]:
    """Return roughly what each node costs, in order of running; ``Constant`` nodes are left out."""
    return {
        node: 1.0
        + estimate_flops(Node(bound, node))
        + _OF_AN_ELEMENT * sum(_elements(bound, name) for name in bound.table.outputs[node])
        for node in bound.order
        if not bound.is_constant_node(node)
    }


def _elements(bound: BoundModel, name: str) -> int:
    type_ = bound.types.get(name)
    return (type_.element_count or 1) if isinstance(type_, TensorType) else 1


def cut_regions(bound: BoundModel, weights: Mapping[int, float], most: int) -> list[Piece]:
    """Cut a network where few values are alive and no place nearby is narrower.

    Values are allowed one more at a time, until there are some cuts to choose from. Inputs of the
    model and constants cost nothing to hand over and do not count.
    """
    order = list(weights)
    if not order:
        return []
    alive = _alive(bound, order)
    cuts: list[int] = []
    for values in range(1, _MOST_VALUES + 1):
        narrow = [at for at in range(len(order) - 1) if _is_narrow(alive, at, values)]
        cuts = _spread_out(narrow, [weights[node] for node in order], most)
        if len(cuts) + 1 >= _LEAST_REGIONS:
            break
    ends = [*cuts, len(order) - 1]
    pieces = [order[a + 1 : b + 1] for a, b in zip([-1, *cuts], ends, strict=True)]
    return [
        Piece(tuple(one), sum(map(weights.__getitem__, one)), _kind(bound, one, at))
        for at, one in enumerate(pieces)
    ]


def _alive(bound: BoundModel, order: Sequence[int]) -> list[tuple[int, int]]:
    """Return, behind each node, how many values are read later on, and how many elements."""
    last = {name: at for at, node in enumerate(order) for name in bound.read_by(node)}
    found, count, elements = [], 0, 0
    gone: Counter[int] = Counter()
    gone_elements: Counter[int] = Counter()
    for at, node in enumerate(order):
        for name in bound.table.outputs[node]:
            if name and last.get(name, at) > at and name not in bound.constants:
                size = _elements(bound, name)
                count, elements = count + 1, elements + size
                gone[last[name]] += 1
                gone_elements[last[name]] += size
        count, elements = count - gone[at], elements - gone_elements[at]
        found.append((count, elements))
    return found


def _is_narrow(alive: Sequence[tuple[int, int]], at: int, values: int) -> bool:
    around = alive[max(0, at - _WINDOW) : min(at + _WINDOW + 1, len(alive) - 1)]
    return alive[at][0] <= values and alive[at][1] <= min(elements for _, elements in around)


def _spread_out(narrow: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """Choose cuts, so that every region but the last has its part of the weight."""
    enough, cuts, allowed, weight = sum(weights) / most, [], frozenset(narrow), 0.0
    for at, one in enumerate(weights):
        weight += one
        if at in allowed and weight >= enough:
            cuts.append(at)
            weight = 0.0
    return cuts


def _kind(bound: BoundModel, nodes: Sequence[int], at: int) -> str:
    try:
        return structure_digest(make_subgraph(bound, nodes, "region"))
    except NoKeyError:
        return f"region {at}"


def quotient_graph(bound: BoundModel, regions: Sequence[Piece]) -> Any:
    """Return a ``networkx.DiGraph`` of the regions by place, an edge where a value is passed on."""
    import networkx as nx  # noqa: PLC0415 (only those who measure pay for it)

    homes = {node: at for at, region in enumerate(regions) for node in region.nodes}
    quotient = nx.DiGraph()
    quotient.add_nodes_from(range(len(regions)))
    for node, at in homes.items():
        makers = (bound.producers.get(name) for name in bound.read_by(node))
        passed = {homes[maker] for maker in makers if maker in homes}
        quotient.add_edges_from((maker, at) for maker in passed - {at})
    return quotient


_LARGEST_TABLE: Final = 1_000_000

_Table = npt.NDArray[np.float64]


def choose(
    quotient: Any,
    seconds: Sequence[Mapping[str, float]],
    passing: Callable[[str, str], float],
) -> tuple[str, ...]:
    """Return for each region the backend, by dynamic programming over the quotient graph.

    Regions are taken out one at a time, always the one with the fewest neighbours, and what is best
    for it is tabled for every choice of those; along a chain, that is for every backend of the next
    one. The result is the best there is, but where a region has so many neighbours that the table
    would be too large: it then goes by its own time.

    ``seconds``: For each region what it takes, by backend; those that do not take it are left out.
    """
    import networkx as nx  # noqa: PLC0415 (only those who measure pay for it)

    names = [sorted(one) for one in seconds]
    tables: list[tuple[tuple[int, ...], _Table]] = [
        ((at,), np.array([seconds[at][name] for name in names[at]])) for at in range(len(names))
    ]
    left = nx.Graph(quotient)
    tables += [
        ((one, other), np.array([[passing(a, b) for b in names[other]] for a in names[one]]))
        for one, other in quotient.edges
    ]
    steps = []
    while left:
        at = min(left, key=lambda one: (left.degree(one), one))
        around = tuple(sorted(left[at]))
        size = math.prod(len(names[one]) for one in (at, *around))
        mine = [table for table in tables if at in table[0]]
        tables = [table for table in tables if at not in table[0]]
        if size > _LARGEST_TABLE:
            best = np.argmin(next(table for axes, table in mine if axes == (at,)))
            tables += [_fixed(axes, table, at, int(best)) for axes, table in mine]
            steps.append((at, (), best))
        else:
            whole = sum(_spread(axes, table, (*around, at)) for axes, table in mine)
            tables.append((around, np.min(whole, axis=-1)))
            steps.append((at, around, np.argmin(whole, axis=-1)))
            left.add_edges_from(combinations(around, 2))
        left.remove_node(at)
    chosen: dict[int, int] = {}
    for at, around, best in reversed(steps):
        chosen[at] = int(best[tuple(chosen[one] for one in around)])
    return tuple(names[at][chosen[at]] for at in range(len(names)))


def _spread(axes: tuple[int, ...], table: _Table, onto: tuple[int, ...]) -> _Table:
    """Return a table with the axes of a larger one, so that they can be added."""
    places = [onto.index(one) for one in axes]
    ordered = np.transpose(table, np.argsort(places)) if places else table
    shape = [1] * len(onto)
    for place, size in zip(sorted(places), ordered.shape, strict=True):
        shape[place] = size
    return ordered.reshape(shape)


def _fixed(
    axes: tuple[int, ...], table: _Table, at: int, best: int
) -> tuple[tuple[int, ...], _Table]:
    rest = tuple(one for one in axes if one != at)
    return rest, np.take(table, best, axis=axes.index(at))


class RegionTimes:
    """What regions took on backends; regions of one kind are measured and decided together.

    Attributes:
        handing: By backend, the seconds it takes to hand over between it and the best single one.
    """

    def __init__(self, regions: Sequence[Piece]) -> None:
        self._regions = regions
        self._samples: dict[str, dict[str, list[float]]] = {one.kind: {} for one in regions}
        self.handing: dict[str, float] = {}

    def note(self, region: Piece, backend: str, seconds: Sequence[float]) -> None:
        """Note what a region took on a backend, turn by turn."""
        self._samples[region.kind].setdefault(backend, []).extend(seconds)

    def proposals(
        self, quotient: Any, alone: Mapping[str, float], base: str
    ) -> Iterator[tuple[str, ...]]:
        """Yield choices by what regions took: as measured, only what is sure, by backend.

        ``alone``: The seconds of each backend that runs the whole model.
        """
        medians = self._costs(lambda one, _: one.median)
        sure = self._costs(lambda one, name: one.low if name == base else one.high)
        together = _together(medians, alone, quotient.number_of_edges())

        def passing(one: str, other: str) -> float:
            if one == other:
                return -together.get(one, 0.0)
            return max(self.handing.get(one, 0.0), self.handing.get(other, 0.0))

        yield choose(quotient, medians, passing)
        yield choose(quotient, sure, passing)
        for name in self.handing:
            two = [{key: row[key] for key in (base, name) if key in row} for row in medians]
            yield choose(quotient, two, passing)
            if name not in alone:  # as much as it takes, the best alone behind it
                yield (name,) * len(self._regions)

    def exchanges(self, base: str) -> Iterator[tuple[str, str]]:
        """Yield kinds of regions and other backends that took less, the most promising first."""
        counts = Counter(region.kind for region in self._regions)
        gains = []
        for kind, found in self._samples.items():
            for name, seconds in found.items():
                usual = statistics.median(found.get(base, [0.0]))
                gain = (usual - statistics.median(seconds)) * counts[kind]
                if name != base and gain > 0:
                    gains.append((gain, kind, name))
        yield from ((kind, name) for _, kind, name in sorted(gains, reverse=True))

    def rows(self, chosen: Partitioning) -> Iterator[dict[str, Any]]:
        """Yield a row for every kind that was measured, with the backends that have it now."""
        for kind, found in self._samples.items():
            places = [at for at, one in enumerate(self._regions, start=1) if one.kind == kind]
            equal = [self._regions[at - 1] for at in places]
            nodes = equal[0].nodes
            homes = {chosen.home_of(node).backend for one in equal for node in one.nodes}
            if found:
                yield {
                    "from": first_output(chosen.graph, nodes[0]),
                    "to": first_output(chosen.graph, nodes[-1]),
                    "nodes": len(nodes),
                    "places": places,
                    "seconds": {name: list(interval(taken)) for name, taken in found.items()},
                    "chosen": sorted(homes),
                }

    def _costs(self, pick: Callable[[Interval, str], float]) -> list[dict[str, float]]:
        by_kind = {
            kind: {name: pick(interval(taken), name) for name, taken in found.items()}
            for kind, found in self._samples.items()
        }
        return [by_kind[region.kind] for region in self._regions]


def _together(
    seconds: Sequence[Mapping[str, float]], alone: Mapping[str, float], edges: int
) -> dict[str, float]:
    """Return by backend what it gains where two of its regions are not cut apart."""
    gains = {}
    for name, whole in alone.items():
        if edges and all(name in row for row in seconds):
            gains[name] = max(0.0, sum(row[name] for row in seconds) - whole) / edges
    return gains


def name_choice(choice: Sequence[str]) -> str:
    """Return who has which regions, such as ``onednn 1-3, numpy 4``."""
    runs: list[list[Any]] = []
    for at, name in enumerate(choice, start=1):
        if runs and runs[-1][0] == name:
            runs[-1][2] = at
        else:
            runs.append([name, at, at])
    return ", ".join(f"{name} {a}-{b}" if a < b else f"{name} {a}" for name, a, b in runs)
