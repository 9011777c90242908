"""Asking OpenVINO which nodes of a graph it runs, and finding its reasons for the others.

The whole graph is imported and the device asked about it once, so that every answer takes the
node's surroundings into account. A node that the importer cannot convert is asked about alone, to
learn the reason. The next question leaves it out, because nothing behind it can be judged.

The processor is not asked: its answer takes half as long as compiling, and it runs whatever the
importer converts. Should it fail to compile a region, it is asked then.

While a question is imported, every value that is read is an output of the model. So its place tells
which operation makes it. Names would not: an operation that stands for several nodes loses its
name, as with Dropout behind Relu.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import onnx

from subgraphkit.backend import Refusal
from subgraphkit.ir import BoundGraph, Subgraph, make_subgraph
from subgraphkit.onnx_io import node_key
from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit.types import TensorType
from subgraphkit_openvino import library
from subgraphkit_openvino.importing import IgnoredInputsError, Written, import_model, write_model
from subgraphkit_openvino.memory import ELEMENT_TYPES

_SOURCES: Final = frozenset({"Parameter", "Constant"})


class Questions:
    """Asks about the nodes of one graph.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self,
        graph: BoundGraph,
        device: str,
        configuration: Mapping[str, Any],
        *,
        asks: bool | None = None,
    ) -> None:
        self._graph = graph
        self._device = device
        self._configuration = configuration
        self._asks = device != "CPU" if asks is None else asks
        # For this graph alone, because OpenVINO names its values.
        self._alone = Answers("answers")
        # Weights are read once for all questions: they are shared as long as somebody holds them.
        self._held: list[Any] = []
        self._imported: tuple[Subgraph, Any, tuple[Any, ...]] | None = None

    def refusals(self, candidates: Iterable[int]) -> dict[int, Refusal]:
        """Return those of the candidates that OpenVINO does not run, each with its reason."""
        candidates = set(candidates)
        last = set(filter(self._needs_a_typed_input, candidates))
        refused = self._ask_all(candidates - last)
        if last:
            refused |= self._ask_all(candidates.difference(refused))
        self._held.clear()
        return refused

    def take_model(self, subgraph: Subgraph) -> tuple[Any, tuple[Any, ...]] | None:
        """Hand out the model of the last question, if it was about just this region.

        With it comes what it refers to. Only once, because it is to be changed.
        """
        if self._imported is None:
            return None
        (asked, model, held), self._imported = self._imported, None
        found = subgraph.inputs, subgraph.outputs, tuple(node.id for node in subgraph.members)
        if found != (asked.inputs, asked.outputs, asked.nodes):
            return None
        is_same = all(subgraph.constants.get(name) is one for name, one in asked.constants.items())
        return (model, held) if is_same else None

    def _needs_a_typed_input(self, node: int) -> bool:
        """Say whether a node takes the process down behind a node that cannot be converted.

        The importer makes bounds of the element type, and crashes where it does not know that.
        """
        table = self._graph.table
        return table.op_types[node] == "Clip" and not all((*table.inputs[node], "", "")[1:3])

    def _ask_all(self, candidates: Iterable[int]) -> dict[int, Refusal]:
        asked = set(candidates)
        refused: dict[int, Refusal] = {}
        while asked:
            found, finished = self._ask([node for node in self._graph.order if node in asked])
            refused.update(found)
            asked = set() if finished else asked.difference(found)
        return refused

    def _ask(self, nodes: Sequence[int]) -> tuple[dict[int, Refusal], bool]:
        """Ask about many nodes at once."""
        try:
            subgraph = make_subgraph(self._graph, nodes, "openvino")
            written = self._write_named(subgraph)
            kept = _let_out(written.proto.graph)
            model = import_model(written, partially=True)
            ports = _take_ports(model, written.proto.graph, kept)
            layers = _layers(model, ports, self._graph, nodes)
            kinds = {node: [op.get_type_name() for op in layers[node]] for node in nodes}
            stuck = [n for n in nodes if not kinds[n] or "NotSupportedONNXNode" in kinds[n]]
            runs = self._query(model) if self._asks and not stuck else {}
        except IgnoredInputsError as error:
            found = self._ignoring(nodes, error) or self._each_alone(nodes)
            return found, not found
        except Exception:  # noqa: BLE001 (its errors have no base class of their own)
            # The importer gave up without a word about the node that made it.
            found = self._each_alone(nodes)
            return found, not found
        if stuck:
            return self._stuck(stuck), False
        self._imported = subgraph, model, written.held
        asked = layers.items() if self._asks else ()
        answers = {node: self._judge_ops(ops, runs) for node, ops in asked}
        answers |= self._judge_types(ports, nodes)
        return {node: answer for node, answer in answers.items() if answer is not None}, True

    def _stuck(self, nodes: Iterable[int]) -> dict[int, Refusal]:
        found = self._each_alone(nodes)
        # Nobody reads what it makes, or it converts alone but not here.
        reason = Refusal("op_unsupported", "OpenVINO's importer leaves nothing of it in this graph")
        return {node: found.get(node, reason) for node in nodes}

    def _ignoring(self, nodes: Sequence[int], error: IgnoredInputsError) -> dict[int, Refusal]:
        reason = Refusal("op_unsupported", f"OpenVINO's importer says: {error}")
        read = self._graph.read_by
        return {node: reason for node in nodes if not error.names.isdisjoint(read(node))}

    def _each_alone(self, nodes: Iterable[int]) -> dict[int, Refusal]:
        found: dict[int, Refusal] = {}
        for node in nodes:
            key = node_key(self._graph.nodes[node], self._graph.types.get)
            answer = self._alone.recall(key, partial(self._answer_alone, node))
            if answer is not None:
                found[node] = answer
        return found

    def _answer_alone(self, node: int) -> Refusal | Passing | None:
        subgraph = make_subgraph(self._graph, (node,), "openvino")
        try:
            model = import_model(write_model(subgraph))
            runs = self._query(model)
        except Exception as error:  # noqa: BLE001 (its errors have no base class of their own)
            refusal = Refusal("op_unsupported", f"OpenVINO's importer says: {library.words(error)}")
            return Passing(refusal) if is_machine_fault(error) else refusal
        return self._judge_ops(model.get_ops(), runs)

    def _query(self, model: Any) -> Mapping[str, str]:
        settings = {**self._configuration, **library.query_settings(self._device)}
        return {**library.core().query_model(model, self._device, settings)}

    def _judge_ops(self, ops: Iterable[Any], runs: Mapping[str, str]) -> Refusal | None:
        left = {op.get_type_name() for op in ops if op.get_friendly_name() not in runs} - _SOURCES
        what = f"device {self._device} of OpenVINO does not run {', '.join(sorted(left))}"
        return Refusal("op_unsupported", what) if left else None

    def _judge_types(self, ports: Mapping[str, Any], nodes: Sequence[int]) -> dict[int, Refusal]:
        """Refuse nodes of which the importer makes something of another type than ONNX does."""
        found = {}
        for node in nodes:
            for value in filter(None, self._graph.table.outputs[node]):
                problem = value in ports and _contradiction(ports[value], self._graph, value)
                if problem:
                    found[node] = Refusal("dtype", f"OpenVINO makes {problem}")
        return found

    def _write_named(self, subgraph: Subgraph) -> Written:
        written = write_model(subgraph)
        self._held.append(written.held)
        producers = self._graph.producers
        for proto in written.proto.graph.node:
            # Names may be empty or repeated, and OpenVINO answers by name.
            proto.name = f"node {producers[next(filter(None, proto.output))]}"
        return written


