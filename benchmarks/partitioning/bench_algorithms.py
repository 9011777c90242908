"""Time the partition algorithms on families of growing graphs, beside torch.fx where it is there.

Usage: ``python benchmarks/partitioning/bench_algorithms.py [--largest N] [--connected-largest N]``

Every figure is the processor time of one run in a process of its own, so that the peak memory is
that of the run. Ratios are between sizes ten times apart; a linear algorithm has a ratio of ten.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from families import far_edges, ladder, nets_of, random_window, unet

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.algorithms.quotient import contract
from subgraphkit.partitioning.outcome.verification import find_violation

FAMILIES: dict[str, Callable[[int], tuple[Adjacency, bytearray]]] = {
    "random 90 %": random_window,
    "random 50 %": lambda count: random_window(count, claimed=0.5),
    "unet": lambda count: unet(count // 3),
    "ladder": lambda count: ladder(count // 3),
    "far edges": lambda count: far_edges(count // 2),
}
PEER_SIZES = (300, 1_000, 3_000)


def measure(mode: str, family: str, count: int) -> dict[str, object]:
    """Run one algorithm on one graph and check the result."""
    adjacency, eligible = FAMILIES[family](count)
    nets = nets_of(adjacency) if mode == "any, bytes" else None
    start = time.process_time()
    bound, maximal = 0, True
    if mode == "connected":
        result = connected_regions(adjacency, eligible)
        regions, bound, maximal = result.regions, result.lower_bound, result.maximal
    elif mode == "torch.fx":
        regions = torch_regions(adjacency, eligible)
    else:
        regions = level_regions(adjacency, eligible, lambda: nets)
    seconds = time.process_time() - start
    contraction = contract(adjacency, regions)
    promised = [mode == "connected"] * len(contraction.members)
    violation = find_violation(adjacency, contraction.unit_of, len(promised), promised)
    return {
        "seconds": seconds,
        "regions": len(regions),
        "bound": bound or level_bound(adjacency, eligible),
        "maximal": maximal,
        "valid": violation is None,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def torch_regions(adjacency: Adjacency, eligible: bytearray) -> list[list[int]]:
    """Partition with torch.fx's CapabilityBasedPartitioner."""
    import torch  # noqa: PLC0415 (optional)
    from torch.fx.passes.infra.partitioner import (  # noqa: PLC0415 (optional)
        CapabilityBasedPartitioner,
    )
    from torch.fx.passes.operator_support import create_op_support  # noqa: PLC0415 (optional)

    graph = torch.fx.Graph()
    source = graph.placeholder("x")
    nodes: list[torch.fx.Node] = []
    for unit in range(adjacency.count):
        inputs = [nodes[pred] for pred in adjacency.predecessors(unit)] or [source]
        if eligible[unit]:
            nodes.append(graph.call_function(torch.add, (inputs[0], inputs[-1])))
        else:
            nodes.append(graph.call_function(torch.sin, (inputs[0],)))
    graph.output(tuple(nodes))
    place = {node: unit for unit, node in enumerate(nodes)}
    support = create_op_support(lambda _, node: node in place and bool(eligible[place[node]]))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    found = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    return [
        sorted(place[node] for node in partition.nodes) for partition in found.propose_partitions()
    ]


def in_own_process(mode: str, family: str, count: int) -> dict[str, object]:
    """Run ``measure`` in a fresh interpreter."""
    command = [sys.executable, __file__, "--one", mode, family, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def report(mode: str, family: str, sizes: list[int]) -> None:
    """Print one line per size."""
    previous = None
    for count in sizes:
        found = in_own_process(mode, family, count)
        seconds = float(str(found["seconds"]))
        ratio = f"{seconds / previous:6.1f}" if previous else "      "
        previous = seconds
        remark = "" if found["valid"] else "  INVALID"
        remark += "" if found["maximal"] else "  budget spent"
        print(
            f"{mode:12} {family:12} {count:>9,} {seconds:9.3f} {ratio} {found['regions']:>8} "
            f"{found['bound']:>8} {found['mib']:>6}{remark}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--connected-largest", type=int, default=100_000)
    parser.add_argument("--one", nargs=3, metavar=("MODE", "FAMILY", "NODES"))
    options = parser.parse_args()
    if options.one:
        mode, family, count = options.one
        print(json.dumps(measure(mode, family, int(count))))
        return
    print("mode         family           nodes   seconds  ratio  regions    bound    MiB")
    sizes = [10**power for power in range(3, 8)]
    for mode in ("any", "any, bytes"):
        for family in ("random 90 %", "unet"):
            report(mode, family, [size for size in sizes if size <= options.largest])
    for family in FAMILIES:
        report("connected", family, [s for s in sizes if s <= options.connected_largest])
    if importlib.util.find_spec("torch") is None:
        print("torch.fx     skipped: torch is not installed")
    else:
        report("torch.fx", "random 90 %", list(PEER_SIZES))


if __name__ == "__main__":
    main()
