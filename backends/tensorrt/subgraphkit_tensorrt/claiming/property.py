"""The property: which nodes TensorRT gets, proven by rules, by its parser and by its builder."""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from subgraphkit.backend import (
    Answer,
    BindContext,
    PartitionSummary,
    Refusal,
    SubgraphOperator,
    SubgraphProperty,
    Unsupported,
)
from subgraphkit.errors import BackendUnavailableError, CompileError, InternalError
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.failure import fault_of_machine
from subgraphkit_tensorrt.claiming.borders import Borders
from subgraphkit_tensorrt.claiming.compiling import compile_region
from subgraphkit_tensorrt.claiming.coverage import check_coverage
from subgraphkit_tensorrt.claiming.filters import Exclusions, check_filters
from subgraphkit_tensorrt.claiming.learned import Learned, blamed_nodes
from subgraphkit_tensorrt.claiming.plugins import load_plugins, plugin_refusal
from subgraphkit_tensorrt.claiming.questions import Questions
from subgraphkit_tensorrt.claiming.selector import TensorRTSelector
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.lowering import Conversions, load_modules, registered, rules_for
from subgraphkit_tensorrt.rules.judging import Rules

__all__ = ["TensorRTProperty", "properties_of"]

_BUILDING: Final = frozenset({"SGK162", "SGK170", "SGK171", "SGK172"})
"""Failures that other nodes, or fewer, may do away with."""


def properties_of(
    library: Library, options: Options, identity: str
) -> tuple["TensorRTProperty", ...]:
    """Return the properties of one bind.

    The first takes what the parser takes. A region of its nodes is a new model, of which the parser
    may take less; then the second divides what is left of it, knowing better.

    Args:
        library: The library.
        options: The options of the backend.
        identity: Names library and device, for what is learnt of them.
    """
    claims = Claims(library, options, identity)
    first = TensorRTProperty(claims)
    return (first, SecondLook(claims)) if library.capabilities.can_build else (first,)


