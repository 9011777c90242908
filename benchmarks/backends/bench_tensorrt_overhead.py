"""Python per run of the TensorRT backend, where every call of CUDA and of TensorRT does nothing.

Usage: ``python benchmarks/backends/bench_tensorrt_overhead.py [--repeat N] [--markdown]``

Engines are those of the tests' double, so no GPU is needed; once a run is prepared, every call of
a run becomes a no-op. *Allocates* counts the calls of a hundred runs that take or free memory,
streams or events; *blocks left* are those of Python's that one run leaves behind, in the mean.

The exit status says whether a case is above its bar.
"""

import sys
import time
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]
import numpy as np  # noqa: E402 (after the paths)
from measuring import Table, base_parser, show  # noqa: E402 (see above)

from backends.tensorrt.tests.double_road import SUM, Opened  # noqa: E402 (see above)
from backends.tensorrt.tests.tensorrt_double import Double  # noqa: E402 (see above)
from subgraphkit_tensorrt.library import cudart  # noqa: E402 (see above)
from subgraphkit_tensorrt.library.cudart import Cuda  # noqa: E402 (see above)
from subgraphkit_tensorrt.running import device  # noqa: E402 (see above)

WIDE: Final = """agraph (float[2,3] a, float[2,3] b, float[2,3] c, float[2,3] e)
    => (float[2,3] y, float[2,3] z, float[2,3] w) { y = Add(a, b) z = Add(c, e) w = Add(y, z) }"""
CASES: Final = (
    ("plain", SUM, 1, {}, 25),
    ("with a graph", SUM, 1, {"cuda_graphs": "auto"}, 15),
    ("4 inputs, 3 outputs", WIDE, 4, {}, 40),
)
"""Name, model, inputs, options, and the microseconds that it may take."""
RUNS: Final = 5000
ROUNDS: Final = 25
ALLOCATING: Final = ("Malloc", "HostAlloc", "Free", "Create", "Destroy")
CALLS: Final = ("set_input_shape", "set_tensor_address", "execute_async_v3", "set_device_memory")


class Idle:
    """A library of CUDA whose calls do nothing but be counted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> int:
            self.calls.append(name)
            return 0

        setattr(self, name, call)
        return call


def measure(model: str, count: int, options: dict[str, Any], runs: int) -> tuple[float, int, int]:
    """Return microseconds of a run, calls that allocate in a hundred, and blocks left by them."""
    double = Double()
    runtime = Cuda(double.cuda)
    for module in (device, cudart):
        module.cuda_runtime = lambda: runtime
    opened, feeds = Opened(model, double, **options), [np.ones((2, 3), np.float32)] * count
    for _ in range(4):
        opened(*feeds)
    idle = Idle()
    runtime._library = idle  # noqa: SLF001 (in the place of the double)
    for name in CALLS:
        setattr(double.trt.IExecutionContext, name, lambda *_: True)
    for _ in range(100):
        opened(*feeds)
    idle.calls.clear()
    before = sys.getallocatedblocks()
    for _ in range(100):
        opened(*feeds)
    left = round((sys.getallocatedblocks() - before) / 100)
    allocating = sum(any(word in name for word in ALLOCATING) for name in idle.calls)
    idle.calls = _Forgetful()
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(runs // ROUNDS):
            opened(*feeds)
        best = min(best, (time.process_time() - started) / (runs // ROUNDS))
    runtime._library = double.cuda  # noqa: SLF001 (see above)
    return 1e6 * best, allocating, left


class _Forgetful(list[str]):
    def append(self, name: str) -> None:
        """Count nothing while time is taken."""


def main() -> int:
    """Measure all cases."""
    arguments = base_parser(__doc__, repeat=RUNS).parse_args()
    rows, above = [], 0
    for name, model, count, options, bar in CASES:
        took, allocating, left = measure(model, count, options, arguments.repeat)
        above += took > bar or allocating > 0
        rows.append((name, f"{took:.1f} us", f"{bar} us", str(allocating), str(left)))
    heads = ("run", "Python", "bar", "allocates", "blocks left")
    title = "Python of one run on TensorRT, whose calls and CUDA's do nothing"
    show(Table(title, heads, rows), markdown=arguments.markdown)
    return above


if __name__ == "__main__":
    sys.exit(main())
