"""Selectors: the rules by which a region grows, one decision per node.

The order of the questions is MXNet's. For a seed, the pass asks ``select``. Then it goes breadth
first. For each node taken, it offers the producers of its inputs (``select_input``), then the
consumers of its outputs (``select_output``). At last ``filter`` sees all nodes taken. The pass
alone sees to it that the result is convex, and disjoint from earlier claims.

Source: MXNet subgraph API, ``SubgraphSelector`` and ``ContainOpSelector``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar

from subgraphkit.backend.plugin_api import ContractClass
from subgraphkit.backend.refusal import Answer, Refusal
from subgraphkit.errors import ConfigError
from subgraphkit.ir import Graph, Node

Predicate = Callable[[Node], Answer]


class SubgraphSelector(ContractClass, ABC):
    """Grows one candidate region from one seed node.

    The pass makes a new selector for every seed, so a selector may keep state. It must not change
    the graph, and must answer the same for the same graph. Answers are ``True``, ``False`` or a
    ``Refusal``. Nodes of operator ``Constant`` are never offered: they travel with their consumers.

    Thread-safety: used by one thread at a time.
    """

    stateless: ClassVar[bool] = False
    """True makes three promises. ``select`` depends on the node alone. ``select_input`` and
    ``select_output`` are ``select`` of the other node. ``filter`` keeps everything. The pass then
    asks each node once and may use exact algorithms."""

    splittable: ClassVar[bool] = True
    """Whether a candidate may become several regions, if it is not convex, or ``filter`` took it
    apart. With ``connectivity = "any"``, candidates from several seeds may also be divided anew
    together. False means that a region is a unit: it is regrown without the offending nodes, or
    given up."""

    @abstractmethod
    def select(self, node: Node) -> Answer:
        """Say whether a region may start at ``node``."""

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Say whether to take ``producer``, which makes an input of ``node``, taken before."""
        return self.select(producer)

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Say whether to take ``consumer``, which reads an output of ``node``, taken before."""
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

        Called before the pass grows again from the same seed without some nodes. It then asks
        ``select`` of the seed again.
        """