class Claims:
    """What is known of the nodes of one bind, shared by its properties.

    Attributes:
        refusals: By node, why it is not taken; grows.
        left: By node, why it is not on TensorRT, once the graph is partitioned.
        taken: Nodes on TensorRT, once the graph is partitioned.

    Args:
        library: The library.
        options: The options of the backend.
        identity: Names library and device.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, library: Library, options: Options, identity: str) -> None:
        self.library = library
        self.options = options
        self.refusals: dict[int, Refusal] = {}
        self.left: Mapping[int, Refusal] = {}
        self.taken: set[int] = set()
        self.failures: list[tuple[frozenset[int], int]] = []
        self._identity = identity
        self._graph: BoundGraph | None = None
        self._borders: Borders | None = None
        self._questions: Questions | None = None
        self._learned: Learned | None = None

    def look_at(self, graph: BoundGraph, logger: logging.Logger) -> None:
        """Sieve a graph; nothing happens the second time.

        Args:
            graph: The graph.
            logger: Where it is said what was learnt, and which filters match nothing.

        Raises:
            OptionError: A plugin library or a module cannot be used (SGK167, SGK168), or a filter
                names an operator that there is not (SGK112).
        """
        if self._graph is graph:
            return
        options, library = self.options, self.library
        load_modules(options.modules)
        load_plugins(library, options.plugin_libraries)
        check_filters(graph, options, logger)
        asks = library.capabilities.can_build
        rules = rules_for(library, options)
        conversions = Conversions(rules)
        self._graph = graph
        self._borders = Borders(graph, rules)
        self._learned = Learned(graph, self._identity, options)
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
        if asks:
            self._questions = Questions(graph, library, options, rules, conversions)
            left = [i for i in graph.order if i not in self.refusals]
            left = [i for i in left if not graph.is_constant_node(i)]
            for node_id, refusal in self._questions.refusals(left).items():
                self.refusals[node_id] = conversions.advice(Node(graph, node_id), refusal)

    def _static(self, node: Node, rules: Rules, conversions: Conversions) -> Refusal | None:
        refusal = rules.refusal(node)
        if refusal is None and node.domain and registered(node) is None:
            refusal = plugin_refusal(self.library, node)
        if refusal is None or conversions.converts(node):
            return None
        return conversions.advice(node, refusal)

    @property
    def borders(self) -> Borders:
        """What may cross edges."""
        if self._borders is None:
            raise InternalError("the TensorRT property is asked before it is prepared")
        return self._borders

    def review(self, subgraph: Subgraph) -> Answer:
        """Ask the parser about a finished candidate; what it names is refused from now on."""
        if self._questions is None:
            return True
        found = self._questions.refusals_in(subgraph)
        if not found:
            return True
        self.refusals.update(found)
        node_id, refusal = next(iter(found.items()))
        label = subgraph.graph.nodes[node_id].label
        return Refusal(
            refusal.code, f"of this region TensorRT does not take {label}: {refusal.text}"
        )

    def learn(self, nodes: Sequence[int], text: str) -> None:
        """Learn that nodes make builds fail."""
        self.refusals.update(dict.fromkeys(nodes, Refusal("compile_failed", text)))
        if self._learned is not None:
            self._learned.add(nodes, text)

    def demand(self, graph: BoundGraph) -> None:
        """Compare what is taken with what the user demands.

        Raises:
            BackendError: It is less (SGK165).
        """
        check_coverage(graph, self.taken, {**self.left, **self.refusals}, self.options)


class TensorRTProperty(SubgraphProperty):
    """Takes regions of nodes that TensorRT takes together.

    Attributes:
        claims: What is known of the nodes.

    Args:
        claims: What is known of the nodes, shared by the properties of a bind.
    """

    name: ClassVar[str] = "whole"

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.min_nodes = claims.options.min_subgraph_nodes

    def prepare(self, graph: BoundGraph, context: BindContext) -> None:
        """Put all nodes through the rules, and what is left to the parser.

        Raises:
            BackendUnavailableError: The library cannot build (SGK104).
        """
        library = self.claims.library
        if not library.capabilities.can_build:
            title = f"{library.flavour.title} {library.capabilities.version}"
            raise BackendUnavailableError(
                "SGK104",
                f"backend 'tensorrt' cannot compile here: {title} runs engines and builds none",
                backend="tensorrt",
                hint="Open a bundle that was exported with version_compatible=true, or install a "
                "library that builds: pip install 'subgraphkit-tensorrt[cu13]'",
            )
        self.claims.look_at(graph, context.logger)

    def create_selector(self, graph: BoundGraph) -> TensorRTSelector:
        """Make the selector."""
        del graph
        return TensorRTSelector(self.claims.refusals)

    def accept(self, subgraph: Subgraph) -> Answer:
        """Ask the parser about the region as it will be built."""
        return self.claims.review(subgraph)

    def accept_input(self, node: Node, value: str) -> Answer:
        """Say whether TensorRT can be handed a value."""
        return self.claims.borders.accept_input(node, value)

    def accept_output(self, node: Node, value: str) -> Answer:
        """Say whether TensorRT can hand out a value."""
        return self.claims.borders.accept_output(node, value)

    def duplicable(self, node: Node) -> bool:
        """Say whether a node is a cheap piece of a shape computation, or a weight's scale."""
        return self.claims.borders.duplicable(node)

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        """Build the engines of a region.

        Raises:
            Unsupported: The builder refuses nodes, or the whole.
            CompileError: It does, and ``on_build_failure`` is ``"raise"``; or it is not the nodes
                that are at fault, but the machine or an option.
            BackendError: Less than was demanded would be left (SGK165).
        """
        claims = self.claims
        try:
            return compile_region(subgraph, claims.library, claims.options, context.logger)
        except CompileError as error:
            if claims.options.on_build_failure == "raise" or error.code not in _BUILDING:
                raise
            if fault_of_machine(error.context.get("lines", ())):
                raise
            raise self._given_back(subgraph, error) from error

    def finish(self, partitioning: PartitionSummary, context: BindContext) -> None:
        """Compare what TensorRT got with what the user demands."""
        mine = [one for one in partitioning.subgraphs if one.backend == context.backend]
        claims = self.claims
        claims.taken = {node for subgraph in mine for node in subgraph.home}
        claims.left = partitioning.refusals_by(context.backend)
        if partitioning.subgraphs:
            claims.demand(partitioning.subgraphs[0].graph)

    def _given_back(self, subgraph: Subgraph, error: CompileError) -> Unsupported:
        claims = self.claims
        inside = frozenset(subgraph.nodes)
        depth = 1 + max((depth for nodes, depth in claims.failures if inside <= nodes), default=0)
        claims.failures.append((inside, depth))
        blamed = [node for node in blamed_nodes(subgraph, error) if node in inside]
        text = " ".join(f"{error.message}. {error.hint}".split())
        if depth > claims.options.max_build_retries or len(blamed) == len(inside):
            blamed = []
        claims.learn(blamed or subgraph.home, text)
        claims.taken.difference_update(blamed or subgraph.home)
        claims.demand(subgraph.graph)
        return Unsupported(text, nodes=blamed)


class SecondLook(TensorRTProperty):
    """Divides what the first look got wrong."""

    name: ClassVar[str] = "second look"


def _tell_learned(refusals: Mapping[int, Refusal], logger: logging.Logger) -> None:
    if refusals:
        logger.warning(
            "backend 'tensorrt' leaves %d %s out because an earlier build failed: %s\n"
            "  'subgraphkit cache clear' forgets it; on_build_failure=raise builds all the same.",
            len(refusals),
            "node" if len(refusals) == 1 else "nodes",
            next(iter(refusals.values())).text,
        )
