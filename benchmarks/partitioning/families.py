"""Families of graphs for the partition algorithms, as integers only.

Each function returns an adjacency numbered topologically and a mask of the units a backend claims.
"""

import random
from array import array

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.levels import Nets

__all__ = ["far_edges", "ladder", "nets_of", "random_window", "unet"]

Family = tuple[Adjacency, bytearray]


def random_window(count: int, *, claimed: float = 0.9, window: int = 64, seed: int = 0) -> Family:
    """Random nodes that read from the ``window`` nodes before them.

    A claimed node is a two-input Add, another a one-input Sin.
    """
    rng = random.Random(seed)  # noqa: S311 (reproducible graphs, no secrets)
    rows: list[tuple[int, ...]] = []
    eligible = bytearray(count)
    for node in range(count):
        eligible[node] = rng.random() < claimed
        low = max(0, node - window)
        inputs = [rng.randrange(low, node) for _ in range(1 + eligible[node])] if node else []
        rows.append(tuple(dict.fromkeys(inputs)))
    return Adjacency.from_predecessors(rows), eligible


def unet(size: int) -> Family:
    """An encoder of Exp with one unclaimed Cos each, and a decoder of Add that reads them back."""
    rows: list[tuple[int, ...]] = []
    eligible = bytearray()
    for step in range(size):
        rows += [(2 * step - 2,) if step else (), (2 * step,)]
        eligible += b"\x01\x00"
    previous = 2 * size - 2
    for step in range(size - 1, -1, -1):
        rows.append((previous, 2 * step + 1))
        eligible.append(1)
        previous = len(rows) - 1
    return Adjacency.from_predecessors(rows), eligible


def ladder(size: int) -> Family:
    """Rungs of an unclaimed Cos and a claimed Exp of the same value, added up."""
    rows: list[tuple[int, ...]] = []
    for step in range(size):
        value = (3 * step - 1,) if step else ()
        rows += [value, value, (3 * step, 3 * step + 1)]
    return Adjacency.from_predecessors(rows), bytearray(b"\x00\x01\x01" * size)


def far_edges(size: int, *, seed: int = 0) -> Family:
    """A spine of unclaimed nodes with claimed nodes hanging on it that read from far above.

    Built so that most merges are refused, and each refusal needs a walk along the spine.
    """
    rng = random.Random(seed)  # noqa: S311 (reproducible graphs, no secrets)
    rows: list[tuple[int, ...]] = [(), ()]
    eligible = bytearray(b"\x01\x00")
    spine, hanging = 1, [0]
    for _ in range(size):
        far = hanging[rng.randrange(max(1, len(hanging) // 8))]
        rows.append((spine, far))
        hanging.append(len(rows) - 1)
        rows.append((spine, len(rows) - 1))
        spine = len(rows) - 1
        eligible += b"\x01\x00"
    return Adjacency.from_predecessors(rows), eligible


def nets_of(adjacency: Adjacency, *, seed: int = 0) -> Nets:
    """Give every unit one value of a random size, read by all its successors."""
    rng = random.Random(seed)  # noqa: S311 (reproducible graphs, no secrets)
    sizes = array("q", (4 << rng.randrange(16) for _ in range(adjacency.count)))
    return Nets(array("i", range(adjacency.count)), sizes, adjacency.succ_start, adjacency.succs)
