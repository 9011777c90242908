"""The forms in which a case is run: alone, between foreign nodes, with its weights stored.

``sandwiched`` makes every value that goes into or out of the case cross a boundary between
subgraphs. ``folded`` turns inputs into initializers, which is how operators meet their weights in
real models.
"""

from collections.abc import Mapping
from typing import Any, Final

import onnx
from onnx import helper, numpy_helper

from subgraphkit.testing.foreign import CARRY, DOMAIN

__all__ = ["FORMS", "can_fold", "folded", "sandwiched", "sandwiched_feeds", "without_foreign"]

FORMS: Final = ("alone", "sandwiched", "folded")
"""Names of the forms."""

_BEFORE: Final = "before:"
_BEHIND: Final = "behind:"
_OLDEST_IR: Final = 4  # from here on an initializer need not be an input


def sandwiched(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with a foreign node before every input and behind every output.

    Inputs that have a default stay as they are, because nothing could stand before a default.

    Args:
        model: The model; not changed.

    Returns:
        A model whose inputs and outputs have other names, see ``sandwiched_feeds``.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    stored = {tensor.name for tensor in graph.initializer}
    before, behind = [], []
    typed = {value.name for value in graph.value_info}
    for value in (*graph.input, *graph.output):
        if value.name not in stored and value.name not in typed:
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
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def sandwiched_feeds(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return feeds under the names that the inputs have between foreign nodes."""
    return {_BEFORE + name: value for name, value in feeds.items()}


def _carry(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node(CARRY, [source], [target], name=target, domain=DOMAIN)


def can_fold(model: onnx.ModelProto) -> bool:
    """Say whether ``folded`` finds an input to turn into an initializer."""
    return bool(_foldable(model))


def _foldable(model: onnx.ModelProto) -> list[str]:
    """Return the inputs that can be initializers, but for the first of all.

    The first stays, or there would be nothing to compute at run time. Sequences, optionals and
    mappings stay as well: ONNX stores no such initializers.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in stored]
    return [value.name for value in fed[1:] if value.type.HasField("tensor_type")]


def folded(
    model: onnx.ModelProto, feeds: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Turn the inputs behind the first into initializers with the values that would be fed.

    Args:
        model: The model; not changed.
        feeds: Values by input name.

    Returns:
        The model and what remains to be fed.
    """
    names = _foldable(model)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    inputs = [value for value in made.graph.input if value.name not in names]
    made.graph.ClearField("input")
    made.graph.input.extend(inputs)
    made.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names)
    made.ir_version = max(made.ir_version, _OLDEST_IR)
    return made, {name: value for name, value in feeds.items() if name not in names}


def without_foreign(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with ``Identity`` for every foreign node, as onnx itself can run it."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        if node.domain == DOMAIN:
            node.op_type, node.domain = "Identity", ""
    return made
