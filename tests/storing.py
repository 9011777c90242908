"""A backend for tests whose operators can be stored: the engine is a program written as JSON.

Every compilation is counted, and told to the file that ``COMPILATIONS`` names, so that several
processes can be counted together.
"""

import base64
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import Traits

KERNELS: Mapping[str, Any] = {
    "Add": np.add,
    "Mul": np.multiply,
    "MatMul": np.matmul,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Abs": np.abs,
}


class ProgramOperator(sk.SubgraphOperator):
    """Runs a program: constants, then steps that read and make numbered values."""

    traits = Traits(thread_safe=True)

    def __init__(self, program: Mapping[str, Any], constants: Sequence[Any]) -> None:
        self.program = program
        self.constants = constants

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        values = [*inputs, *self.constants]
        for kernel, places in self.program["steps"]:
            values.append(KERNELS[kernel](*(values[place] for place in places)))
        return [np.array(values[place]) for place in self.program["outputs"]]

    def serialize(self) -> bytes | None:
        stored = {
            **self.program,
            "constants": [
                {
                    "dtype": array.dtype.str,
                    "shape": array.shape,
                    "data": base64.b64encode(array.tobytes()).decode(),
                }
                for array in self.constants
            ],
        }
        return json.dumps(stored).encode()


def restored(blob: bytes) -> ProgramOperator:
    """Read what ``ProgramOperator.serialize`` wrote."""
    program = json.loads(blob)
    constants = [
        np.frombuffer(base64.b64decode(one["data"]), one["dtype"]).reshape(one["shape"])
        for one in program.pop("constants")
    ]
    return ProgramOperator(program, constants)


def compiled(
    subgraph: sk.Subgraph, kind: type[ProgramOperator] = ProgramOperator
) -> ProgramOperator:
    """Translate a subgraph into a program."""
    places = {name: i for i, name in enumerate((*subgraph.inputs, *subgraph.constants))}
    steps = []
    for node in subgraph.members:
        steps.append((node.op_type, [places[name] for name in node.inputs]))
        places[node.outputs[0]] = len(places)
    constants = [held.array().copy() for held in subgraph.constants.values()]
    outputs = [places[name] for name in subgraph.outputs]
    return kind({"steps": steps, "outputs": outputs}, constants)


class StoringProperty(sk.SubgraphProperty):
    """Takes what there are kernels for."""

    def __init__(self, backend: "Storing") -> None:
        self.backend = backend

    def create_selector(self, graph: Any) -> sk.SubgraphSelector:
        return sk.OpSelector(graph, self.backend.operators)

    def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
        type(self.backend).compilations += 1
        if "COMPILATIONS" in os.environ:
            with Path(os.environ["COMPILATIONS"]).open("a") as file:
                file.write(f"{subgraph.id}\n")
        time.sleep(float(os.environ.get("COMPILING_SECONDS", "0")))
        return compiled(subgraph, self.backend.kind)


class Storing(sk.Backend):
    """Compiles to programs and restores them; counts both."""

    name = "storing"
    operators: ClassVar[Collection[str]] = tuple(KERNELS)
    options = (
        sk.Option("level", int, default=1, cache=True),
        sk.Option("threads", int, default=1),
        sk.Option("scale", float, default=1.0, cache=True),
        sk.Option("table", "path", cache=True),
        sk.Option("keep", "list", default=(), cache=True),
        sk.Option("dims", "shapes", cache=True),
    )
    compilations: ClassVar[int] = 0
    restorations: ClassVar[int] = 0
    device: ClassVar[str] = "cpu"
    kind: ClassVar[type[ProgramOperator]] = ProgramOperator

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return [StoringProperty(self)]

    def fingerprint(self) -> str:
        return f"storing;{self.device}"

    def deserialize(
        self, blob: bytes, subgraph: sk.Subgraph, context: sk.backend.BindContext
    ) -> sk.SubgraphOperator:
        type(self).restorations += 1
        return restored(blob)


def storing(**members: Any) -> type[Storing]:
    """Return a backend with counts of its own; members replace those of ``Storing``."""
    fresh = {"compilations": 0, "restorations": 0, "__module__": __name__}
    return type("Storing", (Storing,), fresh | members)


def failing_once(call: Callable[[int], None], code: int, at: int) -> Callable[[int], None]:
    """Return a system call that fails with an error number when it is made for the n-th time."""
    calls = iter(range(99))

    def failing(descriptor: int) -> None:
        if next(calls) == at:
            raise OSError(code, os.strerror(code))
        call(descriptor)

    return failing
