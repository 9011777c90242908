"""What engines of the double keep: compiled kernels, words for inspectors."""

import json
from typing import Any

from backends.tensorrt.tests.tensorrt_double.building import IHostMemory

__all__ = ["EngineInspector", "IRuntimeCache", "IRuntimeConfig", "compile_kernels"]


class IRuntimeCache:
    """Holds words, each a kernel; refuses those of another device."""

    def __init__(self) -> None:
        self.words: set[str] = set()

    def serialize(self) -> IHostMemory:
        text = " ".join([self._double.device, *sorted(self.words)])
        return IHostMemory(text.encode())

    def deserialize(self, blob: Any) -> bool:
        device, *words = bytes(blob).decode("utf-8", "replace").split(" ")
        if device != self._double.device:
            return False
        self.words |= set(words)
        return True


def compile_kernels(context: Any) -> None:
    """Compile kernels for its shapes, as TensorRT for RTX does, unless they are there."""
    held = getattr(context, "_kernels", None)
    word = str(sorted(context._shapes.items())).replace(" ", "")
    if held is not None and word not in held.words:
        held.words.add(word)
        context._double.compiled += 1


class IRuntimeConfig:
    cuda_graph_strategy: Any = None

    def __init__(self) -> None:
        self.strategy: Any = None
        self._cache: Any = None

    def create_runtime_cache(self) -> Any:
        return self._trt.IRuntimeCache()

    def set_runtime_cache(self, cache: Any = None) -> bool:
        self._cache = cache
        return True

    def get_runtime_cache(self) -> Any:
        return self._cache

    def set_execution_context_allocation_strategy(self, strategy: Any = None) -> None:
        self.strategy = strategy


class EngineInspector:
    @classmethod
    def _of(cls, engine: Any) -> Any:
        inspector = cls()
        inspector._engine = engine
        return inspector

    def get_engine_information(self, format: Any) -> str:  # noqa: A002 (their name)
        del format
        layers = [
            {"Name": node.name, "Metadata": f"[ONNX Layer: {node.name}]"}
            for node in self._engine._computation.proto.graph.node
        ]
        return json.dumps({"Layers": layers})
