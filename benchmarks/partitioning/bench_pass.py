"""Time the whole partition step on a large ONNX model, from file bytes to a verified partitioning.

Usage: ``python benchmarks/partitioning/bench_pass.py [--sizes N,N] [--connected-largest N]``

The model is random: two-input Add, which the first backend takes, and one node in ten Sin, which it
does not; every node reads from the 64 before it. Each size runs in a process of its own, so that
the peak memory is that of the run. Processor time is that of the one thread that works; wall-clock
time beside it shows how busy the machine was.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper

import subgraphkit as sk
from subgraphkit.backend.contract import Backend
from subgraphkit.partitioning import partition

WINDOW = 64
TAKEN = 0.9


def model_of(count: int) -> bytes:
    """Write the random model as the bytes of a file."""
    dice = random.Random(0)  # noqa: S311 (a graph, not a secret)
    model = onnx.ModelProto(ir_version=10)
    model.opset_import.add(domain="", version=18)
    graph = model.graph
    graph.name = "window"
    graph.input.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, [4]))
    for at in range(1, count + 1):
        node = graph.node.add()
        first = max(0, at - WINDOW)
        taken = dice.random() < TAKEN
        node.op_type = "Add" if taken else "Sin"
        node.input.extend(f"v{dice.randint(first, at - 1)}" for _ in range(2 if taken else 1))
        node.output.append(f"v{at}")
    graph.output.append(helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, [4]))
    return bytes(model.SerializeToString())


def backend_of(name: str, operators: list[str], connectivity: str) -> type[Backend]:
    """Make a backend that takes some operators."""

    class Property(sk.SubgraphProperty):
        def create_selector(self, graph: sk.Graph) -> sk.SubgraphSelector:
            return sk.OpSelector(graph, operators)

    class Made(Backend):
        def properties(self) -> list[sk.SubgraphProperty]:
            return [Property()]

    Property.connectivity = connectivity
    Made.name = name
    return Made


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Call and return the result, the processor time and the wall-clock time."""
    wall, processor = time.perf_counter(), time.thread_time()
    result = call()
    return result, time.thread_time() - processor, time.perf_counter() - wall


def peak_mib() -> int:
    """Return the largest memory the process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure(count: int, connectivity: str) -> dict[str, Any]:
    """Take a model of that size down the road as far as the partitioning."""
    source = model_of(count)
    model, *load = timed(lambda: sk.load(source))
    bound, *bind = timed(lambda: sk.bind(model, backend="none", fallback="none"))
    before = peak_mib()
    backends = [backend_of("adds", ["Add"], connectivity), backend_of("rest", ["Sin"], "any")]
    found, *taken = timed(lambda: partition(bound, backends))
    peak = peak_mib()
    quality, *report = timed(lambda: found.quality)
    first = quality.backends[0]
    return {
        "load and bind": (load[0] + bind[0], load[1] + bind[1]),
        "pass": taken,
        "report": report,
        "regions": first.regions,
        "bound": first.lower_bound,
        "mib_before": before,
        "mib": peak,
    }


def run(count: int, connectivity: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--one", str(count), connectivity]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def show(count: int, connectivity: str, result: dict[str, Any], pass_before: float | None) -> float:
    """Print one line; return the processor time of the pass."""
    processor, wall = result["pass"]
    ratio = f"{processor / pass_before:5.1f}" if pass_before else "    -"
    load_processor, load_wall = result["load and bind"]
    print(
        f"{connectivity:<10} {count:>9,} {processor:>7.2f} {wall:>7.2f} {ratio} "
        f"{result['regions']:>8,} {result['bound']:>8,} {load_processor:>9.2f} {load_wall:>7.2f} "
        f"{result['mib_before']:>8,} {result['mib']:>7,} {result['report'][0]:>7.2f}"
    )
    return float(processor)


def main() -> None:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--sizes", default="10000,100000,1000000", help="nodes, separated by commas"
    )
    parser.add_argument("--connected-largest", type=int, default=100_000, metavar="N")
    parser.add_argument("--one", nargs=2, metavar=("N", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(int(arguments.one[0]), arguments.one[1])))
        return
    sizes = [int(size) for size in arguments.sizes.split(",")]
    print(f"{'':<21}{'pass, s':^16}{'':<25}{'load and bind, s':>17} {'memory, MiB':>16}")
    print(
        f"{'regions':<10} {'nodes':>9} {'cpu':>7} {'wall':>7} ratio {'regions':>8} {'bound':>8} "
        f"{'cpu':>9} {'wall':>7} {'before':>8} {'peak':>7} {'report':>7}"
    )
    for connectivity in ("any", "connected"):
        before = None
        for count in sizes:
            if connectivity == "any" or count <= arguments.connected_largest:
                before = show(count, connectivity, run(count, connectivity), before)
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f}; a ratio is to the size above")


if __name__ == "__main__":
    main()
