"""Checks of engines: several of them, their threads and memory, and plans in other forms."""

import time
from concurrent.futures import ThreadPoolExecutor
from signal import SIGINT, default_int_handler, raise_signal, signal
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, Final

import numpy as np
from onnx import numpy_helper

from subgraphkit.backend import ModelOpener
from subgraphkit_tensorrt.selftest import models
from subgraphkit_tensorrt.selftest.computing import (
    NotAsExpected,
    NotAvailable,
    agreed,
    cuda_library,
    draw,
    gpus,
    opened,
    require,
    same,
    tensorrt,
)

_THREADS: Final = 4
_OPENINGS: Final = 50
_LEFT: Final = 8 << 20
"""What the driver itself may keep of memory."""
_SCRATCH: Final = 1 << 20
_RUNS: Final = 250
_TIMED: Final = 300
_PRESSED_AFTER: Final = 0.2
_NOTICED_WITHIN: Final = 10.0
_RANGES: Final[dict[str, Any]] = {"dims": {"n": (1, 4, 8)}}
_DETAILED: Final[dict[str, Any]] = {"builder": {"profiling_verbosity": "DETAILED"}}


def control_flow(bench: ModelOpener) -> str:
    """A branch that depends on data."""
    ones = np.ones((4, 3), np.float32)
    agreed(bench, models.model(models.CONTROLLED), ones, -ones[:2], draw(8, 3), **_RANGES)
    return "both branches give the same"


def several_ranges(bench: ModelOpener) -> str:
    """One engine for several ranges of shapes, and the tightest of them used."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, dims={"n": [1, (2, 4, 8), (1, 16, 64)]}) as found:
        for n in (1, 8, 64):
            same(bench, model, found, {"x": draw(n, 16)})
        (operator,) = found.operators()
    counts = [(len(one["ranges"]), one["contexts"]) for one in operator["engines"]]
    require(counts == [(3, 3)], f"ranges and contexts of engines are {counts}, expected [(3, 3)]")
    return "batches of 1, 8 and 64 ran on one engine, each in the range made for it"


def compatible_plans(bench: ModelOpener) -> str:
    """Plans for other GPUs of a class."""
    model = models.model(models.PERCEPTRON)
    return agreed(bench, model, draw(4, 16), hardware_compatible="ampere_plus", **_RANGES)


def threads(bench: ModelOpener) -> str:
    """Runs from several threads at once."""
    model = models.model(models.PERCEPTRON)
    inputs = [draw(place % 8 + 1, 16) for place in range(_RUNS)]
    for contexts in (1, _THREADS):
        with (
            opened(bench, model, max_contexts=contexts, **_RANGES) as found,
            ThreadPoolExecutor(_THREADS) as pool,
        ):
            alone = [found.run({"x": x})[0] for x in inputs]
            together = pool.map(lambda x: found.run({"x": x})[0], inputs)
            for one, other in zip(alone, together, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return f"{_RUNS} runs from {_THREADS} threads agree with runs one by one"


def cuda_graphs(bench: ModelOpener) -> str:
    """Runs that are recorded and launched."""
    if tensorrt().capabilities.cuda_graph_strategy:
        raise NotAvailable("TensorRT for RTX records by itself, and tells nobody")
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, cuda_graphs="auto", **_RANGES) as found:
        for n in (2, 4, 2, 4, 2, 4):
            same(bench, model, found, {"x": draw(n, 16)})
        (engine,) = found.operators()[0]["engines"]
    launches, failed = engine["graph_launches"], engine["failed_captures"]
    require(launches > 1, f"{launches} runs were launched as graphs, {failed} captures failed")
    return f"{launches} of 6 runs were launched as graphs and give the same"


def scratch_memory(bench: ModelOpener) -> str:
    """A network that needs scratch memory, with shapes that need much, little and much of it."""
    model = models.model(models.WIDE)
    with opened(bench, model, dims={"n": (1, 16, 64)}) as found:
        for n in (1, 64, 1, 64):
            same(bench, model, found, {"x": draw(n, 256)})
        scratch = found.operators()[0]["memory"]["shared_scratch_bytes"]
    if scratch < _SCRATCH:
        raise NotAvailable(
            f"the engine needs {scratch:,} bytes of scratch memory, not {_SCRATCH:,}"
        )
    return f"{scratch:,} bytes of scratch memory, as large as the shapes need it"


def many_sessions(bench: ModelOpener) -> str:
    """What the driver has free is the same before and after many sessions."""
    model, cuda, free = models.model(models.PERCEPTRON), cuda_library(), []
    for place in range(_OPENINGS):
        with opened(bench, model, **_RANGES) as found:
            found.run({"x": draw(4, 16)})
        if place in {_OPENINGS // 5, _OPENINGS - 1}:
            free.append(cuda.free_memory())
    require(free[0] - free[1] <= _LEFT, f"{free[0] - free[1]:,} bytes less are free")
    return f"{free[1]:,} bytes are free after {_OPENINGS} sessions, {free[0]:,} after a few"


def refit(bench: ModelOpener) -> str:
    """New weights in an engine that was built."""
    model = models.model(models.PERCEPTRON)
    changed = models.model(models.PERCEPTRON, 0.5)
    weights = {one.name: numpy_helper.to_array(one) for one in changed.graph.initializer}
    with opened(bench, model, refittable=True, **_RANGES) as found:
        before = found.run({"x": draw(4, 16)})[0]
        outcome = set(found.update_weights(weights).values())
        same(bench, changed, found, {"x": draw(4, 16)})
        require(not np.array_equal(found.run({"x": draw(4, 16)})[0], before), "nothing changed")
    require("refitted" in outcome, f"the engine was {' and '.join(outcome)}")
    return "new weights are taken without a build"


def weight_streaming(bench: ModelOpener) -> str:
    """Weights in the memory of the host."""
    model, told, whole = models.model(models.WIDE), [], 0
    for budget in (0, 1 << 20):
        given: dict[str, Any] = {"weight_streaming": True, "weight_streaming_budget": budget}
        with opened(bench, model, **given, **_RANGES) as found:
            same(bench, model, found, {"x": draw(4, 256)})
            memory = found.operators()[0]["engines"][0]["memory"]
        whole, used = memory["streamable_weight_bytes"], memory["weight_budget_bytes"]
        if not whole:
            raise NotAvailable("the engine has no weights that could be streamed")
        require(used < whole, f"{used:,} of {whole:,} bytes are on the device")
        told.append(f"{used:,}")
    return f"with {' and '.join(told)} of {whole:,} bytes of weights on the device it is the same"


def layers(bench: ModelOpener) -> str:
    """Times of layers, and the nodes they came from."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, profiling=True, **_DETAILED, **_RANGES) as found:
        for _ in range(3):
            found.run({"x": draw(4, 16)})
        told = [
            layer
            for operator in found.operators()
            for engine in operator["engines"]
            for layer in engine["layers"]
        ]
    timed = [layer for layer in told if "ms" in layer]
    named = [layer for layer in timed if layer["nodes"]]
    require(bool(named), f"of {len(timed)} layers with a time none leads back to a node")
    return f"{len(timed)} layers have a time, {len(named)} of them lead back to nodes"


