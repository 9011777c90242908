"""The model TensorRT is given for a subgraph: converted, in its precision, weights beside it."""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy.typing as npt
import onnx

from subgraphkit.errors import SubgraphkitWarning, UnsupportedModelError
from subgraphkit.ir import Node, Subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.rewriting import Kind, Precision, Ranges, Rewriting, rewrite
from subgraphkit.types import DataType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.lowering import lower


@dataclass(frozen=True, slots=True)
class NameMap:
    """The meaning of our own names in a network.

    Attributes:
        values: By our name of a value, that of the model.
        labels: By place in ``subgraph.nodes``, how reports name the node.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)

    def places(self, text: str) -> list[int]:
        """Return the places in ``subgraph.nodes`` that a layer's name speaks of, ascending."""
        return sorted({int(found[1]) for found in _NODE.finditer(text)})

    def readable(self, text: str) -> str:
        """Put the names of the model into what the library says."""
        text = _NODE.sub(lambda found: self.labels.get(int(found[1]), found[0]), text)
        return _VALUE.sub(lambda found: self.values.get(found[0], found[0]), text)


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A subgraph as the parser gets it.

    Attributes:
        proto: The ``ModelProto``; inputs and outputs are named as in the subgraph, in its order.
        weights: By name in ``proto``, the data of weights that are not in it; contiguous and
            read-only. The library reads from them until a build is over.
        rewriting: What was done to reach another precision; None if none was asked for.
    """

    proto: Any
    weights: Mapping[str, npt.NDArray[Any]]
    names: NameMap
    rewriting: Rewriting | None = None

    def whole(self) -> Any:
        """Return the model with its weights inside."""
        if not self.weights:
            return self.proto
        whole = onnx.ModelProto()
        whole.CopyFrom(self.proto)
        for tensor in whole.graph.initializer:
            if tensor.name in self.weights:
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = self.weights[tensor.name].tobytes()
        return whole


def prepare_model(subgraph: Subgraph, options: Options) -> PreparedModel:
    """Write a subgraph as the model that is parsed: converted, and in the precision asked for.

    To refit an engine, call it again with the new weights: the names are the same.
    """
    proto = subgraph.to_model(weights="outside")
    weights: Mapping[str, npt.NDArray[Any]] = outside_weights(proto, subgraph)
    mark_places(proto, subgraph)
    lower(proto, subgraph, options)
    account = None
    if options.precision != "keep":
        account = in_precision(proto, weights, options.precision, options)
        proto, weights = account.model, account.weights
    for name in half_border(subgraph, options):
        _narrow(proto.graph, name)
    names = rename(proto, subgraph)
    ours = {theirs: name for name, theirs in names.values.items()}
    return PreparedModel(proto, {ours[name]: one for name, one in weights.items()}, names, account)


def half_border(subgraph: Subgraph, options: Options) -> list[str]:
    """Return the inputs and outputs of the model that an engine has in float16.

    A value that another subgraph reads as well keeps its type.
    """
    if options.io_precision != "fp16":
        return []
    graph, inside = subgraph.graph, frozenset(subgraph.nodes)
    outputs = [
        name
        for name in subgraph.outputs
        if graph.is_output(name)
        and inside.issuperset(graph.adjacency.successors(graph.producers[name]))
    ]
    inputs = [name for name in subgraph.inputs if name in graph.inputs]
    return [name for name in (*inputs, *outputs) if graph.dtype(name) is DataType.FLOAT]


def _narrow(graph: Any, name: str) -> None:
    """Let an input or output of float32 be float16, with a Cast between it and what is inside."""
    wide = f"{name}/float32"
    is_input = any(value.name == name for value in graph.input)
    for value in graph.input if is_input else graph.output:
        if value.name == name:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    _replace(graph, name, wide)
    read, made = (name, wide) if is_input else (wide, name)
    to = onnx.TensorProto.FLOAT if is_input else onnx.TensorProto.FLOAT16
    cast = onnx.helper.make_node("Cast", [read], [made], to=to)
    graph.node.insert(0 if is_input else len(graph.node), cast)


def _replace(graph: Any, name: str, other: str) -> None:
    for node in graph.node:
        node.input[:] = [other if one == name else one for one in node.input]
        node.output[:] = [other if one == name else one for one in node.output]
        for body in _bodies(node):
            _replace(body, name, other)


def in_precision(
    proto: Any, weights: Mapping[str, npt.NDArray[Any]], kind: Kind, options: Options
) -> Rewriting:
    """Write the model of a subgraph, which is left as it is, anew in the precision asked for.

    Raises:
        CallerError: The calibration cannot be read (SGK233), or int8 or fp8 has none (SGK231).
    """
    wanted = Precision(
        kind,
        keep=options.keep_fp32,
        high_precision=options.high_precision,
        data_max=options.data_max,
        max_reduction=options.reduction_depth,
    )
    ranges = None if options.calibration is None else Ranges.load(options.calibration)
    notes: tuple[str, ...] = ()
    steps = [wanted]
    is_quantized = wanted.kind in {"int8", "fp8"}
    if is_quantized and wanted.high_precision != "fp32":
        steps.append(replace(wanted, kind=wanted.high_precision))
    for step in steps:
        try:
            done = rewrite(proto, step, ranges, weights=weights)
        except UnsupportedModelError as error:
            if error.code != "SGK230":  # there is nothing to rewrite
                raise
            notes = (*notes, error.message)
            if step is wanted and is_quantized:
                _warn(wanted.kind, error.message)
        else:
            # a subgraph without products is what is left between others
            is_first = step is wanted and is_quantized
            if is_first and any(one.step == "quantize" for one in done.kept):
                _warn(wanted.kind, done.why_no_int8())
            return replace(done, notes=(*notes, *done.notes))
    return Rewriting(proto, weights, notes=notes)


def _warn(kind: str, why: str) -> None:
    if why:
        told = f"precision={kind} was asked for, and no node of a subgraph reads {kind}: {why}"
        warnings.warn(SubgraphkitWarning(told), stacklevel=3)


_PLACE: Final = "subgraphkit.place"
_NODE: Final = re.compile(r"\bsgk(\d+)_(?:\d+_)?\w+")
_VALUE: Final = re.compile(r"\bsgk_v\d+\b")


def mark_places(proto: Any, subgraph: Subgraph) -> None:
    """Write into each node of a subgraph's model where in ``subgraph.nodes`` it comes from.

    Rewriting keeps the mark of the nodes it keeps, and gives none to those it makes.
    """
    place_of = {node: place for place, node in enumerate(subgraph.nodes)}
    producers = subgraph.graph.producers
    for node in proto.graph.node:
        made = next((name for name in node.output if name), "")
        if producers.get(made) in place_of:
            node.metadata_props.add(key=_PLACE, value=str(place_of[producers[made]]))


def rename(proto: Any, subgraph: Subgraph) -> NameMap:
    """Give nodes and inner values names of our own, in place; marks are taken out.

    ``proto``: A model whose nodes ``mark_places`` marked, rewritten since or not.
    """
    renamed = _Renaming({value.name for value in (*proto.graph.input, *proto.graph.output)})
    renamed.graph(proto.graph)
    for values in (proto.graph.value_info, proto.graph.initializer):
        # which were in the order of the former names
        values.sort(key=lambda value: (len(value.name), value.name))
    nodes = [Node(subgraph.graph, node) for node in subgraph.nodes]
    return NameMap(
        values={ours: theirs for theirs, ours in renamed.names.items() if ours != theirs},
        labels={place: node.label for place, node in enumerate(nodes)},
    )


class _Renaming:
    def __init__(self, kept: set[str]) -> None:
        self.names: dict[str, str] = {name: name for name in kept}
        self._nodes = 0

    def graph(self, graph: Any, around: str = "") -> None:
        """Rename in order of first use, outer values before those of bodies.

        ``around``: The mark of the node that the graph is a body of, by which its nodes go.
        """
        for node in graph.node:
            mark = self._node(node, around)
            for body in _bodies(node):
                self.graph(body, mark)
        for values in (graph.input, graph.output, graph.value_info, graph.initializer):
            for value in values:
                value.name = self._of(value.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self._of(sparse.values.name)

    def _node(self, node: Any, around: str) -> str:
        marks = (one.value for one in node.metadata_props if one.key == _PLACE)
        mark: str = next(marks, around)
        # A node that a rewrite made is named by its order; a node of the model never begins so.
        node.name = f"sgk{mark}_{self._nodes}_{node.op_type}" if mark else f"made{self._nodes}"
        self._nodes += 1
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        node.input[:] = [self._of(name) for name in node.input]
        node.output[:] = [self._of(name) for name in node.output]
        return mark

    def _of(self, name: str) -> str:
        if not name:
            return name
        if name not in self.names:
            ours = f"sgk_v{len(self.names)}"
            while ours in self.names:  # an input of the model is called that
                ours += "_"
            self.names[name] = ours
        return self.names[name]


def _bodies(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
