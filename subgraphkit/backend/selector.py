"""Selectors: the rules by which a region grows, one decision per node.

The order of the questions is MXNet's: for a seed the pass asks ``select``; then, breadth first, for
each node taken it offers the producers of its inputs (``select_input``) and then the consumers of
its outputs (``select_output``); at last ``filter`` sees all that was taken. Whether the result is
convex, and disjoint from what others claimed, is the pass's business and never the selector's.

Source: MXNet subgraph API, ``SubgraphSelector`` and ``ContainOpSelector``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from subgraphkit.backend.refusal import Answer, Refusal
from subgraphkit.ir import Graph, Node

__all__ = ["OpSelector", "PatternSelector", "Predicate", "SubgraphSelector"]

Predicate = Callable[[Node], Answer]
"""A question about one node."""


class SubgraphSelector(ABC):
    """Grows one candidate region from one seed node.

    The pass makes a new selector for every seed, so a selector may keep state. It must not change
    the graph, and must answer the same for the same graph. Answers are ``True``, ``False`` or a
    ``Refusal``. Nodes of operator ``Constant`` are never offered: they travel with their consumers.

    Thread-safety: used by one thread at a time.
    """

    stateless: ClassVar[bool] = False
    """True promises that ``select`` depends on the node alone, that ``select_input`` and
    ``select_output`` are ``select`` of the other node and that ``filter`` keeps everything. The
    pass then asks each node once and may use exact algorithms."""

    splittable: ClassVar[bool] = True
    """Whether a candidate that is not convex, or that ``filter`` took apart, may become several
    regions. False means the region is regrown without the offending nodes, or given up."""

    @abstractmethod
    def select(self, node: Node) -> Answer:
        """Say whether a region may start at ``node``."""

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Say whether to take ``producer``, which makes an input of ``node``, taken before."""
        del node
        return self.select(producer)

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Say whether to take ``consumer``, which reads an output of ``node``, taken before."""
        del node
        return self.select(consumer)

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        """Take a last look at the candidates, in topological order.

        Returns:
            The nodes to keep, in any order. Returning a node that was not a candidate is an error;
            dropping nodes may split the rest into several regions.
        """
        return candidates

    def reset(self) -> None:
        """Forget the region grown so far.

        Called before the pass grows again from the same seed because some nodes had to be excluded;
        ``select`` of the seed is asked again afterwards.
        """


class OpSelector(SubgraphSelector):
    """Takes every node whose operator is listed; MXNet's ``ContainOpSelector``.

    Args:
        graph: The graph to be partitioned.
        operators: Operator names, or a mapping from operator name to ``True`` or to a predicate
            that looks at the node. Operators outside the default domain are written
            ``domain::Operator``.
    """

    stateless = True

    def __init__(
        self, graph: Graph, operators: Collection[str] | Mapping[str, bool | Predicate]
    ) -> None:
        self.graph = graph
        rules = operators if isinstance(operators, Mapping) else dict.fromkeys(operators, True)
        self._rules: Mapping[str, bool | Predicate] = rules

    def select(self, node: Node) -> Answer:
        """Look the operator up and, where the rule is a predicate, ask it."""
        operator = node.qualified_op_type
        rule = self._rules.get(operator, False)
        if rule is True or rule is False:
            return self._answer(operator, rule)
        return rule(node)

    def answer_by_operator(self, operator: str) -> Answer | None:
        """Say what ``select`` answers for every node of an operator, if it does not look at them.

        The pass asks this once per operator instead of ``select`` once per node, unless a subclass
        has a ``select`` of its own.

        Args:
            operator: Operator name; ``domain::Operator`` outside the default domain.

        Returns:
            The answer, or None where the rule is a predicate and each node has to be asked about.
        """
        rule = self._rules.get(operator, False)
        return self._answer(operator, rule) if rule is True or rule is False else None

    @staticmethod
    def _answer(operator: str, listed: bool) -> Answer:  # noqa: FBT001 (the rule itself)
        return listed or Refusal("op_unsupported", f"operator {operator} is not in the list")


class PatternSelector(SubgraphSelector):
    """Takes chains of operators, such as Conv, then BatchNormalization, then Relu.

    A chain matches where each node feeds the next through its first output, and no value between
    them is read by another node or is an output of the graph: a side exit would force the value out
    of the fused kernel, so it is refused. The longest match of the first pattern that fits wins.

    Args:
        graph: The graph to be partitioned.
        patterns: Sequences of steps. A step is an operator name, alternatives ``"Relu|Clip"``, or
            a step that may be absent, ``"BatchNormalization?"``.
        where: Optional predicate every node of a match must satisfy.
    """

    splittable = False

    def __init__(
        self,
        graph: Graph,
        patterns: Sequence[Sequence[str]],
        where: Predicate | None = None,
    ) -> None:
        self.graph = graph
        self._patterns = [[_parse_step(step) for step in pattern] for pattern in patterns]
        self._where = where
        self._match: frozenset[int] = frozenset()

    def select(self, node: Node) -> Answer:
        """Match every pattern from ``node`` on."""
        self._match = frozenset()
        refusal = Refusal("pattern", f"no pattern starts at operator {node.qualified_op_type}")
        for pattern in self._patterns:
            outcome = self._chain(node, pattern)
            if isinstance(outcome, Refusal):
                refusal = outcome
            elif outcome:
                self._match = frozenset(outcome)
                return True
        return refusal

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Take nothing upstream: a match grows downwards from its first node."""
        del node
        return producer.id in self._match

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Take the next node of the match."""
        del node
        return consumer.id in self._match or Refusal("pattern", "the node is outside the match")

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        """Keep the match if it is complete, otherwise nothing."""
        taken = {node.id for node in candidates}
        return candidates if taken == self._match else ()

    def reset(self) -> None:
        """Forget the match."""
        self._match = frozenset()

    def _chain(
        self, start: Node, pattern: Sequence[tuple[frozenset[str], bool]]
    ) -> list[int] | Refusal:
        matched: list[int] = []
        candidate: Node | None = start
        for operators, optional in pattern:
            fits = candidate is not None and candidate.qualified_op_type in operators
            if not fits and optional:
                continue
            if candidate is None or not fits:
                return Refusal("pattern", f"the chain from {start.label} breaks off")
            if self._where is not None and not (answer := self._where(candidate)):
                return answer if isinstance(answer, Refusal) else Refusal("pattern", "not wanted")
            matched.append(candidate.id)
            candidate = self._only_consumer(candidate)
        return matched

    def _only_consumer(self, node: Node) -> Node | None:
        """Return the one node that reads the outputs of ``node``, if there is no side exit."""
        consumers = {consumer.id for consumer in node.consumers()}
        if len(consumers) != 1 or any(self.graph.is_output(name) for name in node.outputs):
            return None
        consumer = self.graph.nodes[consumers.pop()]
        return consumer if consumer.inputs and node.outputs[0] in consumer.inputs else None


def _parse_step(step: str) -> tuple[frozenset[str], bool]:
    optional = step.endswith("?")
    return frozenset(step.removesuffix("?").split("|")), optional
