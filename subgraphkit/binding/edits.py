"""Graph passes of extensions: at bind they replace nodes by nodes of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from subgraphkit.backend.hookspecs import Edit
from subgraphkit.boundary import pass_on
from subgraphkit.errors import (
    BackendError,
    InvalidModelError,
    UnsupportedModelError,
    describe_exception,
)
from subgraphkit.finding.extensions import agree
from subgraphkit.finding.messages import wrong_edit
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Inferred, Model, with_nodes
from subgraphkit.types import TensorType, ValueType


def edit_model(
    model: Model,
    graph: BoundGraph,
    extension: str,
    ask: Callable[..., Any],
    infer_types: Callable[[Model], Inferred],
) -> tuple[Model, Inferred] | None:
    """Have one extension edit a model, and type the result; None if it edits nothing.

    Raises BackendError (SGK224) if it fails, or leaves no graph, or values of other types.
    """
    edits: list[Edit] = []
    try:
        edits += chain.from_iterable(ask(graph=graph))
        if not edits:
            return None
        _check(edits, graph)
        further = _with_edits(model, graph.types, edits, extension)
        inferred = infer_types(further)
        _check_types(edits, graph, inferred)
    except InvalidModelError as error:
        raise _wrong(extension, graph, edits, error.message) from error
    except UnsupportedModelError:
        raise
    except BaseException as error:
        pass_on(error)
        raised = f"it raised {describe_exception(error)}"
        raise _wrong(extension, graph, edits, raised) from error
    return further, inferred


def _wrong(name: str, graph: BoundGraph, edits: Sequence[object], problem: str) -> BackendError:
    replaced = [node for edit in edits if isinstance(edit, Edit) for node in edit.nodes]
    labels = [graph.nodes[node].label for node in replaced if node in graph.order]
    return wrong_edit(name, graph.name, labels, problem)


def _check(edits: Sequence[object], graph: BoundGraph) -> None:
    """Refuse edits that cannot be made (InvalidModelError, SGK224)."""
    known, gone = frozenset(graph.order), set[int]()
    for edit in edits:
        if not isinstance(edit, Edit):
            raise InvalidModelError("SGK224", f"it returned {edit!r:.200}, expected an Edit")
        for node in edit.nodes:
            if node not in known:
                raise InvalidModelError("SGK224", f"the graph has no node of number {node!r}")
            if node in gone:
                label = graph.nodes[node].label
                raise InvalidModelError("SGK224", f"two edits replace node {label}")
            gone.add(node)


def _check_types(edits: Sequence[Edit], graph: BoundGraph, inferred: Inferred) -> None:
    """Refuse edits that change the type of a value (InvalidModelError, SGK224)."""
    made = (graph.table.outputs[node] for edit in edits for node in edit.nodes)
    for name in chain.from_iterable(made):
        before, after = graph.types.get(name), inferred.types.get(name)
        if after is not None and before is not None and _differ(before, after):
            problem = f"value {name!r} would be {after} and was {before}"
            raise InvalidModelError("SGK224", problem)


def _with_edits(
    model: Model, types: Mapping[str, ValueType], edits: Sequence[Edit], extension: str
) -> Model:
    reasons = {
        node: f"replaced by extension {extension!r}" + (f": {edit.reason}" if edit.reason else "")
        for edit in edits
        for node in edit.nodes
    }
    added = chain.from_iterable(edit.replacement for edit in edits)
    constants = {name: np.asarray(data) for edit in edits for name, data in edit.constants.items()}
    return replace(with_nodes(model, reasons, added, constants, types), is_edited=True)


def _differ(before: ValueType, after: ValueType) -> bool:
    """Say whether a value of one type cannot be one of the other; sizes may be open in either."""
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return before != after
    pairs = zip(before.shape or (), after.shape or (), strict=False)
    return not agree(before, after) or any(
        isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs
    )
