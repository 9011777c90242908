"""Count connected regions beside those of MXNet 1.9.1, on graphs that it partitions and others.

Usage: ``python benchmarks/partitioning/bench_mxnet.py --mxnet-python PATH [--seeds N]``

MXNet cannot share a process with subgraphkit, because it needs NumPy 1.23. PATH, or else the
environment variable ``MXNET_PYTHON``, is the interpreter of an environment for it; without one only
the columns of subgraphkit are filled. Every graph is given to MXNet in a process of its own.

Both results are checked here, with networkx and nothing of subgraphkit: every claimed unit lies in
one region, every region hangs together, and the graph of the regions has no cycle, so that every
region is convex. The script exits with 1 if a result of subgraphkit does not pass.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
from families import Family, far_edges, ladder, random_window, unet

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.connected import connected_regions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measuring import Table, show

VARIABLE = "MXNET_PYTHON"
PEER = Path(__file__).with_name("mxnet_peer.py")
SIZES = (50, 100, 300)
CLAIMED = (0.5, 0.9)
COLUMNS = (
    "units, claimed",
    *("graphs", "valid", "crashed", "cyclic", "other"),
    *("MXNet", "ours", "bound", "fewer", "more"),
    *("ours, all", "bound, all"),
)
HOW_TO_GET = """\
MXNet is not measured: name its interpreter with --mxnet-python or MXNET_PYTHON. One is made by
  python3.11 -m venv mxnet-env && mxnet-env/bin/pip install mxnet==1.9.1 numpy==1.23.5
The NumPy is the last in which MXNet finds all it imports, and has wheels up to Python 3.11. The
Linux wheel also needs libgomp.so.1 and libquadmath.so.0 (Debian: libgomp1, libquadmath0)."""


@dataclass(frozen=True)
class Found:
    """What both found on one graph.

    Attributes:
        outcome: Of MXNet: ``"valid"``, ``"cyclic"``, ``"invalid"``, ``"unknown"`` (no regions came
            back), ``"timeout"``, or ``""`` if it was not asked.
        error: What MXNet, or the system, said of its crash, if any.
        peer_regions: Number of regions of a valid result of MXNet.
        own_outcome: Of subgraphkit: ``"valid"``, ``"cyclic"`` or ``"invalid"``.
        regions: Number of regions of subgraphkit.
        bound: Number of regions below which no partitioning into connected regions can go.
    """

    outcome: str
    error: str | None
    peer_regions: int
    own_outcome: str
    regions: int
    bound: int

    @property
    def wrong(self) -> bool:
        """Whether subgraphkit's result is invalid."""
        return self.own_outcome != "valid"


def graphs(seeds: int) -> Iterator[tuple[str, list[Family]]]:
    """Yield the graphs, by kind."""
    yield "ring of 2 and 3", [ring(2), ring(3)]
    yield "stacked diamonds", [stacked_diamonds(size) for size in (1, 2, 3, 10)]
    yield "unet", [unet(size) for size in (10, 100)]
    yield "ladder", [ladder(size) for size in (10, 100)]
    yield "far edges", [far_edges(size, seed=seed) for size in (10, 50) for seed in range(2)]
    for count in SIZES:
        for claimed in CLAIMED:
            yield (
                f"random {count}, {claimed:.0%}",
                [random_window(count, claimed=claimed, seed=seed) for seed in range(seeds)],
            )


def ring(size: int) -> Family:
    """Pairs of claimed units; past an unclaimed unit, each pair's first feeds the next one's last.

    Two pairs, six nodes: either pair may be one region, but not both.
    """
    firsts, between = range(size), range(size, 2 * size)
    rows: list[tuple[int, ...]] = [() for _ in firsts]
    rows += [(first,) for first in firsts]
    rows += [(first, between[first - 1]) for first in firsts]
    return Adjacency.from_predecessors(rows), bytearray(
        b"\x01" * size + b"\x00" * size + b"\x01" * size
    )


def stacked_diamonds(size: int) -> Family:
    """A claimed pair around two unclaimed units, the second also fed by unclaimed diamonds."""
    rows: list[tuple[int, ...]] = [()]
    for _ in range(size):
        top = len(rows) - 1
        rows += [(top,), (top,), (top + 1, top + 2)]
    last = len(rows) - 1
    rows += [(), (last + 1,), (last + 2, last), (last + 1, last + 3)]
    eligible = bytearray(len(rows))
    eligible[last + 1] = eligible[last + 4] = 1
    return Adjacency.from_predecessors(rows), eligible


def judge(adjacency: Adjacency, eligible: bytearray, regions: Sequence[Sequence[int]]) -> str:
    """Return ``"valid"``, ``"cyclic"`` or ``"invalid"``."""
    home = {unit: index for index, region in enumerate(regions) for unit in region}
    claimed = [unit for unit in range(adjacency.count) if eligible[unit]]
    if sorted(unit for region in regions for unit in region) != claimed:
        return "invalid"
    edges = [
        (pred, unit) for unit in range(adjacency.count) for pred in adjacency.predecessors(unit)
    ]
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(adjacency.count))
    # What lies in no region stands for itself, below zero.
    ends = [(home.get(pred, -1 - pred), home.get(unit, -1 - unit)) for pred, unit in edges]
    if not nx.is_directed_acyclic_graph(nx.DiGraph([(a, b) for a, b in ends if a != b])):
        return "cyclic"
    connected = all(nx.is_weakly_connected(graph.subgraph(region)) for region in regions)
    return "valid" if connected else "invalid"


