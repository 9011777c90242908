"""Regions that may be exchanged, and the choice of a backend for each, from what they took.

A network is cut at narrow places, and equal pieces are known as equal.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.binding import BoundModel
from subgraphkit.ir import Node, make_subgraph
from subgraphkit.ir.costs import elements, weight_of
from subgraphkit.ir.structure import NoKeyError, structure_digest

_MOST_VALUES: Final = 4
_LEAST_REGIONS: Final = 4
_WINDOW: Final = 3
"""How many nodes before and after a cut no place may be narrower."""


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
    own = (node for node in bound.order if not bound.is_constant_node(node))
    return {node: weight_of(Node(bound, node)) for node in own}


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
    found, count, room = [], 0, 0
    gone: Counter[int] = Counter()
    gone_elements: Counter[int] = Counter()
    for at, node in enumerate(order):
        for name in bound.table.outputs[node]:
            if name and last.get(name, at) > at and name not in bound.constants:
                size = elements(bound.shape(name))
                count, room = count + 1, room + size
                gone[last[name]] += 1
                gone_elements[last[name]] += size
        count, room = count - gone[at], room - gone_elements[at]
        found.append((count, room))
    return found


def _is_narrow(alive: Sequence[tuple[int, int]], at: int, values: int) -> bool:
    around = alive[max(0, at - _WINDOW) : min(at + _WINDOW + 1, len(alive) - 1)]
    return alive[at][0] <= values and alive[at][1] <= min(room for _, room in around)


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


_MOST_SWITCHES: Final = 2


def few_switches(
    seconds: Sequence[Mapping[str, float]],
    passing: Mapping[str, float],
    together: Mapping[str, float] = MappingProxyType({}),
) -> list[tuple[str, ...]]:
    """Return who may run each region, the quickest by prediction first, with few switches.

    Regions follow each other, so a switch is where the next one has another backend. Few long
    regions are all that can pay: each cut parts what a library would fuse.

    ``seconds``: For each region what it takes, by backend; those that do not take it are left out.
    ``passing``: By backend, the seconds it costs to hand over to or from it.
    ``together``: By backend, the seconds it gains where two of its regions are not cut apart.
    """
    count, names = len(seconds), sorted({name for row in seconds for name in row})
    spans = {
        (name, a, b): sum(row.get(name, math.inf) for row in seconds[a:b])
        - together.get(name, 0.0) * (b - a - 1)
        for name in names
        for a, b in combinations(range(count + 1), 2)
    }
    found: list[tuple[float, tuple[str, ...]]] = []
    for switches in range(min(_MOST_SWITCHES, count - 1) + 1):
        orders = [
            one
            for one in product(names, repeat=switches + 1)
            if all(a != b for a, b in pairwise(one))
        ]
        for cuts in combinations(range(1, count), switches):
            for order in orders:
                own = [
                    (one, a, b)
                    for one, (a, b) in zip(order, pairwise((0, *cuts, count)), strict=True)
                ]
                taken = sum(map(spans.__getitem__, own))
                taken += sum(max(map(passing.__getitem__, two)) for two in pairwise(order))
                if taken < math.inf:
                    found.append((taken, tuple(one for one, a, b in own for _ in range(a, b))))
    return [assignment for _, assignment in sorted(found)]


def name_choice(choice: Sequence[str]) -> str:
    """Return who has which regions, such as ``onednn 1-3, numpy 4``."""
    runs: list[list[Any]] = []
    for at, name in enumerate(choice, start=1):
        if runs and runs[-1][0] == name:
            runs[-1][2] = at
        else:
            runs.append([name, at, at])
    return ", ".join(f"{name} {a}-{b}" if a < b else f"{name} {a}" for name, a, b in runs)