class OpSelector(SubgraphSelector):
    """Takes every node whose operator is listed; MXNet's ``ContainOpSelector``.

    Args:
        graph: The graph to be partitioned.
        operators: Operator names, or a mapping from operator name to ``True`` or to a predicate
            that looks at the node. Operators outside the default domain are written
            ``domain::Operator``.

    Raises:
        ConfigError: ``operators`` is a text, or a rule is neither a boolean nor callable (SGK121).
    """

    stateless = True

    def __init__(
        self, graph: Graph, operators: Collection[str] | Mapping[str, bool | Predicate]
    ) -> None:
        self.graph = graph
        if isinstance(operators, str):
            raise _misuse_error(
                f"OpSelector got the text {operators!r}, expected a collection of operator names",
                f"Write OpSelector(graph, [{operators!r}]).",
            )
        rules = operators if isinstance(operators, Mapping) else dict.fromkeys(operators, True)
        for operator, rule in rules.items():
            if not isinstance(rule, bool) and not callable(rule):
                raise _misuse_error(
                    f"the rule of OpSelector for operator {operator!r} is {rule!r}, expected True, "
                    "False or a predicate"
                )
        self._rules: Mapping[str, bool | Predicate] = rules

    def select(self, node: Node) -> Answer:
        """Look the operator up and, where the rule is a predicate, ask it."""
        operator = node.qualified_op_type
        rule = self._rules.get(operator, False)
        if rule is True or rule is False:
            return self._answer(operator, rule)
        return rule(node)

    def answer_by_operator(self, operator: str) -> Answer | None:
        """Return what ``select`` answers for all nodes of an operator, if it is the same.

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


class NodeSelector(SubgraphSelector):
    """Takes the nodes that a function takes, each looked at by itself.

    Args:
        answer: What ``select`` says of a node.
    """

    stateless = True

    def __init__(self, answer: Predicate) -> None:
        self._answer = answer

    def select(self, node: Node) -> Answer:
        """Ask the function."""
        return self._answer(node)


class PatternSelector(SubgraphSelector):
    """Takes chains of operators, such as Conv, then BatchNormalization, then Relu.

    A chain matches where each node feeds the next through its first output. No value between them
    is read by another node or is an output of the graph. A side exit would force the value out of
    the fused kernel, so it is refused. The longest match of the first pattern that fits wins. If
    the end of a match is not free, say claimed by another property, the next shorter match is
    taken.

    Args:
        graph: The graph to be partitioned.
        patterns: Sequences of steps. A step is an operator name, alternatives ``"Relu|Clip"``, or
            a step that may be absent, ``"BatchNormalization?"``.
        where: Optional predicate every node of a match must satisfy.

    Raises:
        ConfigError: ``patterns`` or one of them is a text, or a pattern has no steps (SGK121).
    """

    splittable = False

    def __init__(
        self, graph: Graph, patterns: Sequence[Sequence[str]], where: Predicate | None = None
    ) -> None:
        self.graph = graph
        self._patterns = [re.compile("".join(map(_step, one))) for one in _check_patterns(patterns)]
        self._longest = max((len(one) for one in patterns), default=0)
        self._where = where
        self._match: list[int] = []
        # How many nodes of the match are a match themselves, the first to be tried first.
        self._lengths: list[int] = []

    def select(self, node: Node) -> Answer:
        """Match every pattern from ``node`` on."""
        self.reset()
        refusal = Refusal("pattern", f"no pattern matches the chain from {node.label}")
        chain: list[Node] = []
        at: Node | None = node
        while at is not None and len(chain) < self._longest:
            chain.append(at)
            at = self._only_consumer(at)
        words = list(accumulate(f"{one.qualified_op_type} " for one in chain))
        lengths = range(len(chain), 0, -1)
        for pattern in self._patterns:
            self._lengths += [n for n in lengths if pattern.fullmatch(words[n - 1])]
        for place, one in enumerate(chain[: max(self._lengths, default=0)]):
            if self._where is not None and not (answer := self._where(one)):
                refused = Refusal("pattern", f"the predicate of the pattern refuses {one.label}")
                refusal = answer if isinstance(answer, Refusal) else refused
                self._lengths = [length for length in self._lengths if length <= place]
                break
        if not self._lengths:
            return refusal
        self._match = [one.id for one in chain[: self._lengths[0]]]
        return True

    def _only_consumer(self, node: Node) -> Node | None:
        """Return the one node that reads the outputs of ``node``, if there is no side exit."""
        consumers = {consumer.id for consumer in node.consumers()}
        if len(consumers) != 1 or any(self.graph.is_output(name) for name in node.outputs):
            return None
        consumer = self.graph.nodes[consumers.pop()]
        return consumer if consumer.inputs and node.outputs[0] in consumer.inputs else None

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Take nothing upstream: a match grows downwards from its first node."""
        return producer.id in self._match

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Take the next node of the match."""
        return consumer.id in self._match or Refusal("pattern", "the node is outside the match")

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        """Keep the match if it is complete, otherwise the first shorter one that is."""
        taken = {node.id for node in candidates}
        reached = next((at for at, n in enumerate(self._match) if n not in taken), len(self._match))
        length = next((length for length in self._lengths if length <= reached), 0)
        kept = frozenset(self._match[:length])
        return [node for node in candidates if node.id in kept]

    def reset(self) -> None:
        """Forget the match."""
        self._match, self._lengths = [], []


def _check_patterns(patterns: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    if isinstance(patterns, str):
        raise _misuse_error(
            f"PatternSelector got the text {patterns!r}, expected a list of patterns",
            f"Write PatternSelector(graph, [[{patterns!r}]]).",
        )
    for pattern in patterns:
        if isinstance(pattern, str):
            raise _misuse_error(
                f"PatternSelector got the pattern {pattern!r}, expected a list of steps",
                f"Write PatternSelector(graph, [[{pattern!r}]]).",
            )
        if not pattern:
            raise _misuse_error("PatternSelector got a pattern without steps")
    return patterns


def _step(step: str) -> str:
    """Write a step as a regular expression over operators with a blank behind each."""
    names = "|".join(map(re.escape, step.removesuffix("?").split("|")))
    return f"(?:(?:{names}) )" + "?" * step.endswith("?")


def _misuse_error(problem: str, hint: str = "") -> ConfigError:
    return ConfigError("SGK121", problem, hint=hint)
