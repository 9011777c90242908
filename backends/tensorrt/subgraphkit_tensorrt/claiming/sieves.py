"""The three sieves of one bind: rules, parser and builder, and the nodes that stay in them."""

import logging
from collections.abc import Mapping, Sequence

from subgraphkit.backend import Answer, BindContext, Refusal
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.claiming.boundaries import BoundaryRules
from subgraphkit_tensorrt.claiming.coverage import check_coverage
from subgraphkit_tensorrt.claiming.filters import Exclusions, check_filters
from subgraphkit_tensorrt.claiming.learned import Learned
from subgraphkit_tensorrt.claiming.parser_queries import ParserQueries
from subgraphkit_tensorrt.claiming.plugins import load_plugins, plugin_refusal
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.lowering import Conversions, load_modules, registered, rules_for
from subgraphkit_tensorrt.rules.static_rules import Rules

__all__ = ["Sieves"]


class Sieves:
    """The knowledge about the nodes of one bind, shared by its properties.

    Attributes:
        borders: What may cross edges, once a graph was looked at.
        refusals: By node, why it is not taken; grows.
        left: By node, why it is not on TensorRT, once the graph is partitioned.
        taken: Nodes on TensorRT, once the graph is partitioned.

    Args:
        library: The library; one that cannot be asked leaves it to the rules.
        options: The options of the backend.
        identity: Names library and device.

    Thread-safety: used by one thread at a time.
    """

    borders: BoundaryRules
    _learned: Learned

    def __init__(self, library: Library, options: Options, identity: str) -> None:
        self.library = library
        self.options = options
        self.refusals: dict[int, Refusal] = {}
        self.left: Mapping[int, Refusal] = {}
        self.taken: set[int] = set()
        self.failures: list[tuple[frozenset[int], int]] = []
        self._identity = identity
        self._graph: BoundGraph | None = None
        self._questions: ParserQueries | None = None

    def look_at(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Sieve a graph; nothing happens the second time.

        Args:
            graph: The graph.
            context: Knows where answers are kept, and where it is said what was learnt, and which
                filters match nothing.

        Raises:
            OptionError: A plugin library or a module cannot be used (SGK167, SGK168), or a filter
                names an operator that there is not (SGK112).
        """
        if self._graph is graph:
            return
        options, library, logger = self.options, self.library, context.logger
        folder = context.kept_folder()
        load_modules(options.modules)
        load_plugins(library, options.plugin_libraries)
        check_filters(graph, options, logger)
        rules = rules_for(library, options)
        conversions = Conversions(rules)
        self._graph = graph
        self.borders = BoundaryRules(graph, rules)
        self._learned = Learned(graph, self._identity, options, folder)
        if options.on_build_failure != "raise":
            self.refusals = self._learned.refusals()
            _tell_learned(self.refusals, logger)
        excluded = Exclusions(options)
        for node in graph.nodes:
            if graph.is_constant_node(node.id) or node.id in self.refusals:
                continue
            refusal = excluded.refusal(node)
            refusal = refusal if refusal is not None else self._static(node, rules, conversions)
            if refusal is not None:
                self.refusals[node.id] = refusal
        if library.trt is None:
            return
        self._questions = ParserQueries(graph, library, options, rules, conversions, folder)
        left = [i for i in graph.order if i not in self.refusals and not graph.is_constant_node(i)]
        for node_id, refusal in self._questions.refusals(left).items():
            self.refusals[node_id] = conversions.advice(Node(graph, node_id), refusal)

    def _static(self, node: Node, rules: Rules, conversions: Conversions) -> Refusal | None:
        refusal = rules.refusal(node)
        if refusal is None and node.domain and registered(node) is None:
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
        return Refusal(
            refusal.code, f"of this region TensorRT does not take {label}: {refusal.text}"
        )

    def let_go(self) -> None:
        """Let go of what asking takes; a question that comes later takes it again."""
        if self._questions is not None:
            self._questions.let_go()

    def learn(self, nodes: Sequence[int], text: str) -> None:
        """Learn that nodes make builds fail."""
        self.refusals.update(dict.fromkeys(nodes, Refusal("compile_failed", text)))
        self._learned.add(nodes, text)

    def demand(self, graph: BoundGraph) -> None:
        """Compare what is taken with what the user demands.

        Raises:
            BackendError: It is less (SGK165).
        """
        check_coverage(graph, self.taken, {**self.left, **self.refusals}, self.options)


def _tell_learned(refusals: Mapping[int, Refusal], logger: logging.Logger) -> None:
    if refusals:
        logger.warning(
            "backend 'tensorrt' leaves %d %s out because an earlier build failed: %s\n"
            "  'subgraphkit cache clear' forgets it; on_build_failure=raise builds all the same.",
            len(refusals),
            "node" if len(refusals) == 1 else "nodes",
            next(iter(refusals.values())).text,
        )
