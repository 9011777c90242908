"""Rules of the iree backend: what IREE can compile, but for what it is known to get wrong."""

from typing import Final

import subgraphkit as sk
from subgraphkit.backend import BindContext, Connectivity
from subgraphkit.ir import BoundGraph, make_subgraph
from subgraphkit.onnx_io import node_key, outside_weights
from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_iree.backend_options import Options
from subgraphkit_iree.compiler import CompilerEndedError, the_compiler
from subgraphkit_iree.deviations import deviation
from subgraphkit_iree.devices import compiler_flags, open_device, versions
from subgraphkit_iree.feeding import FED_SIZES, is_fed
from subgraphkit_iree.operator import IreeOperator

_ANSWERS: Final = Answers("answers")

_COMPILED: Final = Answers("compiled")

_FORMAT: Final = 2
"""Changes with what is asked, so that answers of older versions are not believed."""


class IreeSelector(sk.SubgraphSelector):
    """Asks the compiler about each kind of node once."""

    stateless = True

    def __init__(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        self._graph = graph
        self._context = context
        self._folder = context.kept_folder()

    def select(self, node: sk.Node) -> bool | sk.Refusal:
        """Say yes, or why not."""
        if node.domain:
            return sk.Refusal("op_unsupported", f"{node.qualified_op_type} is not of ONNX itself")
        if node.bodies:
            return sk.Refusal("op_unsupported", f"{node.op_type} has bodies, which are not taken")
        types = self._graph.types
        for name in (*node.inputs, *node.outputs):
            refusal = _untakeable(types.get(name)) if name else None
            if refusal is not None:
                return refusal
        if reason := deviation(node):
            return sk.Refusal("deviation", reason)
        question = f"{versions()}\n{_FORMAT}\n{node_key(node, types.get)}"
        said = _ANSWERS.recall(question, lambda: self._ask(node), self._folder)
        return sk.Refusal("op_unsupported", f"IREE says: {said}") if said else True

    def _ask(self, node: sk.Node) -> str | Passing:
        alone = make_subgraph(self._graph, [node.id], "iree")
        try:
            said = the_compiler.takes(alone.to_model(weights="outside"), self._context)
        except CompilerEndedError as error:
            said = str(error)
        return Passing(said) if is_machine_fault(said) else said


def _untakeable(type_: ValueType | None) -> sk.Refusal | None:
    if not isinstance(type_, TensorType):
        return sk.Refusal("dtype", f"{type_} is no tensor of a known type")
    if not type_.dtype.is_native and type_.dtype is not DataType.BFLOAT16:
        return sk.Refusal("dtype", f"{type_.dtype} is not taken")
    if type_.shape is None:
        return sk.Refusal("rank", "a value has a rank that is not known before running")
    return None


class IreeProperty(sk.SubgraphProperty):
    """Regions of nodes that the compiler takes, each compiled as one module."""

    connectivity: Connectivity = "any"

    def prepare(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Keep what the selector needs."""
        del graph
        self._context = context

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        """Make the selector."""
        return IreeSelector(graph, self._context)

    def create_operator(
        self, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Compile a region; Unsupported, with the nodes if named, if the compiler cannot."""
        inside = frozenset(subgraph.nodes)
        reshaping = (node for node in subgraph.members if node.op_type == "Reshape")
        cut_off = [node.id for node in reshaping if is_fed(node, 1, inside)]
        if cut_off:  # what makes the shape is in another region
            raise sk.Unsupported(FED_SIZES, nodes=cut_off)
        sorting = [node.id for node in subgraph.members if node.op_type == "TopK"]
        if sorting[1:]:
            raise sk.Unsupported("IREE mixes indices of two TopK in a region", nodes=sorting[1:])
        model = subgraph.to_model(weights="outside")
        flags = compiler_flags(context.options)
        made = the_compiler.compile(model, flags, context)
        if made.problem:
            at_home = {name: node.id for node in subgraph.members for name in node.outputs}
            firsts = (model.graph.node[place].output[0] for place in made.nodes)
            nodes = [at_home[name] for name in firsts if name in at_home]
            nodes = nodes or self._at_fault(subgraph, flags, context)
            raise sk.Unsupported(f"IREE says: {made.problem}", nodes=nodes)
        device = open_device(context.options, context.threads)
        return IreeOperator(made.engine, subgraph, outside_weights(model, subgraph), device)

    def _at_fault(
        self, subgraph: sk.Subgraph, flags: list[str], context: BindContext[Options]
    ) -> list[int]:
        """Return the nodes that cannot be compiled alone either; of alike ones one is tried."""
        graph, found = subgraph.graph, []
        for node in subgraph.members:

            def compile_alone(node: sk.Node = node) -> str:
                alone = make_subgraph(graph, [node.id], "iree").to_model(weights="outside")
                return the_compiler.compile(alone, flags, context).problem

            question = f"{versions()}\n{flags}\n{node_key(node, graph.types.get)}"
            if _COMPILED.recall(question, compile_alone, context.kept_folder()):
                found.append(node.id)
        return found if len(found) < len(subgraph.members) else []
