"""Variants of a case: alone, between foreign nodes, with its weights stored; and layouts of feeds.

``sandwiched`` makes every value that goes into or out of the case cross a boundary between
subgraphs. ``folded`` turns inputs into initializers, which is how operators meet their weights in
real models. Arrays are fed in several layouts and byte orders, and read-only.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from subgraphkit.running.checking import read_only
from subgraphkit.testing.foreign import CARRY, DOMAIN

VARIANTS: Final = ("alone", "sandwiched", "folded")

_BEFORE: Final = "before:"
_BEHIND: Final = "behind:"
_OLDEST_IR: Final = 4  # from here on an initializer need not be an input


def sandwich(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with a foreign node before every input and behind every output.

    Inputs that have a default stay as they are, because nothing could stand before a default.
    """
    between = deepcopy(model)
    graph = between.graph
    stored = {tensor.name for tensor in graph.initializer}
    before, behind = [], []
    typed = {value.name for value in graph.value_info} | stored
    for value in (*graph.input, *graph.output):
        if value.name not in typed:
            graph.value_info.add().CopyFrom(value)
            typed.add(value.name)
    for value in graph.input:
        if value.name not in stored:
            before.append(_carry(_BEFORE + value.name, value.name))
            value.name = _BEFORE + value.name
    for value in graph.output:
        behind.append(_carry(value.name, _BEHIND + value.name))
        value.name = _BEHIND + value.name
    nodes = [*before, *graph.node, *behind]
    graph.ClearField("node")
    graph.node.extend(nodes)
    between.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return between


def sandwiched_feeds(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return feeds under the names that the inputs have between foreign nodes."""
    return {_BEFORE + name: value for name, value in feeds.items()}


def _carry(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node(CARRY, [source], [target], name=target, domain=DOMAIN)


def foldable(model: onnx.ModelProto) -> list[str]:
    """Return the inputs that can be initializers, but for the first of all.

    The first stays, or there would be nothing to compute at run time. Sequences, optionals and
    mappings stay as well: ONNX stores no such initializers.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in stored]
    return [value.name for value in fed[1:] if value.type.HasField("tensor_type")]


def fold_inputs(
    model: onnx.ModelProto, feeds: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Turn the inputs behind the first into initializers with the values that would be fed."""
    names, folding = foldable(model), deepcopy(model)
    inputs = [value for value in model.graph.input if value.name not in names]
    folding.graph.ClearField("input")
    folding.graph.input.extend(inputs)
    folding.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names)
    folding.ir_version = max(folding.ir_version, _OLDEST_IR)
    return folding, {name: value for name, value in feeds.items() if name not in names}


def without_foreign(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with ``Identity`` for every foreign node, as onnx itself can run it."""
    if all(node.domain != DOMAIN for node in model.graph.node):
        return model
    plain = deepcopy(model)
    for node in plain.graph.node:
        if node.domain == DOMAIN:
            node.op_type, node.domain = "Identity", ""
    return plain


_Array = npt.NDArray[Any]
_GARBAGE: Final = 77
"""The filling between elements, which fits every type."""


def _spread(array: _Array) -> _Array:
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), _GARBAGE, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def _misalign(array: _Array) -> _Array:
    room = np.zeros(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


LAYOUTS: Final[Mapping[str, Callable[[_Array], _Array]]] = {
    "read_only": lambda array: read_only(array.copy()),
    "not_contiguous": _spread,
    "backwards": lambda array: np.flip(np.ascontiguousarray(np.flip(array))),
    "columns_first": np.asfortranarray,
    "stride_zero": lambda array: np.broadcast_to(array[:1], array.shape),
    "big_endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "not_aligned": _misalign,
}
"""Functions by name that turn an array into one of that layout; ``stride_zero`` changes values,
too."""
