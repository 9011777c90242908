"""The three filters of one bind: rules, parser and builder, and the nodes that stay in them."""

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import Answer, BindContext, Refusal, options_of
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph, Node, Subgraph, make_subgraph
from subgraphkit.storing import Answers, Passing
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import NameMap
from subgraphkit_tensorrt.claiming.boundaries import BoundaryRules
from subgraphkit_tensorrt.claiming.parser_queries import ParserQueries
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import LOGGER, listening, tail
from subgraphkit_tensorrt.lowering import Conversions, converter_of, load_modules
from subgraphkit_tensorrt.option_rules import unusable
from subgraphkit_tensorrt.rules.judged_node import plain
from subgraphkit_tensorrt.rules.static_rules import Rules


class Filters:
    """The knowledge about the nodes of one bind, shared by its properties.

    Attributes:
        borders: What may cross edges, once a graph was looked at.

    Thread-safety: used by one thread at a time.
    """

    borders: BoundaryRules

    def __init__(self, library: Library, options: Options, identity: str) -> None:
        self.library = library
        self.options = options
        self.refusals: dict[int, Refusal] = {}
        self.failures: list[tuple[frozenset[int], int]] = []
        self._identity = identity
        self._graph: BoundGraph | None = None
        self._questions: ParserQueries | None = None
        self._folder: Path | None = None
        self._facts = b""  # what is learnt depends on: all of the graph but its weights, and more

    def look_at(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Sieve a graph, once; OptionError (SGK167, SGK168) if a plugin or module is unusable."""
        if self._graph is graph:
            return
        options, library = self.options, self.library
        folder = self._folder = context.kept_folder()
        load_modules(options.modules)
        load_plugins(library, options.plugin_libraries)
        rules = Rules(library)
        conversions = Conversions(rules)
        self._graph = graph
        is_ahead = options.build_only or not options.allow_runtime_build
        self.borders = BoundaryRules(graph, rules, is_ahead=is_ahead)
        shaping = [
            (one.name, repr(getattr(options, one.name))) for one in options_of(Options) if one.cache
        ]
        facts = f"{self._identity}\n{shaping}\n{_structure(graph)}"
        self._facts = hashlib.sha256(facts.encode()).digest()  # for the text may be long
        learned = self._recall_texts().items()
        self.refusals = {int(node): Refusal("compile_failed", text) for node, text in learned}
        _warn_of_learned(self.refusals)
        for node in graph.nodes:
            if graph.is_constant_node(node.id) or node.id in self.refusals:
                continue
            if (refusal := self._static(node, rules, conversions)) is not None:
                self.refusals[node.id] = refusal
        if library.trt is None:
            return
        self._questions = ParserQueries(graph, library, options, conversions, folder)
        left = [i for i in graph.order if i not in self.refusals and not graph.is_constant_node(i)]
        found = self._questions.refusals_in(make_subgraph(graph, left, "tensorrt")) if left else {}
        for node_id, refusal in found.items():
            self.refusals[node_id] = conversions.advice(Node(graph, node_id), refusal)

    def _static(self, node: Node, rules: Rules, conversions: Conversions) -> Refusal | None:
        refusal = rules.refusal(node)
        if refusal is None and node.domain and converter_of(node) is None:
            refusal = plugin_refusal(self.library, node)
        if refusal is None or conversions.converts(node):
            return None
        return conversions.advice(node, refusal)

    def review(self, subgraph: Subgraph) -> Answer:
        """Ask the parser about a finished candidate; what it names is refused from now on."""
        found = self._questions.refusals_in(subgraph) if self._questions is not None else {}
        if not found:
            return True
        self.refusals.update(found)
        node_id, refusal = next(iter(found.items()))
        label = subgraph.graph.nodes[node_id].label
        text = f"of this region TensorRT does not take {label}: {refusal.text}"
        return Refusal(refusal.code, text)

    def release_builder(self) -> None:
        """Let go of what asking takes; a question that comes later takes it again."""
        if self._questions is not None:
            self._questions.release_builder()

    def learn(self, nodes: Sequence[int], text: str) -> None:
        """Learn that nodes make builds fail."""
        self.refusals.update(dict.fromkeys(nodes, Refusal("compile_failed", text)))
        known = {**self._recall_texts(), **{str(node): text for node in nodes}}
        _LEARNED.put(self._facts, known, self._folder)

    def _recall_texts(self) -> Mapping[str, str]:
        return _LEARNED.recall(self._facts, lambda: Passing({}), self._folder)


def _warn_of_learned(refusals: Mapping[int, Refusal]) -> None:
    if refusals:
        LOGGER.warning(
            "backend 'tensorrt' leaves %d %s out because an earlier build failed: %s\n"
            "  'subgraphkit deploy cache clear' forgets it.",
            len(refusals),
            "node" if len(refusals) == 1 else "nodes",
            next(iter(refusals.values())).text,
        )


_LEARNED: Final = Answers("learned")


def blamed_nodes(subgraph: Subgraph, error: CompileError) -> tuple[int, ...]:
    """Return the nodes at which a build failed; none if the library did not say.

    TensorRT names a chain of fused layers by its ends, which blames neither of them. A node in a
    warning is not at fault either.
    """
    lines: Sequence[str] = error.context.get("lines", ())
    if not lines:
        return tuple(error.context.get("nodes", ()))
    names = NameMap()
    places = {
        place
        for line in lines
        if not line.startswith("warning") and "ForeignNode" not in line
        for place in names.places(line)
        if place < len(subgraph.nodes)
    }
    return tuple(subgraph.nodes[place] for place in sorted(places))


def _structure(graph: BoundGraph) -> str:
    """Return all of a graph but its weights."""
    table = graph.table
    rows = [*zip(table.op_types, table.domains, table.inputs, table.outputs, strict=True)]
    types = {name: str(type_) for name, type_ in graph.types.items()}
    return repr((rows, sorted(types.items()), sorted(graph.opset_imports.items())))


_LOADED: Final[set[tuple[int, str]]] = set()
_LOCK: Final = threading.Lock()


def load_plugins(library: Library, paths: Iterable[str]) -> None:
    """Make NVIDIA's own plugins known, and load libraries with others, once in a process.

    Raises:
        OptionError: One cannot be loaded (SGK167).

    Thread-safety: may be called from any thread.
    """
    trt, can = library.trt, library.capabilities
    if trt is None:
        return
    with _LOCK:
        if can.plugins and _first_time(trt, ""):
            trt.init_libnvinfer_plugins(library.logger, "")
        for path in paths:
            if _first_time(trt, path):
                _load(trt, path)


def plugin_refusal(library: Library, node: Node) -> Refusal | None:
    """Say why a node of another domain cannot be a plugin; None if one is registered."""
    foreign, title = f"{node.qualified_op_type} is not ONNX's", library.flavour.title
    if library.trt is None:
        text = f"{foreign}, and there is no {title} here to be asked for a plugin"
    elif not library.capabilities.plugins:
        text = f"{foreign}, and {title} has no plugins"
    else:
        version = str(plain(node.attribute("plugin_version", "1")))
        namespace = str(plain(node.attribute("plugin_namespace", "")))
        registry = library.trt.get_plugin_registry()
        if registry.get_creator(node.op_type, version, namespace) is not None:
            return None
        text = f"no plugin {node.op_type!r} is registered; load its library with plugin_libraries"
    return Refusal("op_unsupported", text)


def _first_time(trt: Any, path: str) -> bool:
    before = len(_LOADED)
    _LOADED.add((id(trt), path))
    return len(_LOADED) > before


def _load(trt: Any, path: str) -> None:
    with listening() as lines:
        try:
            handle = trt.get_plugin_registry().load_library(path)
        except Exception as error:  # noqa: BLE001 (a binding raises whatever it likes)
            handle, said = None, f"{type(error).__name__}: {error}"
        else:
            said = tail(lines)
    if handle is not None:
        return
    _LOADED.discard((id(trt), path))
    problem = f"names {path!r}, which TensorRT cannot load: {said or 'it gave no reason'}"
    hint = "It has to be built against this version of TensorRT, and to export its creators."
    raise unusable("SGK167", "plugin_libraries", problem, hint)
