"""Reports of builds: layers and products by precision.

A report speaks of nodes by their place in the subgraph, because equal subgraphs find the same plan;
``readable`` puts in the names of one of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from subgraphkit.ir import Node, Subgraph
from subgraphkit.types import DataType
from subgraphkit_tensorrt.building.model import NameMap
from subgraphkit_tensorrt.building.network import ParsedNetwork, element_type
from subgraphkit_tensorrt.library.flavours import Library

_MATRIX_LAYERS: Final = frozenset({"CONVOLUTION", "DECONVOLUTION", "MATRIX_MULTIPLY"})
_FACTORS: Final = 2
_MULTIPLIED: Final = frozenset({DataType.INT8, DataType.FLOAT8E4M3FN})
"""Quantized numbers that there are products of; others are dequantized before one."""
_MOVING: Final = frozenset({"IDENTITY", "SHUFFLE", "SQUEEZE", "UNSQUEEZE"})
"""Layers that move elements and compute nothing."""
_PLUMBING: Final = frozenset({"CONSTANT", "SHAPE"})
"""Layers that hold or measure and compute nothing."""


def describe(
    parsed: ParsedNetwork, library: Library, *, seconds: float, nbytes: int
) -> dict[str, Any]:
    """Describe a build.

    Returns:
        JSON-able: ``seconds``, ``bytes``; ``layers``, each with ``name``, ``kind``, ``dtype`` and
        ``nodes``, places in ``subgraph.nodes``; ``precisions``, layers by the dtype they compute
        (a product of two dequantized values is one of the quantized numbers);
        ``products``, the same for convolutions and matrix products alone; and
        with another precision than the model's, ``rewriting``: how many nodes were ``lowered``
        and ``quantized``, and those ``kept``, with a code. Layers are those of the network, before
        they are fused.
    """
    layers = list(_layers(parsed, library))
    found = {
        "seconds": round(seconds, 3),
        "bytes": nbytes,
        "layers": layers,
        "precisions": dict(Counter(one["dtype"] for one in layers)),
        "products": dict(Counter(one["dtype"] for one in layers if one["kind"] in _MATRIX_LAYERS)),
    }
    rewriting = parsed.model.rewriting
    if rewriting is not None:
        place_of = parsed.model.names.place_of
        found["rewriting"] = {
            "lowered": len(rewriting.lowered),
            "quantized": len(rewriting.quantized),
            "kept": [
                {
                    "nodes": [place_of[one.node]] if one.node in place_of else [],
                    "op_type": one.op_type,
                    "code": one.code,
                }
                for one in rewriting.kept
            ],
        }
    return found


def readable(report: Mapping[str, Any], subgraph: Subgraph) -> dict[str, Any]:
    """Put labels in the place of places, in the report of this subgraph or of an equal one."""
    labels = {place: Node(subgraph.graph, node).label for place, node in enumerate(subgraph.nodes)}

    def told(one: Mapping[str, Any]) -> dict[str, Any]:
        return {**one, "nodes": [labels[place] for place in one["nodes"] if place in labels]}

    names = NameMap(labels=labels)
    found = {**report}
    found["layers"] = [
        {**told(one), "name": names.readable(one["name"])} for one in report["layers"]
    ]
    if "rewriting" in report:
        kept = [told(one) for one in report["rewriting"]["kept"]]
        found["rewriting"] = {**report["rewriting"], "kept": kept}
    return found


def _layers(parsed: ParsedNetwork, library: Library) -> Iterator[dict[str, Any]]:
    kinds = {member: name for name, member in library.trt.LayerType.__members__.items()}
    quantized: dict[str, DataType] = {}
    for place in range(parsed.network.num_layers):
        layer = parsed.network.get_layer(place)
        kind = kinds.get(layer.type, str(layer.type))
        if kind in _PLUMBING or layer.num_outputs == 0:
            continue
        if kind == "DEQUANTIZE":
            numbers = element_type(library.trt, layer.get_input(0).dtype)
            quantized[layer.get_output(0).name] = numbers
        elif quantized and kind in _MOVING and layer.get_input(0).name in quantized:
            quantized[layer.get_output(0).name] = quantized[layer.get_input(0).name]
        dtype = element_type(library.trt, layer.get_output(0).dtype)
        if quantized and kind in _MATRIX_LAYERS:
            dtype = _product_type(layer, quantized) or dtype
        yield {
            "name": layer.name,
            "kind": kind,
            "dtype": dtype.label,
            "nodes": parsed.model.names.places(layer.name),
        }


def _product_type(layer: Any, quantized: Mapping[str, DataType]) -> DataType | None:
    """Return the type of the numbers a product multiplies if both factors are dequantized.

    TensorRT fuses such a product with what is before it into a kernel on those numbers; one factor
    alone is dequantized first.
    """
    if layer.num_inputs < _FACTORS:
        return None
    factors = {quantized.get(layer.get_input(place).name) for place in range(_FACTORS)}
    found = factors.pop() if len(factors) == 1 else None
    return found if found in _MULTIPLIED else None
