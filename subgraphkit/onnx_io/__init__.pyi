# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.onnx_io.branches import (
    with_branches,
)
from subgraphkit.onnx_io.bundled import (
    write_bundled_model,
)
from subgraphkit.onnx_io.inference import (
    Inferred,
    infer,
)
from subgraphkit.onnx_io.model import (
    Model,
    load,
    load_read,
)
from subgraphkit.onnx_io.protos import (
    write_value_info,
)
from subgraphkit.onnx_io.sources import (
    ModelSource,
    read_model,
)
from subgraphkit.onnx_io.weights import (
    array_of,
)
from subgraphkit.onnx_io.writing import (
    node_key,
    outside_weights,
)

__all__ = [
    "Inferred",
    "Model",
    "ModelSource",
    "array_of",
    "infer",
    "load",
    "load_read",
    "node_key",
    "outside_weights",
    "read_model",
    "with_branches",
    "write_bundled_model",
    "write_value_info",
]
