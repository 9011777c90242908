"""Claims of the TVM backend: the importer and the compiler are asked, one node at a time.

An answer is remembered by everything it depends on: operator, version, attributes, types and small
constants. So a network of a thousand nodes is mostly a few dozen questions, and none the next time.
"""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import onnx

from subgraphkit.backend import Answer, Refusal, SubgraphSelector
from subgraphkit.ir import BoundGraph, Node, Subgraph, make_subgraph
from subgraphkit.onnx_io import node_key
from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit.types import TensorType, ValueType
from subgraphkit_tvm import importing
from subgraphkit_tvm.building import lower
from subgraphkit_tvm.indices import index_problem
from subgraphkit_tvm.library import identity, words_of
from subgraphkit_tvm.rules import judge_by_rule

_FORMAT: Final = 1
"""Changes with what a question is, or with what is made of the answer."""

_ANSWERS: Final = Answers("answers")


class TvmSelector(SubgraphSelector):
    """Takes the nodes that TVM imports with the right types and has loops for.

    ``folder``: Where answers are kept; None for in memory alone.
    """

    stateless = True

    def __init__(self, graph: BoundGraph, folder: Path | None) -> None:
        self._graph = graph
        self._folder = folder
        self._identity = f"{_FORMAT} {version('subgraphkit-tvm')} {identity()}"

    def select(self, node: Node) -> Answer:
        # The importer looks at names of operators alone, whatever their domain.
        if node.domain or node.bodies or not importing.has_converter(node.op_type):
            what = "with bodies" if node.bodies else f"for {node.qualified_op_type}"
            return Refusal("op_unsupported", f"TVM's ONNX importer has no converter {what}")
        alone = make_subgraph(self._graph, [node.id], "tvm")
        for name in (*node.inputs, *alone.outputs):
            if not name:
                continue
            refusal = _refused_type(
                name, self._graph.types.get(name), is_constant=name in self._graph.constants
            )
            if refusal is not None:
                return refusal
        refusal = judge_by_rule(node)
        if refusal is None and (problem := index_problem(node)):
            return Refusal("attribute", f"{node.op_type}: {problem}")
        return self._answer_of(node, alone) if refusal is None else refusal

    def _answer_of(self, node: Node, alone: Subgraph) -> Answer:
        weights = importing.weight_names(alone)
        held = {alone.constants[name] for name in weights}
        key = node_key(node, self._graph.types.get, lambda constant: constant not in held)
        same = [node.inputs.index(name) for name in node.inputs]
        read = [node.outputs.index(name) for name in alone.outputs]
        question = f"{self._identity}\n{key}\n{same}{read}"
        refusal = _ANSWERS.recall(question, lambda: _ask(alone, weights), self._folder)
        return Refusal(*refusal) if refusal else True


def _refused_type(name: str, type_: ValueType | None, *, is_constant: bool) -> Refusal | None:
    """Return why a value cannot be inside a region, or None."""
    if not isinstance(type_, TensorType) or not type_.dtype.is_native:
        return Refusal("dtype", f"{name!r} is {type_}, TVM takes numbers of whole bytes and bool")
    if type_.element_count is None:
        return Refusal("dynamic_shape", f"{name!r} is {type_}, code is made for known shapes only")
    if not type_.element_count and not is_constant:
        return Refusal("shape", f"{name!r} is {type_}, tensors without elements are not taken")
    return None


def _ask(subgraph: Subgraph, weights: Sequence[str]) -> list[str] | Passing:
    """Return code and text of a refusal; nothing if TVM compiles the node."""
    if not subgraph.outputs:
        return []  # Nobody reads what the node makes, so nothing of it will be compiled.
    model = importing.write_region(subgraph, weights)
    names = _normalise(model.graph)
    renamed = tuple(names[name] for name in weights)
    types = zip(subgraph.outputs, subgraph.output_types, strict=True)
    outputs = {names[name]: type_ for name, type_ in types}
    try:
        imported = importing.import_model(model, len(subgraph.inputs), renamed, outputs)
    except importing.ImportRefusedError as error:
        return ["shape", f"TVM's ONNX importer: {error}"]
    except Exception as error:  # noqa: BLE001 (whatever it says is its reason)
        return _refusal_of("TVM's ONNX importer", error)
    try:
        lower(imported)
    except Exception as error:  # noqa: BLE001 (as above)
        return _refusal_of("TVM", error)
    return []


def _refusal_of(who: str, error: Exception) -> list[str] | Passing:
    refusal = ["op_unsupported", f"{who}: {words_of(error)}"]
    return Passing(refusal) if is_machine_fault(error) else refusal


def _normalise(graph: onnx.GraphProto) -> dict[str, str]:
    """Rename values by their order and drop other names, so that equal nodes look equal."""
    graph.name = "node"
    del graph.value_info[:]
    names: dict[str, str] = {}
    for node in graph.node:
        node.name = node.doc_string = ""
        for values in (node.input, node.output):
            values[:] = [names.setdefault(one, f"v{len(names)}") if one else "" for one in values]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.setdefault(value.name, f"v{len(names)}")
        value.doc_string = ""
    return names
