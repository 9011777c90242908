"""ONNX files to graphs and back: the only room that knows protobuf.

``load`` is the first step of the road. The rest serves the rooms above: ``infer`` types the values
for ``bind``, and a graph's writer turns subgraphs into stand-alone models. Names are imported when
they are first used: loading needs no inference.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Inferred": "subgraphkit.onnx_io.inference",
    "Model": "subgraphkit.onnx_io.model",
    "ModelSource": "subgraphkit.onnx_io.sources",
    "array_of": "subgraphkit.onnx_io.weights",
    "infer": "subgraphkit.onnx_io.inference",
    "load": "subgraphkit.onnx_io.model",
    "load_read": "subgraphkit.onnx_io.model",
    "node_key": "subgraphkit.onnx_io.writing",
    "outside_weights": "subgraphkit.onnx_io.writing",
    "read_model": "subgraphkit.onnx_io.sources",
    "with_branches": "subgraphkit.onnx_io.branches",
    "write_bundled_model": "subgraphkit.onnx_io.bundled",
    "write_value_info": "subgraphkit.onnx_io.protos",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
