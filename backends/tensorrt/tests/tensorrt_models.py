"""Small models for building, and the library to build them with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import subgraphkit as sk
from subgraphkit.backend import BindContext, Progress, ProgressEvent
from subgraphkit.binding import BoundModel
from subgraphkit.ir import Subgraph, make_subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building import build, profiles
from subgraphkit_tensorrt.building.plan import EnginePlan
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.flavours import Library, find
from subgraphkit_tensorrt.running.regions import compile_region

needs_rtx = pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)
NODES_OF_BLOCK = 4
WIDTH = 64


def rtx() -> Library:
    """Return TensorRT for RTX."""
    library = find("tensorrt_rtx").library
    assert library is not None
    return library


def options(**given: Any) -> Options:
    """Return the defaults with some options changed."""
    return Options(**given)


def blocks(seeds: Sequence[int] = (0, 0), width: int = WIDTH) -> onnx.ModelProto:
    """Return a chain of blocks, each with weights drawn from its seed: two products and a sum."""
    nodes, weights, x = [], [], "x"
    for place, seed in enumerate(seeds):
        draw = np.random.default_rng(seed)
        k, y = f"block{place}", f"y{place}"
        for name in ("first", "second"):
            weight = draw.standard_normal((width, width)).astype(np.float32)
            weights.append(numpy_helper.from_array(weight, f"{k}.{name}"))
        nodes += [
            helper.make_node("MatMul", [x, f"{k}.first"], [f"{k}.q"], name=f"{k}/first"),
            helper.make_node("Relu", [f"{k}.q"], [f"{k}.r"], name=f"{k}/relu"),
            helper.make_node("MatMul", [f"{k}.r", f"{k}.second"], [f"{k}.s"], name="twin"),
            helper.make_node("Add", [f"{k}.s", x], [y]),
        ]
        x = y
    shape = ["batch", "seq", width]
    return typed_model(nodes, {"x": shape}, {x: shape}, weights)


def typed_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any] | None],
    weights: Sequence[Any] = (),
    types: Mapping[str, int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model; values are float32 unless ``types`` says otherwise."""
    known = types or {}

    def info(name: str, shape: Sequence[Any] | None) -> Any:
        return helper.make_tensor_value_info(name, known.get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        nodes,
        "small",
        [info(*one) for one in inputs.items()],
        [info(*one) for one in outputs.items()],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def bound(model: onnx.ModelProto, **shapes: Any) -> BoundModel:
    """Bind a model."""
    # What TensorRT makes of a model is tested, so all nodes are left for it.
    return sk.bind(sk.load(model), shapes or None, backend="none", fold=False)


def whole(model: onnx.ModelProto, **shapes: Any) -> Subgraph:
    """Return a model as one subgraph."""
    graph = bound(model, **shapes)
    return make_subgraph(graph, list(graph.order), "tensorrt")


def cut(graph: BoundModel, block: int) -> Subgraph:
    """Return one block of a model of ``blocks``."""
    first = block * NODES_OF_BLOCK
    return make_subgraph(graph, range(first, first + NODES_OF_BLOCK), "tensorrt")


def context_of(graph: Any, given: Mapping[str, Any]) -> BindContext:
    """Return what a property is told about a bind."""
    return BindContext(
        given, kept_folder=partial(graph.kept_folder, "tensorrt"), reshape=graph.reshape
    )


def ranges_at_bind(subgraph: Subgraph, given: Mapping[str, Any]) -> dict[str, InputRange] | None:
    """Return the only ranges of a subgraph's inputs by options alone."""
    (found,) = buckets_at_bind(subgraph, given) or [None]
    return found


def buckets_at_bind(
    subgraph: Subgraph, given: Mapping[str, Any]
) -> list[dict[str, InputRange]] | None:
    """Return the ranges of every engine of a subgraph by options alone."""
    return profiles.buckets_at_bind(subgraph, context_of(subgraph.graph, given))


def build_engine(
    subgraph: Subgraph,
    given: Mapping[str, Any],
    library: Library,
    ranges: Mapping[str, InputRange] | None = None,
    listener: Callable[[ProgressEvent], object] | None = None,
) -> EnginePlan:
    """Build the plan of a subgraph by options alone, and tell a listener how far that is."""
    context = replace(context_of(subgraph.graph, given), progress=Progress(listener))
    wanted = buckets_at_bind(subgraph, given) if ranges is None else [ranges]
    if wanted is None:
        now = replace(context, options=replace(context.options, allow_runtime_build=False))
        compile_region(subgraph, library, now)
        raise AssertionError("the shapes are not known and it was built")
    return build.build_engine(subgraph, context, library, wanted)