def ask_mxnet(
    python: str, adjacency: Adjacency, eligible: bytearray, seconds: float
) -> tuple[str, str | None, int]:
    """Return MXNet's outcome, its error and its number of regions."""
    rows = [list(adjacency.predecessors(unit)) for unit in range(adjacency.count)]
    graph = json.dumps({"predecessors": rows, "eligible": list(eligible)})
    try:
        done = subprocess.run(
            [python, str(PEER)],
            input=graph,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout", None, 0
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return "unknown", f"exit status {done.returncode}: {last}", 0
    found = json.loads(done.stdout)
    if found["regions"] is None:
        return "unknown", found["error"], 0
    outcome = judge(adjacency, eligible, found["regions"])
    if outcome == "valid" and found["error"] is not None:
        outcome = "invalid"
    return outcome, found["error"], len(found["regions"])


def compare(python: str | None, family: Family, seconds: float) -> Found:
    """Partition one graph with both."""
    adjacency, eligible = family
    own = connected_regions(adjacency, eligible)
    outcome, error, count = "", None, 0
    if python is not None:
        outcome, error, count = ask_mxnet(python, adjacency, eligible, seconds)
    judged = judge(adjacency, eligible, own.regions)
    return Found(outcome, error, count, judged, len(own.regions), own.lower_bound)


def row_of(kind: str, found: Sequence[Found]) -> list[str]:
    """Write one line of the table."""
    valid = [each for each in found if each.outcome == "valid"]
    outcomes = Counter(each.outcome for each in found)
    others = outcomes["invalid"] + outcomes["unknown"] + outcomes["timeout"]
    peer = [
        outcomes["valid"],
        sum(each.error is not None for each in found),
        outcomes["cyclic"],
        others,
        sum(each.peer_regions for each in valid),
        sum(each.regions for each in valid),
        sum(each.bound for each in valid),
        sum(each.regions < each.peer_regions for each in valid),
        sum(each.regions > each.peer_regions for each in valid),
    ]
    everywhere = [sum(each.regions for each in found), sum(each.bound for each in found)]
    asked = ["-"] * len(peer) if outcomes[""] else [f"{count:,}" for count in peer]
    return [kind, f"{len(found):,}", *asked, *(f"{count:,}" for count in everywhere)]


def notes_of(version: str | None, found: Sequence[Found]) -> list[str]:
    """Say what MXNet said and how the columns are meant."""
    if version is None:
        return HOW_TO_GET.splitlines()
    errors = Counter(each.error for each in found if each.error is not None)
    return [
        f"MXNet {version}, graphs: a valid result; a crash; regions that wait on each other,",
        "crashed or not; any other failure. Where its result is valid: regions of MXNet and of",
        "subgraphkit, the lower bound, graphs with fewer and with more regions of subgraphkit's.",
        "Last, on all graphs: regions of subgraphkit, all checked, and their lower bound.",
        *(f"{count} times: {error}" for error, count in errors.most_common()),
    ]


def version_of(python: str) -> str:
    """Return the version of MXNet, and exit where it cannot be imported."""
    command = [python, "-c", "import mxnet; print(mxnet.__version__)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as failure:
        sys.exit(f"{python} cannot be run: {failure}\n{HOW_TO_GET}")
    if done.returncode:
        sys.exit(f"{python} cannot import mxnet:\n{done.stderr}\n{HOW_TO_GET}")
    return done.stdout.strip()


def main() -> int:
    """Print the table.

    Returns:
        1 if subgraphkit has an invalid result, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--mxnet-python", default=os.environ.get(VARIABLE), metavar="PATH")
    parser.add_argument("--seeds", type=int, default=12, help="random graphs of each kind")
    parser.add_argument("--seconds", type=float, default=60, help="that MXNet gets for one graph")
    parser.add_argument("--markdown", action="store_true", help="write a Markdown table")
    options = parser.parse_args()
    version = None if options.mxnet_python is None else version_of(options.mxnet_python)
    rows: list[list[str]] = []
    everything: list[Found] = []
    for kind, families in graphs(options.seeds):
        found = [compare(options.mxnet_python, family, options.seconds) for family in families]
        rows.append(row_of(kind, found))
        everything += found
        print(f"{kind}: {len(found)} graphs done", file=sys.stderr, flush=True)
        for number in (number for number, each in enumerate(found) if each.wrong):
            print(f"{kind}: wrong on graph {number}: {found[number]}", file=sys.stderr, flush=True)
    rows.append(row_of("all", everything))
    notes = notes_of(version, everything)
    show(Table("Connected regions", COLUMNS, rows, notes), markdown=options.markdown)
    return int(any(each.wrong for each in everything))


if __name__ == "__main__":
    sys.exit(main())
