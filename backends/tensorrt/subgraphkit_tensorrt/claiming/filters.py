"""Filters of the user: nodes kept from TensorRT, or in float32, and names that match nothing."""

import logging
import re
from collections.abc import Collection, Iterable, Iterator

import onnx

from subgraphkit.backend import Refusal, did_you_mean
from subgraphkit.errors import OptionError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit_tensorrt.backend_options import Options

__all__ = ["Exclusions", "check_filters"]


class Exclusions:
    """The nodes that the user keeps from TensorRT.

    Args:
        options: The options of the backend; patterns were checked.
    """

    def __init__(self, options: Options) -> None:
        self._operators = frozenset(options.exclude_ops)
        self._only = frozenset(options.only_ops)
        self._patterns = [re.compile(text) for text in options.exclude_nodes]

    def refusal(self, node: Node) -> Refusal | None:
        """Say which option keeps a node; None if none does."""
        names = {node.op_type, node.qualified_op_type}
        if names & self._operators:
            return Refusal("excluded", f"option exclude_ops names {node.op_type}")
        if self._only and not names & self._only:
            return Refusal("excluded", f"option only_ops does not name {node.op_type}")
        for pattern in self._patterns:
            if pattern.fullmatch(node.name):
                text = f"option exclude_nodes has {pattern.pattern!r}, which is {node.name!r}"
                return Refusal("excluded", text)
        return None


def check_filters(graph: BoundGraph, options: Options, logger: logging.Logger) -> None:
    """Make sure that operators named in options exist, and say which filters match no node.

    Args:
        graph: The graph.
        options: The options of the backend; patterns were checked.
        logger: Where it is said, in one warning.

    Raises:
        OptionError: ONNX has no operator of that name, nor has the model (SGK112).
    """
    idle = [*_idle_operators(graph, options), *_idle_patterns(graph, options)]
    if idle:
        logger.warning(
            "filters of backend 'tensorrt' that match no node of this model: %s", "; ".join(idle)
        )


def _idle_operators(graph: BoundGraph, options: Options) -> Iterator[str]:
    given = [("exclude_ops", word) for word in options.exclude_ops]
    given += [("only_ops", word) for word in options.only_ops]
    if not given:
        return
    present = {name for node in graph.nodes for name in (node.op_type, node.qualified_op_type)}
    for option, word in given:
        if word in present:
            continue
        known = {schema.name for schema in onnx.defs.get_all_schemas()}
        # An operator of another domain is nothing that ONNX could know of.
        if "::" not in word and word not in known:
            raise OptionError(
                "SGK112",
                f"option {option!r} of backend 'tensorrt' names {word!r}, which is no operator of "
                f"ONNX{did_you_mean(word, known | present)}",
                hint="Operators of other domains that the model need not have are named "
                "with their domain: com.acme::Name.",
                backend="tensorrt",
                option=option,
            )
        yield f"{option}={word}"


def _idle_patterns(graph: BoundGraph, options: Options) -> Iterator[str]:
    if options.exclude_nodes:
        names = {node.name for node in graph.nodes}
        for pattern in _idle(options.exclude_nodes, names):
            yield f"exclude_nodes={pattern}{did_you_mean(pattern, filter(None, names))}"
    if options.keep_fp32:
        names = {node.op_type for node in graph.nodes}
        words = names.union(*((node.name, *node.outputs) for node in graph.nodes))
        for pattern in _idle(options.keep_fp32, words):
            yield f"keep_fp32={pattern}{did_you_mean(pattern, names)}"


def _idle(patterns: Iterable[str], words: Collection[str]) -> Iterator[str]:
    """Return the patterns that match no word; thousands of plain words are looked up, not tried."""
    for text in patterns:
        if text in words or re.sub(r"\\(\W)", r"\1", text) in words:
            continue
        pattern = re.compile(text)
        if not any(pattern.fullmatch(word) for word in words):
            yield text
