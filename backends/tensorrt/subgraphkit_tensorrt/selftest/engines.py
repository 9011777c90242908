"""Checks of engines: found again, recorded, in memory that is short, and with new weights."""

from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from onnx import numpy_helper

from subgraphkit.backend import ModelOpener
from subgraphkit_tensorrt.selftest import models
from subgraphkit_tensorrt.selftest.computing import (
    RANGES,
    NotAvailable,
    agreement,
    cuda_library,
    draw,
    gpus,
    open_model,
    require,
    same,
    tensorrt,
)

_OPENINGS: Final = 50
_LEFT: Final = 8 << 20
"""What the driver itself may keep of memory."""
_SCRATCH: Final = 1 << 20


def cuda_graphs(bench: ModelOpener) -> str:
    """Runs that are recorded and launched."""
    if tensorrt().capabilities.cuda_graph_strategy:
        raise NotAvailable("TensorRT for RTX records by itself, and tells nobody")
    model = models.model(models.PERCEPTRON)
    with open_model(bench, model, cuda_graphs="auto", **RANGES) as found:
        for n in (2, 4, 2, 4, 2, 4):
            same(bench, model, found, {"x": draw(n, 16)})
        (engine,) = found.operators()[0]["engines"]
    launches, failed = engine["graph_launches"], engine["failed_captures"]
    require(launches > 1, f"{launches} runs were launched as graphs, {failed} captures failed")
    return f"{launches} of 6 runs were launched as graphs and give the same"


def scratch_memory(bench: ModelOpener) -> str:
    """A network that needs scratch memory, with shapes that need much, little and much of it."""
    model = models.model(models.WIDE)
    with open_model(bench, model, dims={"n": (1, 16, 64)}) as found:
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
        with open_model(bench, model, **RANGES) as found:
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
    with open_model(bench, model, refittable=True, **RANGES) as found:
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
        with open_model(bench, model, **given, **RANGES) as found:
            same(bench, model, found, {"x": draw(4, 256)})
            memory = found.operators()[0]["engines"][0]["memory"]
        whole, used = memory["streamable_weight_bytes"], memory["weight_budget_bytes"]
        require(used < whole, f"{used:,} of {whole:,} bytes that can be streamed are on the device")
        told.append(f"{used:,}")
    return f"with {' and '.join(told)} of {whole:,} bytes of weights on the device it is the same"


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
    return agreement(models.PERCEPTRON, (4, 16), device=1, **RANGES)(bench)
