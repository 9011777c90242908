"""From a draft to compiled partitions: oneDNN's own partitioning inside one region.

Constants go in as they are and are marked constant. At the first run the library reorders them to
the blocked layouts its kernels want. It keeps those for as long as the compiled partition lives.
(Only its outputs may have layout ``any``, not its inputs.)

The library also chooses the layout of a value between convolutions, pools and what it fuses with
them (``_FREE_OF_LAYOUT``). All other values are strided, as are those at the region's edge.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Final

import numpy.typing as npt

from subgraphkit.backend import Unsupported
from subgraphkit.ir import Node
from subgraphkit_onednn import handles, symbols
from subgraphkit_onednn.kernels import FusedKernels
from subgraphkit_onednn.library import DnnlError
from subgraphkit_onednn.lowering import DraftOperation, DraftTensor, GraphDraft

_FREE_OF_LAYOUT: Final = frozenset(
    {"add", "avg_pool", "batch_norm_inference", "clamp", "concat", "conv_transpose"}
    | {"convolution", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "max_pool"}
    | {"multiply", "relu", "sigmoid", "subtract", "tanh"}
)
"""Operations between which the library may choose the layout of a value."""


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """One compiled partition.

    Attributes:
        inputs: Numbers of the tensors it reads, in calling order.
        outputs: Numbers of the tensors it makes, in calling order.
    """

    partition: handles.CompiledPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operations: tuple[str, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompiledRegion:
    """All of a region, ready to run.

    Attributes:
        steps: The partitions, in an order in which they can run.
        layouts: The tensors that cross between steps or the region's edge, by number, with the
            layouts they were compiled for.
        roots: For each of them the number of the tensor that has its memory.
        constants: Data of those that are constant, by number; dense.
    """

    steps: tuple[CompiledStep, ...]
    layouts: Mapping[int, symbols.LogicalTensor]
    roots: Mapping[int, int]
    constants: Mapping[int, npt.NDArray[Any]]


class _Compiler:
    """Compiles a draft on an engine."""

    def __init__(
        self, engine: handles.DnnlEngine, draft: GraphDraft, outputs: Sequence[DraftTensor]
    ) -> None:
        self.engine = engine
        self.library = engine.library
        self.draft = draft
        made = {t.number for operation in draft.operations for t in operation.outputs}
        self.tensors = {
            tensor.number: tensor
            for operation in draft.operations
            for tensor in (*operation.inputs, *operation.outputs)
        }
        # What is handed out, or looked at in another shape, must be strided and may not be hidden.
        views = {t.root for t in self.tensors.values() if t.base is not None}
        self.visible = made & (views | {tensor.root for tensor in outputs})
        # Layer normalization, reorders and the like misread some layouts that others choose.
        strict = {
            tensor.number
            for operation in draft.operations
            if operation.kind not in _FREE_OF_LAYOUT
            for tensor in (*operation.inputs, *operation.outputs)
        }
        free = made - self.visible - strict
        self.shown = self.visible | _not_to_fuse(draft)
        self.kernels = FusedKernels(engine, free)
        self.logical = {
            number: self._logical(tensor, inner=number in free)
            for number, tensor in self.tensors.items()
        }

    def ordered_partitions(self) -> list[handles.Partition]:
        """Return partitions of the draft, in order to run; Unsupported if some cannot be taken."""
        count = len(self.draft.operations)
        if not count:
            return []
        found, refused = [], []
        for partition in self._with_kernels():
            numbers = [number for number in partition.operations if number < count]
            if numbers and partition.is_supported:
                found.append(partition)
            elif numbers:
                refused.append(numbers)
        if refused:
            numbers = [number for group in refused for number in group]
            raise self._refusal_of(numbers, "oneDNN has no kernel for it")
        return self._in_order(found)

    def compile(
        self, partition: handles.Partition, layouts: dict[int, symbols.LogicalTensor]
    ) -> CompiledStep:
        """Compile one partition; Unsupported if the library cannot."""
        numbers = partition.operations
        inputs, outputs = partition.ports("input"), partition.ports("output")
        for number in inputs:
            layouts.setdefault(number, self.logical[number])
        try:
            given = [layouts[number] for number in inputs]
            made = [self.logical[number] for number in outputs]
            compiled = handles.CompiledPartition(partition, self.engine, given, made)
            layouts.update({number: compiled.layout(number) for number in outputs})
        except DnnlError as error:
            raise self._refusal_of(numbers, str(error)) from error
        operations = [self.draft.operations[number] for number in numbers]
        kinds, nodes = tuple(one.kind for one in operations), {one.node for one in operations}
        return CompiledStep(compiled, tuple(inputs), tuple(outputs), kinds, tuple(sorted(nodes)))

    def _with_kernels(self) -> list[handles.Partition]:
        """Let the library partition until it has kernels for all that it fuses."""
        count = len(self.draft.operations)
        while True:
            found = self._partitions()
            shown = len(self.shown)
            for partition in found:
                numbers = sorted(number for number in partition.operations if number < count)
                operations = [self.draft.operations[number] for number in numbers]
                self.shown.update(self.kernels.cuts(operations))
            if len(self.shown) == shown:
                return found

    def _partitions(self) -> list[handles.Partition]:
        graph = handles.DnnlGraph(self.library)
        for number, operation in enumerate(self.draft.operations):
            try:
                self._add(graph, number, operation)
            except DnnlError as error:
                raise self._refusal_of([number], str(error)) from error
        # Fusion hides a value that the region itself reads. An ``end`` that reads it too keeps it
        # visible.
        read = {t.number for operation in self.draft.operations for t in operation.inputs}
        first = len(self.draft.operations)
        for place, number in enumerate(sorted(self.shown & read)):
            end = DraftOperation("end", (self.tensors[number],), (), {}, -1)
            self._add(graph, first + place, end)
        return graph.partitions()

    def _add(self, graph: handles.DnnlGraph, number: int, drafted: DraftOperation) -> None:
        operation = handles.Operation(self.library, number, drafted.kind)
        operation.connect(
            [self.logical[tensor.number] for tensor in drafted.inputs],
            [self.logical[tensor.number] for tensor in drafted.outputs],
        )
        for name, value in drafted.attributes.items():
            operation.set(name, value)
        graph.add(operation)

    def _in_order(self, partitions: Sequence[handles.Partition]) -> list[handles.Partition]:
        """Sort by what reads what; partitions as the library lists them are in no order."""
        maker = {number: at for at, p in enumerate(partitions) for number in p.ports("output")}
        needed: dict[int, set[int]] = {}
        for place, partition in enumerate(partitions):
            roots = [self.tensors[number].root for number in partition.ports("input")]
            needed[place] = {maker[root] for root in roots if root in maker}
        return [partitions[place] for place in TopologicalSorter(needed).static_order()]

    def _logical(self, tensor: DraftTensor, *, inner: bool) -> symbols.LogicalTensor:
        how = tensor.strides or (symbols.LAYOUT_ANY if inner else symbols.LAYOUT_STRIDED)
        kind = symbols.PROPERTY_VARIABLE if tensor.source is None else symbols.PROPERTY_CONSTANT
        facts = tensor.number, symbols.DATA_TYPES[tensor.dtype], tensor.dims
        return handles.logical_tensor(self.library, *facts, how, kind)

    def _refusal_of(self, numbers: Sequence[int], problem: str) -> Unsupported:
        count = len(self.draft.operations)
        operations = [self.draft.operations[number] for number in numbers if number < count]
        nodes = sorted({operation.node for operation in operations})
        labels = ", ".join(Node(self.draft.graph, node).label for node in nodes)
        return Unsupported(f"{labels}: {problem}", nodes=nodes)


def _not_to_fuse(draft: GraphDraft) -> set[int]:
    """Return the values over which oneDNN 3.2 fuses what it then computes wrongly.

    An elementwise operation of two tensors, fused into a pool, reads the second in the wrong
    layout. Fused into a softmax, it reads beyond the end of a second tensor that is broadcast along
    the last axis. A depthwise convolution, fused into the convolution before it, ends the process
    where there is no kernel.
    A normalisation, fused into a convolution that something else reads, is compiled for ever.
    """
    reads = Counter(tensor.number for op in draft.operations for tensor in op.inputs)
    makers = {op.outputs[0].number: op.kind for op in draft.operations}
    alone = {"avg_pool", "log_softmax", "max_pool", "softmax"}
    return {number for number, kind in makers.items() if kind in alone} | {
        number
        for op in draft.operations
        if makers.get(number := op.inputs[0].number) == "convolution"
        and (op.attributes.get("groups", 1) > 1 or (op.kind[:6] == "batch_" and reads[number] > 1))
    }


def compile_region(
    engine: handles.DnnlEngine,
    draft: GraphDraft,
    outputs: Sequence[DraftTensor],
    data_of: Callable[[str], npt.NDArray[Any]],
) -> CompiledRegion:
    """Compile a region; Unsupported if the library cannot take a node."""
    compiler = _Compiler(engine, draft, outputs)
    layouts: dict[int, symbols.LogicalTensor] = {}
    steps = [compiler.compile(one, layouts) for one in compiler.ordered_partitions()]
    constants = {
        number: tensor.source.make(*map(data_of, tensor.source.names))
        for number, tensor in compiler.tensors.items()
        if tensor.source is not None
    }
    roots = {number: compiler.tensors[number].root for number in layouts}
    return CompiledRegion(tuple(steps), layouts, roots, constants)
