"""Conversions: converters and their registration, the nodes they take, and the model afterwards."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.backend import Refusal
from subgraphkit.errors import BackendError
from subgraphkit.ir import Node, Subgraph
from subgraphkit.onnx_io import load
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.flavours import Library, find, has_operator
from subgraphkit_tensorrt.lowering.own import OWN, inline_definition
from subgraphkit_tensorrt.lowering.registry import (
    Converter,
    Lowering,
    Namer,
    Replacement,
    Sample,
    add,
    registered,
    replace_nodes,
    sample_model,
)
from subgraphkit_tensorrt.rules.static_rules import Rules

_MENDABLE: Final = frozenset({"op_unsupported", "attribute", "rank"})
"""Reasons that another way to write a node may do away with; element types stay what they are."""


class Conversions:
    """Decides which nodes are converted.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def replacement(self, node: Node, model: onnx.ModelProto) -> Replacement | None:
        """Return what a node is written as in a model; None if it stays as it is.

        Raises:
            BackendError: A converter raised, or returned something that is no replacement (SGK166).
        """
        lower = self._lowering(node)
        if lower is None:
            return None
        try:
            made = lower(node, Namer(model, node))
        except Exception as error:
            raise _converter_failure(node, f"raised {type(error).__name__}: {error}") from error
        if made is not None and not isinstance(made, Replacement):
            raise _converter_failure(node, f"returned {made!r}, expected a Replacement or None")
        if made is not None and any(self._is_missing(one) for one in made.nodes):
            return None
        return made

    def converts(self, node: Node) -> bool:
        """Say whether a node is written as others."""
        return self.replacement(node, onnx.ModelProto()) is not None

    def advice(self, node: Node, refusal: Refusal) -> Refusal:
        """Return the refusal of an operator TensorRT lacks with a word on how to add it."""
        if refusal.code != "op_unsupported":
            return refusal
        domain = f', domain="{node.domain}"' if node.domain else ""
        return Refusal(
            refusal.code,
            f"{refusal.text}; node {node.label}. If other operators can compute it, register a "
            f'converter: @subgraphkit_tensorrt.lowering.converter("{node.op_type}"{domain}, '
            f"since={node.opset}), in a module that the option modules names",
        )

    def _is_missing(self, node: onnx.NodeProto) -> bool:
        return not node.domain and node.op_type in self._rules.table.missing

    def _lowering(self, node: Node) -> Lowering | None:
        added = registered(node)
        if added is not None:
            return added.lower
        if node.domain or node.graph.is_constant_node(node.id):
            return None
        refusal = self._rules.refusal(node)
        if refusal is None or refusal.code not in _MENDABLE:
            return None
        return OWN.get(node.op_type, inline_definition)


def lower(proto: Any, subgraph: Subgraph, options: Options) -> None:
    """Convert what TensorRT would not take as it is in the model of a subgraph, in place.

    Nodes made for a node get its metadata. What is converted depends on the library in use, on the
    options and on the converters that are registered.

    Raises:
        BackendError: A converter failed (SGK166).
    """
    library = find(options.flavour).library
    if library is None:
        return
    apply(proto, subgraph, Conversions(rules_for(library, options)))


def rules_for(library: Library, options: Options) -> Rules:
    """Return the static rules for a library."""
    return Rules(
        library.capabilities,
        has_operator=partial(has_operator, library),
        truncate_double=options.truncate_double,
    )


def apply(proto: Any, subgraph: Subgraph, conversions: Conversions) -> None:
    """Convert the nodes of a model; see ``lower``."""
    producers, graph = subgraph.graph.producers, subgraph.graph
    replacements = {}
    for place, one in enumerate(proto.graph.node):
        made_by = producers.get(next(filter(None, one.output), ""))
        if made_by is None:
            continue
        replacement = conversions.replacement(Node(graph, made_by), proto)
        if replacement is not None:
            replacements[place] = replacement
    if replacements:
        replace_nodes(proto, replacements)


def _converter_failure(node: Node, problem: str) -> BackendError:
    return BackendError(
        "SGK166",
        f"the converter of {node.qualified_op_type} {problem} at node {node.label}",
        backend="tensorrt",
        hint="Mend the converter, or have it return None for nodes it cannot write as others.",
    )


_TOLERANCE: Final = 1e-4
"""Relative and absolute; what is wrong is wrong by more."""

_Arrays = Sequence[npt.NDArray[Any]]


def converter(
    op_type: str, *, domain: str = "", since: int = 1, samples: Iterable[Sample]
) -> Callable[[Lowering], Lowering]:
    """Register a function as the converter of an operator, after checking it on samples.

    ``since``: The first version of the operator set it is for; a node is given to the newest
    converter that is not newer than its operator set.

    Raises:
        BackendError: It computes something else than the operator, makes no valid model, or cannot
            be checked for want of samples (SGK166).

    Thread-safety: may be called from any thread; sessions bound before do not see it.
    """

    def register(lower: Lowering) -> Lowering:
        made = Converter(op_type, domain, since, lower, tuple(samples))
        if not made.samples:
            raise _wrong_converter(made, "cannot be checked, because it has no sample")
        used = [_prove_on(made, sample) for sample in made.samples]
        if not any(used):
            raise _wrong_converter(made, "declines every sample")
        add(made)
        return lower

    return register


def _prove_on(converter: Converter, sample: Sample) -> bool:
    """Check one sample; False if the converter leaves its node as it is."""
    try:
        expected = _expected_outputs(converter, sample)
        model = sample_model(converter, _opset(converter), replace(sample, expected=expected))
        (node,) = load(model).graph.nodes
        made = converter.lower(node, Namer(model, node))
        if made is None:
            return False
        replace_nodes(model, {0: made})
        onnx.checker.check_model(model, full_check=True)
        for right, found in zip(expected, _compute(model, sample), strict=True):
            np.testing.assert_equal((found.dtype, found.shape), (right.dtype, right.shape))
            exact, got = right.astype(np.float64), found.astype(np.float64)
            np.testing.assert_allclose(got, exact, rtol=_TOLERANCE, atol=_TOLERANCE)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise _wrong_converter(converter, f"fails on a sample: {said}") from error
    return True


def _opset(converter: Converter) -> int:
    """Return the version to check with: the newest in which the operator is what it was."""
    if converter.domain:
        return converter.since
    newest = onnx.defs.onnx_opset_version()
    try:
        first = onnx.defs.get_schema(converter.op_type, max(converter.since, 1)).since_version
    except onnx.defs.SchemaError:
        return newest
    return max(first, converter.since)


def _expected_outputs(converter: Converter, sample: Sample) -> _Arrays:
    if sample.expected is not None:
        return sample.expected
    if converter.domain:
        raise ValueError("it has no expected outputs, and ONNX cannot compute them")
    return _compute(sample_model(converter, _opset(converter), sample), sample)


def _compute(model: onnx.ModelProto, sample: Sample) -> _Arrays:
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (it is slow to import)

    named = {f"x{place}": array for place, array in enumerate(sample.inputs)}
    feeds = {value.name: named[value.name] for value in model.graph.input}
    with warnings.catch_warnings():
        # onnx's own implementations use what NumPy has deprecated
        warnings.simplefilter("ignore")
        found: Any = ReferenceEvaluator(model).run(None, feeds)
    return list(found)


def _wrong_converter(converter: Converter, problem: str) -> BackendError:
    return BackendError(
        "SGK166",
        f"{converter.label} {problem}",
        backend="tensorrt",
        hint="Give samples=[Sample(inputs, attributes, expected)] of what the operator computes, "
        "and return a Replacement whose nodes make the node's outputs from its inputs.",
    )