def found_again(bench: ModelOpener) -> str:
    """An engine that one process built is found by the next."""
    model = models.model(models.PERCEPTRON)
    tensorrt()
    with TemporaryDirectory() as folder:
        given = {"dims": "n=1x4x8", "min_subgraph_nodes": "1"}
        first, second = (list(bench.engines(model, folder, **given)) for _ in range(2))
    require(first == ["built"], f"the first process has engines {first}")
    require(second == ["found"], f"the second process has engines {second}")
    return "built by one process, found by the next"


def second_gpu(bench: ModelOpener) -> str:
    """The same model on the second GPU."""
    tensorrt()
    if not gpus()[1:]:
        raise NotAvailable("there is one GPU")
    model = models.model(models.PERCEPTRON)
    return agreed(bench, model, draw(4, 16), device=1, **_RANGES)


def ctrl_c(bench: ModelOpener) -> str:
    """Ctrl-C ends runs, and the next ones go well."""
    model = models.model(models.PERCEPTRON)
    feeds = {"x": draw(8, 16)}
    with opened(bench, model, **_RANGES) as found:
        timer = Timer(_PRESSED_AFTER, raise_signal, (SIGINT,))
        before = signal(SIGINT, default_int_handler)  # a shell's background has it ignored
        timer.start()
        end = time.monotonic() + _NOTICED_WITHIN
        try:
            while time.monotonic() < end:
                found.run(feeds)
        except KeyboardInterrupt:
            return f"noticed; the error of the next run is {same(bench, model, found, feeds):.1e}"
        finally:
            timer.cancel()
            signal(SIGINT, before)
    raise NotAsExpected(f"Ctrl-C was not noticed within {_NOTICED_WITHIN:.0f} s")


def many_runs(bench: ModelOpener) -> str:
    """Memory does not grow from run to run."""
    feeds = {"x": draw(8, 16)}
    with opened(bench, models.model(models.PERCEPTRON), dims={"n": (1, 16, 64)}) as found:
        sizes = []
        for place in range(2 * _RUNS):
            found.run(feeds)
            if place in {_RUNS - 1, 2 * _RUNS - 1}:
                memory = found.operators()[0]["memory"]
                sizes.append(memory["device_bytes_in_use"] + memory["device_bytes_kept"])
    require(sizes[0] == sizes[1], f"{sizes[1] - sizes[0]} bytes more after {_RUNS} runs")
    return f"{sizes[0]:,} bytes, before and after {_RUNS} runs"


def time_of_a_run(bench: ModelOpener) -> str:
    """How long a small model takes, from array to array."""
    model = models.model(models.PERCEPTRON)
    with opened(bench, model, **_RANGES) as found:
        feeds = {"x": draw(4, 16)}
        seconds = []
        for _ in range(_TIMED):
            started = time.perf_counter()
            found.run(feeds)
            seconds.append(time.perf_counter() - started)
    return f"the median of {_TIMED} runs is {1e6 * float(np.median(seconds)):.0f} us"
