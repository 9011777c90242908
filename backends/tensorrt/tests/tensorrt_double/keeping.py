"""The double's configurations of contexts, and its inspectors."""

import json
from typing import Any


class IRuntimeConfig:
    cuda_graph_strategy: Any = None

    def __init__(self) -> None:
        self.strategy: Any = None

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
