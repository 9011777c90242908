"""Models, a clock and operators whose seconds are made up."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import subgraphkit as sk
from subgraphkit.binding import BoundModel
from subgraphkit.placing import Tuning
from tests.models import parsed


def chain(operators: Sequence[str]) -> onnx.ModelProto:
    """Return a model that applies one operator after the other."""
    nodes = (f"v{at + 1} = {name}(v{at})" for at, name in enumerate(operators))
    return parsed(f"g (float[2, 3] v0) => (float[2, 3] v{len(operators)}) {{{' '.join(nodes)}}}")


CHAIN = chain(["Sigmoid"] * 4 + ["Tanh"] * 4)
Register = Callable[..., None]
REAL = ["iree", "onednn", "onnxruntime", "openvino", "tensorrt", "tvm"]
COMPUTED: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
}


class Clock:
    """Time that passes only where a backend or a pause says so."""

    def __init__(self) -> None:
        self.now, self.runs, self.noise = 0.0, 0, 0.0
        self._rng = random.Random(0)

    def perf_counter(self) -> float:
        return self.now

    monotonic = process_time = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def spend(self, seconds: float) -> None:
        self.runs += 1
        self.now += seconds * self._rng.uniform(1 - self.noise, 1 + self.noise)


class Operator(sk.SubgraphOperator):
    """Computes a chain, off by so much, and spends time on it."""

    def __init__(
        self, subgraph: sk.Subgraph, spend: Callable[[Sequence[str]], None], off: float
    ) -> None:
        self.names = [node.op_type for node in subgraph.members]
        self.spend, self.off = spend, off

    def run(self, inputs: Any, outputs: Any = None) -> Any:
        (value,) = inputs
        for name in self.names:
            value = COMPUTED[name](value)
        self.spend(self.names)
        return [(value + self.off).astype(np.float32)]


def summed(sigmoid: float, tanh: float) -> Callable[[Sequence[str]], float]:
    """Return what operators take one after the other, in milliseconds."""
    by_name = {"Sigmoid": sigmoid / 1e3, "Tanh": tanh / 1e3}
    return lambda operators: sum(by_name[name] for name in operators)


def bind(folder: Path, model: onnx.ModelProto = CHAIN, **settings: Any) -> BoundModel:
    """Bind for ``auto``, which knows the made-up backends and NumPy alone."""
    given = {"backend": "auto", "cache_dir": folder, "threads": 1, "block": REAL, **settings}
    return sk.bind(sk.load(model), **given)


def homes(found: Tuning) -> dict[str, int]:
    return {name: len(nodes) for name, nodes in found.placement.nodes.items()}
