"""The second filter stage: queries to the parser about whole regions, until the rest is proven.

Asked about a model, the parser says yes to all of it or names nodes that are wrong. First it names
every node that fails a check by itself. After those, it names the first node that it cannot import.
So what it names is left out, and the rest is asked about again, as one model. Types are inferred by
ONNX, so a region with holes is a model like any other. A yes proves only the model that was asked
about. The partition pass makes new models of the nodes, and each is asked about again.

Answers are remembered, for this process and in the folder the core keeps for the backend.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import BoundGraph, Subgraph, make_subgraph
from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import NameMap, mark_places, rename
from subgraphkit_tensorrt.building.network import make_builder, misread_type
from subgraphkit_tensorrt.claiming.stand_ins import model_file, put_small_weights_in, stand_in
from subgraphkit_tensorrt.library.cudart import on_device
from subgraphkit_tensorrt.library.flavours import Library, network_flags
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.lowering import Conversions
from subgraphkit_tensorrt.lowering.conversions import apply

_FORMAT: Final = "2"
"""Changes with what a question is or how its answer is kept."""

_MOST_ROUNDS: Final = 100
"""How often the parser is asked again about what is left of a region."""

_ANSWERS: Final = Answers("answers")

_Faults = dict[int, tuple[str, str]]
"""By place in ``Subgraph.nodes``, the code of a refusal and what was said."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model as it is asked about.

    Attributes:
        data: The model in bytes.
    """

    subgraph: Subgraph
    proto: Any
    data: bytes
    names: NameMap
    file_size: int


_Answer = tuple[_Faults, str | None]
"""What is wrong with nodes, and what else was said; None for that if the model is taken."""


class ParserQueries:
    """Asks about the nodes of one graph.

    ``folder``: Where to keep the answers; None for nowhere.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self,
        graph: BoundGraph,
        library: Library,
        options: Options,
        conversions: Conversions,
        folder: Path | None,
    ) -> None:
        self.asked = 0
        self._graph = graph
        self._library = library
        self._conversions = conversions
        self._folder = folder
        can = library.capabilities
        plugins = ",".join(options.plugin_libraries)
        self._identity = f"{_FORMAT} {can.flavour} {can.version} {plugins}"
        self._device: int = options.device
        self._builder: Any = None

    def release_builder(self) -> None:
        """Let go of the builder, which holds a gigabyte; another question makes another."""
        with on_device(self._device):
            self._builder = None

    def refusals_in(self, subgraph: Subgraph) -> dict[int, Refusal]:
        """Return what has to go from a subgraph, for the parser to take the rest."""
        first = self._write(subgraph)
        question = self._identity.encode() + first.data
        faults = _ANSWERS.recall(question, lambda: self._find_faults(first), self._folder)
        nodes, words = subgraph.nodes, first.names.readable
        return {nodes[place]: Refusal(code, words(text)) for place, code, text in faults}

    def _find_faults(self, first: _Asked) -> list[list[Any]] | Passing:
        """Ask until the rest is taken; return place, code and text of what is not."""
        found = self._ask_until_taken(first)
        rows = [[place, *said] for place, said in sorted(found.items())]
        return Passing(rows) if any(is_machine_fault(text) for _, text in found.values()) else rows

    def _ask_until_taken(self, first: _Asked) -> _Faults:
        left = list(range(len(first.subgraph.nodes)))
        found: _Faults = {}
        asked, rounds = first, 0
        while True:
            faults, words = self._ask(asked)
            rounds += 1
            named = {left[place]: said for place, said in faults.items()}
            if not named and words is None:
                return found
            named = named or self._each_alone(left, first.subgraph)
            if not named or rounds >= _MOST_ROUNDS:
                words = words or f"it is not settled after {rounds} questions"
                return found | dict.fromkeys(left, ("op_unsupported", _quote(words)))
            found |= named
            left = [place for place in left if place not in named]
            if not left:
                return found
            nodes = [first.subgraph.nodes[place] for place in left]
            asked = self._write(make_subgraph(self._graph, nodes, "tensorrt"))

    def _each_alone(self, places: Sequence[int], subgraph: Subgraph) -> _Faults:
        """Ask about nodes one by one, where nothing was named."""
        found: _Faults = {}
        for place in places:
            alone = self._write(make_subgraph(self._graph, [subgraph.nodes[place]], "tensorrt"))
            faults, words = self._ask(alone)
            if faults or words is not None:
                found[place] = faults.get(0, ("op_unsupported", _quote(words or "")))
        return found

    def _write(self, subgraph: Subgraph) -> _Asked:
        proto = subgraph.to_model(weights="outside")
        mark_places(proto, subgraph)
        apply(proto, subgraph, self._conversions)
        put_small_weights_in(proto, dict(subgraph.constants))
        names = rename(proto, subgraph)
        size = stand_in(proto)
        return _Asked(subgraph, proto, proto.SerializeToString(deterministic=True), names, size)

    def _ask(self, asked: _Asked) -> _Answer:
        """Put one question."""
        self.asked += 1
        trt, logger = self._library.trt, self._library.logger
        with on_device(self._device), listening(), model_file(asked.file_size) as path:
            if self._builder is None:
                self._builder = make_builder(self._library)
            network = self._builder.create_network(network_flags(trt))
            parser = trt.OnnxParser(network, logger)
            try:
                if parser.supports_model_v2(asked.data, path):
                    return self._compare_types(network, parser, asked)
                return self._complaints(parser, asked)
            finally:
                # The network must not go before the parser that filled it, nor the builder.
                del parser, network

    def _compare_types(self, network: Any, parser: Any, asked: _Asked) -> _Answer:
        """Look whether what was taken was understood."""
        made_by = {
            name: places[0]
            for node in asked.proto.graph.node
            if (places := asked.names.places(node.name))
            for name in node.output
        }
        faults: _Faults = {}
        for name, tensor in dict(_tensors(network, parser, asked.proto)).items():
            value = asked.names.values.get(name, name)
            type_ = self._graph.types.get(value)
            made = misread_type(self._library.trt, tensor, type_)
            if not made:
                continue
            text = f"TensorRT makes {made}, not {type_}, of {value!r}"
            for place in [made_by[name]] if name in made_by else _readers(asked, name):
                faults.setdefault(place, ("misread", text))
        # A wrong type spreads to the nodes that read the value, so only the first is to blame.
        return dict(sorted(faults.items())[:1]), None

    def _complaints(self, parser: Any, asked: _Asked) -> _Answer:
        faults: _Faults = {}
        unnamed = []
        for index in range(parser.num_errors):
            error = parser.get_error(index)
            text = " ".join(str(error.desc()).split())
            places = self._places_of_error(error, asked)
            for place in places:
                faults.setdefault(place, ("op_unsupported", _quote(text)))
            if not places:
                unnamed.append(text)
        return faults, "; ".join(unnamed)

    def _places_of_error(self, error: Any, asked: _Asked) -> list[int]:
        """Return the places of nodes that an error is about."""
        stack = error.local_function_stack()
        # Inside a body, node names and numbers are those of the body.
        if places := asked.names.places(stack[0] if stack else error.node_name()):
            return places[:1]
        number, nodes = error.node(), asked.proto.graph.node
        if 0 <= number < len(nodes):
            return asked.names.places(nodes[number].name)[:1]
        # About an input; the parser puts its name where the file would be.
        return _readers(asked, str(error.file()))


def _readers(asked: _Asked, value: str) -> list[int]:
    """Return the places of the nodes that read an input of the model."""
    if value not in asked.subgraph.inputs:
        return []
    graph = asked.subgraph.graph
    return [
        place
        for place, node in enumerate(asked.subgraph.nodes)
        if value in graph.table.inputs[node] or value in graph.captures_of(node)
    ]


def _quote(text: str) -> str:
    return f"TensorRT's parser says: {text or 'no, without a reason'}"


def _tensors(network: Any, parser: Any, proto: Any) -> Iterator[tuple[str, Any]]:
    """Yield every value of a network that can be looked at, by its name in the model."""
    for place in range(network.num_inputs):
        tensor = network.get_input(place)
        yield tensor.name, tensor
    for node in proto.graph.node:
        for place, name in enumerate(node.output):
            tensor = parser.get_layer_output_tensor(node.name, place) if name else None
            if tensor is not None:
                yield name, tensor
    for place in range(network.num_outputs):
        tensor = network.get_output(place)
        yield tensor.name, tensor