def _let_out(graph: onnx.GraphProto) -> int:
    """Make outputs of all values that are read; return how many there were before."""
    kept = len(graph.output)
    known = {value.name for value in graph.output}
    read = {value for node in graph.node for value in node.input} - known
    graph.output.extend(value for value in graph.value_info if value.name in read)
    return kept


def _take_ports(model: Any, graph: onnx.GraphProto, kept: int) -> dict[str, Any]:
    """Return what makes each output of a question, and leave the model the first few."""
    results = model.get_results()
    made = [result.input(0).get_source_output() for result in results]
    ports = dict(zip([value.name for value in graph.output], made, strict=True))
    for result in results[kept:]:
        model.remove_result(result)
    return ports


def _layers(
    model: Any, ports: Mapping[str, Any], graph: BoundGraph, nodes: Sequence[int]
) -> dict[int, list[Any]]:
    """Return the operations that OpenVINO made of each node.

    An operation belongs to the node whose value it leads to; one may stand for several nodes. A
    node of which nothing is left has none.
    """
    left = {op.get_name() for op in model.get_ops()}
    places = {value: _place(port) for value, port in ports.items()}
    made = set(places.values())
    found = {}
    for node in nodes:
        values = [value for value in graph.table.outputs[node] if value in ports]
        own = {places[value] for value in values}
        behind = _behind([ports[value] for value in values], made, own)
        found[node] = [
            op for op in behind if op.get_name() in left or op.get_type_name() in _SOURCES
        ]
    return found


def _behind(ports: Iterable[Any], made: Collection[Any], own: Collection[Any]) -> list[Any]:
    """Return the operations that compute ports, up to values made by nodes, but for their own."""
    found: dict[str, Any] = {}
    waiting = list(ports)
    while waiting:
        op = waiting.pop().get_node()
        name = op.get_name()
        if name in found:
            continue
        found[name] = op
        sources = [port.get_source_output() for port in op.inputs()]
        waiting += [one for one in sources if (at := _place(one)) not in made or at in own]
    return list(found.values())


def _place(port: Any) -> tuple[str, int]:
    return port.get_node().get_name(), port.get_index()


def _contradiction(port: Any, graph: BoundGraph, value: str) -> str:
    type_ = graph.types.get(value)
    if not isinstance(type_, TensorType) or type_.dtype not in ELEMENT_TYPES:
        return ""
    made = port.get_element_type().get_type_name()
    if made not in {ELEMENT_TYPES[type_.dtype], "dynamic"}:
        return f"a {made} of output {value!r}, expected {type_.dtype}"
    shape = port.get_partial_shape()
    if type_.shape is None or shape.rank.is_dynamic:
        return ""
    dims = [dim.get_length() if dim.is_static else None for dim in shape]
    pairs = zip(dims, type_.shape, strict=False)
    agrees = all(dim in {None, known} or not isinstance(known, int) for dim, known in pairs)
    agrees = agrees and len(dims) == len(type_.shape)
    return "" if agrees else f"{dims} of output {value!r}, expected {type_}"
