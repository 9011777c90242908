"""Different orders in which to contract the edges of a knot.

Which contractions remain possible depends on those made before, and finding the best order is as
hard as the feedback vertex problem. Each systematic order does best on some family of graphs; the
first two are mirror images that suit graphs that fan in and graphs that fan out. After them, the
best order so far is varied by moving a few edges that it left uncut to the front.
"""

from collections.abc import Iterator, Sequence

from subgraphkit.partitioning.algorithms.knots import Knot

__all__ = ["Pairs", "claimed_pairs", "systematic_orders"]

Pairs = list[tuple[int, int]]


def claimed_pairs(knot: Knot) -> Pairs:
    """List the neighbours that could share a region, producer first, ascending."""
    return [
        (node, other)
        for node, others in enumerate(knot.joins)
        for other in sorted(others)
        if other > node
    ]


def systematic_orders(knot: Knot) -> Iterator[Pairs]:
    """Yield the claimed pairs of a knot in one order after the other, most promising first.

    Args:
        knot: The knot, numbered topologically.
    """
    pairs = claimed_pairs(knot)
    latest = _latest(knot)
    backwards = pairs[::-1]
    # Sorting is stable, so that pairs of equal rank stay in the order they come in.
    yield sorted(backwards, key=lambda pair: (-latest[pair[0]], -latest[pair[1]]))
    earliest = _earliest(knot)
    forwards = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    yield sorted(forwards, key=lambda pair: (earliest[pair[1]], earliest[pair[0]]))
    yield backwards
    degree = [len(joins) for joins in knot.joins]
    yield sorted(backwards, key=lambda pair: min(degree[pair[0]], degree[pair[1]]))
    yield forwards
    yield sorted(backwards, key=lambda pair: latest[pair[1]] - latest[pair[0]])
    yield sorted(forwards, key=lambda pair: earliest[pair[1]] - earliest[pair[0]])


def _earliest(knot: Knot) -> list[int]:
    """Count, for each node, the most runs of claimed nodes on a way that ends in it."""
    return _runs(range(len(knot.members)), knot.needs, knot.claimed)


def _latest(knot: Knot) -> list[int]:
    """Count likewise for ways that start in a node, as negative numbers."""
    runs = _runs(range(len(knot.members) - 1, -1, -1), knot.feeds, knot.claimed)
    return [-run for run in runs]


def _runs(nodes: Sequence[int], rows: Sequence[set[int]], claimed: bytearray) -> list[int]:
    runs = [0] * len(rows)
    for node in nodes:
        most = here = claimed[node]
        for other in rows[node]:
            run = runs[other] + (here and not claimed[other])
            if run > most:  # noqa: PLR1730 (a call costs more here)
                most = run
        runs[node] = most
    return runs
