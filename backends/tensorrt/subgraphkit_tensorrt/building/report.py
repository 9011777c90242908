"""Reports of builds: layers and products by precision, and what was rewritten."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from subgraphkit.types import DataType
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
        JSON-able: ``seconds``, ``bytes``; ``precisions``, layers by the dtype they compute (a
        product of two dequantized values is one of the quantized numbers); ``products``, the same
        for convolutions and matrix products alone; and with another precision than the model's,
        ``rewriting``: how many nodes were ``lowered`` and ``quantized``, and how many ``kept``, by
        code. Layers are those of the network, before they are fused.
    """
    layers = list(_layers(parsed, library))
    found: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "bytes": nbytes,
        "precisions": dict(Counter(dtype for _, dtype in layers)),
        "products": dict(Counter(dtype for kind, dtype in layers if kind in _MATRIX_LAYERS)),
    }
    if (rewriting := parsed.model.rewriting) is not None:
        found["rewriting"] = {
            "lowered": len(rewriting.lowered),
            "quantized": len(rewriting.quantized),
            "kept": dict(Counter(one.code for one in rewriting.kept)),
        }
    return found


def _layers(parsed: ParsedNetwork, library: Library) -> Iterator[tuple[str, str]]:
    """Yield kind and element type of layers."""
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
        yield kind, dtype.label


def _product_type(layer: Any, quantized: Mapping[str, DataType]) -> DataType | None:
    """Return the type of the numbers a product multiplies if both factors are dequantized.

    TensorRT fuses such a product and both dequantizations into one kernel on those numbers. If only
    one factor is quantized, it is dequantized first.
    """
    if layer.num_inputs < _FACTORS:
        return None
    factors = {quantized.get(layer.get_input(place).name) for place in range(_FACTORS)}
    found = factors.pop() if len(factors) == 1 else None
    return found if found in _MULTIPLIED else None
