"""From a subgraph, or from a stored engine, to an operator."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit.backend import BindContext, InnerTime
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit.types import DataType, TensorType
from subgraphkit_openvino import library
from subgraphkit_openvino.backend_options import Options
from subgraphkit_openvino.guarding import Fallback, Guard
from subgraphkit_openvino.importing import import_model, number_nodes, write_model
from subgraphkit_openvino.integers import WholeNumbers
from subgraphkit_openvino.memory import ELEMENT_TYPES, tensor_over, unlock
from subgraphkit_openvino.operator import CountedOperator, OpenVINOOperator, open_seal
from subgraphkit_openvino.rewrites import REWRITES

_OF_BYTES: Final = frozenset(
    {"ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
)
"""Operators that lead to products of 8-bit numbers."""


def configuration(options: Options) -> dict[str, Any]:
    """Return OpenVINO's properties for the options of the backend."""
    found: dict[str, Any] = {"PERFORMANCE_HINT": options.hint.upper()}
    if options.precision != "auto":
        found["INFERENCE_PRECISION_HINT"] = options.precision
    if options.precision == "f32":
        # Keeps the library from quantising activations where weights are compressed.
        found["EXECUTION_MODE_HINT"] = "ACCURACY"
    if options.threads is not None:
        found["INFERENCE_NUM_THREADS"] = options.threads
    if options.streams is not None:
        found["NUM_STREAMS"] = options.streams
    return found


def _settings(subgraph: Subgraph, options: Options, context: BindContext) -> dict[str, Any]:
    """Return OpenVINO's properties for one region.

    OpenVINO ties its threads, and while it runs the one that calls it, to the first processors,
    in every process to the same ones. That pays where a session has the whole machine; otherwise
    others would compute there while further processors are idle.
    """
    found = configuration(options)
    if options.device != "CPU":
        return found
    threads = context.threads if options.threads is None else options.threads
    if threads is not None:
        found["INFERENCE_NUM_THREADS"] = threads
    if threads is not None or context.shares_processors:
        found["ENABLE_CPU_PINNING"] = False
    nodes = [subgraph.graph.nodes[node] for node in subgraph.nodes]
    names = {node.op_type for node in nodes}
    has_short = any(DataType.BFLOAT16 in map(node.dtype, range(len(node.inputs))) for node in nodes)
    is_mixed = has_short and "QuantizeLinear" in names  # its transformations for 8 bits fail there
    if is_mixed or not names.isdisjoint(_OF_BYTES):
        found |= library.exact_bytes(is_needed=is_mixed)
    products = (node.shape(1) or () for node in nodes if node.op_type == "MatMul")
    if threads == 1 and any(sizes[-2:-1] == (1,) for sizes in products):
        found |= library.query_settings("CPU")  # joined on one thread, they end the process
    return found


def integers_in(graph: BoundGraph, options: Options) -> WholeNumbers | None:
    """Return the whole numbers in a graph; None if the user lets OpenVINO compute them narrowly."""
    return None if options.narrow else WholeNumbers(graph)


def _make_guard(subgraph: Subgraph, options: Options, fallback: Fallback) -> Guard:
    if (numbers := integers_in(subgraph.graph, options)) is None:
        return Guard(subgraph, (), (), fallback)
    return Guard(subgraph, numbers.guards(subgraph), numbers.sized_guards(subgraph), fallback)


def compile_subgraph(
    subgraph: Subgraph, options: Options, context: BindContext,
    imported: tuple[Any, tuple[Any, ...]] | None = None,
) -> OpenVINOOperator:  # fmt: skip
    """Compile a region for a device.

    ``context``: The threads to compute with, and the fallback for numbers that OpenVINO would get
    wrong.

    Raises:
        CompileError: The importer or the device fails (SGK130).
        Unsupported: Indices cannot be compared with the size of their axis.
    """
    guard = _make_guard(subgraph, options, context.compile)
    try:
        engine = _engine_of(subgraph, options, context, imported)
        return OpenVINOOperator(engine, subgraph, guard, *_anew(subgraph, options, context))
    except Exception as error:
        raise _failure(subgraph, f"could not be compiled: {library.words(error)}") from error


def _model_of(subgraph: Subgraph, *, is_numbered: bool = False) -> tuple[Any, tuple[Any, ...]]:
    written = write_model(subgraph)
    if is_numbered:
        number_nodes(written.proto.graph, subgraph)
    return import_model(written), written.held


def _engine_of(
    subgraph: Subgraph, options: Options, context: BindContext,
    imported: tuple[Any, tuple[Any, ...]] | None = None, *, counts: bool = False,
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """Return a compiled model and what it refers to.

    ``context``: The threads to compute with.
    """
    settings = _settings(subgraph, options, context)
    if counts:
        settings |= {"PERF_COUNT": True, "NUM_STREAMS": 1}  # every stream has counters of its own
    model, held = imported or _model_of(subgraph)
    if options.device == "CPU":
        for rewrite in REWRITES:
            rewrite(model)
    compiled = library.core().compile_model(model, options.device, settings)
    _check_edge(compiled, subgraph)
    return compiled, held


def _anew(subgraph: Subgraph, options: Options, context: BindContext) -> tuple[Any, Any]:
    """Return what compiles a region again; and with counters, None where others count."""
    counted = partial(_with_clock, subgraph, options, context) if options.device == "CPU" else None
    return partial(_engine_of, subgraph, options, context), counted


def _with_clock(
    subgraph: Subgraph, options: Options, context: BindContext,
    record: Callable[[InnerTime], object],
) -> CountedOperator:  # fmt: skip
    """Compile a region anew for an operator that records the times of its layers."""
    numbered = _model_of(subgraph, is_numbered=True)  # names of layers lead back to nodes
    engine = _engine_of(subgraph, options, context, numbered, counts=True)
    guard = _make_guard(subgraph, options, context.compile)
    return CountedOperator(engine, subgraph, guard, record)


def restore(
    blob: bytes | memoryview, subgraph: Subgraph, options: Options, context: BindContext
) -> OpenVINOOperator:
    """Restore a serialized operator; CompileError (SGK130) if damaged or not of here."""
    try:
        exported = np.frombuffer(open_seal(blob), np.uint8)
        tensor = tensor_over(unlock(exported))
        settings = _settings(subgraph, options, context)
        compiled = library.core().import_model(tensor, options.device, settings)
        _check_edge(compiled, subgraph)
        guard = _make_guard(subgraph, options, context.compile)
        how = _anew(subgraph, options, context)
        return OpenVINOOperator((compiled, (exported,)), subgraph, guard, *how, blob)
    except Exception as error:
        raise _failure(subgraph, f"cannot be restored: {library.words(error)}") from error


def _check_edge(compiled: Any, subgraph: Subgraph) -> None:
    """Make sure that inputs and outputs are those of the subgraph; those of branches follow."""
    for kind, ports, types in (
        ("inputs", compiled.inputs, subgraph.input_types),
        ("outputs", compiled.outputs[: len(subgraph.outputs)], subgraph.output_types),
    ):
        found = [port.element_type.get_type_name() for port in ports]
        expected = [ELEMENT_TYPES[type_.dtype] for type_ in types if isinstance(type_, TensorType)]
        if found != expected:
            raise ValueError(f"its {kind} are {found}, expected {expected}")


def _failure(subgraph: Subgraph, what: str) -> CompileError:
    return CompileError(
        "SGK130",
        f"subgraph {subgraph.id!r} of {len(subgraph.nodes)} nodes {what}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="To run these nodes elsewhere, leave the backend out of the list or set "
        "on_compile_error='fallback'.",
    )
