"""The backend: one property that takes every node this build of ONNX Runtime can run."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

import onnx

import subgraphkit as sk
from subgraphkit.backend import (
    Answer,
    BindContext,
    Connectivity,
    Footprint,
    Progress,
    RegionFallback,
    Side,
    constant_bytes,
    installed_versions,
    is_elementwise,
    peak_of_values,
)
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import outside_weights, write_value_info
from subgraphkit.types import ValueType
from subgraphkit_onnxruntime import library
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.claims import Claims, is_known
from subgraphkit_onnxruntime.deviations import cuts_products_off, is_fed_sum
from subgraphkit_onnxruntime.operator import OnnxRuntimeOperator
from subgraphkit_onnxruntime.profiling import OURS, ProfiledOperator
from subgraphkit_onnxruntime.settings import NAME, SessionSettings, read_settings
from subgraphkit_onnxruntime.tensors import is_plain
from subgraphkit_onnxruntime.weights import HandedWeights

_INSTALL: Final = (
    "pip install 'subgraphkit-onnxruntime[cpu]', or [gpu] for NVIDIA devices; one of them only, "
    "since both own the module onnxruntime."
)
_CLASH: Final = "own the same module and break each other: uninstall all of them, then install one."
_OF_BYTES: Final = re.compile(r"Quantize|^Q|Integer")
"""Operators that ONNX Runtime may join to products of 8-bit numbers."""

_SESSION_OF_A_NODE: Final = 8 << 10
"""Bytes that a session has for a node beside its constants."""
_LIBRARY: Final = 4 << 20
"""Bytes of code and of threads that ONNX Runtime touches with the first model of some size."""


class OnnxRuntimeProperty(sk.SubgraphProperty):
    """Whatever ONNX Runtime can run, in as few sessions as possible."""

    name: ClassVar[str] = "sessions"
    connectivity: Connectivity = "any"

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._claims: Claims | None = None

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        return self._about(graph)

    def accept(self, subgraph: sk.Subgraph) -> Answer:
        """Refuse the one mixture at the edge that ONNX Runtime has no call for."""
        claims = self._about(subgraph.graph)
        types = [claims.type_of(name) for name in (*subgraph.inputs, *subgraph.outputs)]
        if all(map(is_plain, types)) or all(map(_is_number, types)):
            return True
        text = "strings or sequences and bfloat16 or float8 enter or leave together"
        return sk.Refusal("border", text)

    def accept_boundary(self, node: sk.Node, value: str, side: Side) -> Answer:
        del side
        return self._about(node.graph).may_cross(value)

    def create_operator(
        self, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Open a session over the weights of the model, without a copy of them.

        Raises:
            Unsupported: ONNX Runtime refuses the region; names the nodes it complains about.
        """
        profile = context.options.profile
        return self._open(subgraph, context, f"{profile}_{subgraph.id}" if profile else "")

    def _open(
        self, subgraph: sk.Subgraph, context: BindContext[Options], prefix: str
    ) -> OnnxRuntimeOperator:
        claims = self._about(subgraph.graph)
        shares = context.shares_processors
        settings = self._settings.for_pool(context.threads, shares_processors=shares)
        try:
            session, weights = self._session(subgraph, settings, prefix, context.progress)
        except Exception as error:
            context.progress.check()  # that it was stopped is no refusal
            if not library.is_refusal(error):
                raise
            raise _refusal_of(subgraph, error) from error
        fed = f"what is fed to subgraph {subgraph.id!r} has no elements, fewer than a window"
        reason = f"{fed}, or sums beyond 53 bits, which ONNX Runtime does not compute"
        return OnnxRuntimeOperator(
            session,
            _types(claims, subgraph.inputs),
            _types(claims, subgraph.outputs),
            weights.to_hold(),
            settings,
            facts=_facts(session, subgraph, settings, profiling=bool(prefix)),
            profiled=partial(ProfiledOperator, partial(self._open, subgraph, context), subgraph),
            fallback=RegionFallback(subgraph, context.compile, reason),
            summed=[one.inputs[0] for one in subgraph.members if is_fed_sum(one)],
        )

    def _session(
        self, subgraph: sk.Subgraph, settings: SessionSettings, prefix: str, progress: Progress
    ) -> tuple[Any, HandedWeights]:
        """Open a session; its weights come from files, unless these were replaced meanwhile.

        Notes of nodes may say which provider is to run them, and nothing to processors alone.
        Where ONNX Runtime fails to join quantized operators, they are run as they are.
        """
        model = subgraph.to_model(weights="outside", notes=not settings.is_on_processors)
        _name_nodes(model.graph, subgraph)
        _fill_types(model.graph, self._about(subgraph.graph))
        _show_quantized(model.graph)
        weights = HandedWeights.of(model, subgraph)
        if any(map(_may_multiply_bytes, model.graph.node)) and cuts_products_off():
            settings = settings.with_exact_products()
        data = library.write_for_library(model)
        is_quantized = b"DequantizeLinear" in data
        if is_quantized and any(one.bodies for one in subgraph.members):
            settings = settings.without_moving()  # one that reads what is moved ends the process
        if not settings.rounds_factors and _has_bytes_alone(model.graph):
            settings = settings.without_joining()
        try:
            return settings.open(data, weights, prefix, progress), weights
        except Exception as error:
            if not weights.are_there:
                weights = HandedWeights(outside_weights(model, subgraph))
            elif is_quantized and library.is_refusal(error):
                settings = settings.without_joining()
            else:
                raise
        return settings.open(library.write_for_library(model), weights, prefix, progress), weights

    def _about(self, graph: Any) -> Claims:
        if self._claims is None or self._claims.graph is not graph:
            self._claims = Claims(graph, self._settings)
        return self._claims


def _may_multiply_bytes(node: onnx.NodeProto) -> bool:
    return bool(_OF_BYTES.search(node.op_type)) or any(one.HasField("g") for one in node.attribute)


def _show_quantized(graph: onnx.GraphProto) -> None:
    """Make outputs nobody fetches of what is quantized: softmax, in bytes, is a step off.

    Where an output is moved, what is quantized behind that is quantized before it is handed out.
    """
    shown = {one.name for one in graph.output}
    read = {one.input[0] for one in graph.node if one.op_type == "QuantizeLinear"} - shown
    moved = [one.op_type for one in graph.node if shown.intersection(one.input[:1])]
    kinds = {"Softmax"} if _MOVES.isdisjoint(moved) else _MOVES | {"Softmax"}
    names = filter(read.__contains__, [one.output[0] for one in graph.node if one.op_type in kinds])
    graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, names))


def _has_bytes_alone(graph: onnx.GraphProto) -> bool:
    """Say whether weights of 8 bits are all that is quantized: exact products unpack them each run.

    Unpacked once, when the session is opened, they are computed with a hundred times faster.
    """
    read = {one.input[0] for one in graph.node if one.op_type == "DequantizeLinear"}
    stored = [one for one in graph.initializer if one.name in read and one.data_type in _BYTES]
    return bool(stored) and _QUANTIZING.isdisjoint([one.op_type for one in graph.node])


_MOVES: Final = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_QUANTIZING: Final = frozenset({"DynamicQuantizeLinear", "QuantizeLinear"})
_BYTES: Final = frozenset({onnx.TensorProto.INT8, onnx.TensorProto.UINT8})


class OnnxRuntimeBackend(sk.Backend[Options]):
    """Runs whole subgraphs as sessions of ONNX Runtime."""

    name: ClassVar[str] = NAME
    api: ClassVar[str] = "1.0"
    traits = sk.Traits(
        pool="spins",
        evidence="asked",
        loses_nan=frozenset({"GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "Sign"}),
    )

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self._settings = read_settings(self.option_values)

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return (OnnxRuntimeProperty(self._settings),)

    def footprint(self, subgraph: sk.Subgraph) -> Footprint:
        """Count a copy of every constant, packed or as it is, and the arena.

        While the session is opened, packed constants are in memory several times: filters of
        convolutions are reordered in the model first. The first run takes its values from the arena
        one by one, so they lie scattered. Later runs take one block beside those. Without an arena
        they are given back one by one.
        """
        values = peak_of_values(subgraph, overwrites=is_elementwise)
        held = constant_bytes(subgraph) + len(subgraph.members) * _SESSION_OF_A_NODE
        opening = constant_bytes(subgraph, lambda n, at: at == 1 and n.op_type == "Conv") * 3 // 2
        keeps = self.option_values.arena
        work = values.bytes * (3 if keeps else 1)
        return Footprint(held, opening, values, work, keeps_work=keeps, library=_LIBRARY)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Say which wheel is installed and what its build can run on."""
        wheels = installed_versions(*library.WHEELS)
        clash = f"{' and '.join(wheels)} {_CLASH}" if len(wheels) > 1 else ""
        try:
            build = library.onnxruntime()
            providers = tuple(build.get_available_providers())
            versions = wheels or {"onnxruntime": str(build.__version__)}
            if deep:
                read_settings(Options())
        except Exception as error:  # noqa: BLE001 (a probe never raises)
            problem = f"onnxruntime cannot be imported: {type(error).__name__}: {error}"
            hint = clash or _INSTALL
            return sk.ProbeResult(available=False, versions=wheels, problems=(problem,), hint=hint)
        return sk.ProbeResult(available=True, devices=providers, versions=versions, hint=clash)

    def fingerprint(self) -> str:
        """Return the identity of build and providers."""
        build = library.onnxruntime()
        return f"{NAME};{build.__version__};{build.get_build_info()};{self._settings.key}"


def _is_number(type_: ValueType | None) -> bool:
    name = "" if type_ is None else type_.onnx_name
    return name.startswith("tensor(") and "string" not in name


def _types(claims: Claims, names: Sequence[str]) -> dict[str, ValueType]:
    return {name: type_ for name in names if (type_ := claims.type_of(name)) is not None}


def _name_nodes(graph: onnx.GraphProto, subgraph: sk.Subgraph) -> None:
    """Name nodes by their place in the model: ONNX lets names be empty or repeated."""
    makers = subgraph.graph.producers
    for proto in graph.node:
        if (first := next(filter(None, proto.output), None)) is not None:
            proto.name = f"#{makers[first]} {proto.name}".rstrip()


def _fill_types(graph: onnx.GraphProto, claims: Claims) -> None:
    """Tell what ONNX Runtime itself found out about values that ONNX cannot type."""
    for value in (*graph.input, *graph.output):
        if not is_known(claims.graph.types.get(value.name)):
            value.CopyFrom(write_value_info(value.name, claims.type_of(value.name)))


def _refusal_of(subgraph: sk.Subgraph, error: Exception) -> sk.Unsupported:
    words = library.words_of(error)
    blamed = [node for node in subgraph.nodes if str(node) in OURS.findall(words)]
    return sk.Unsupported(f"ONNX Runtime: {words}", nodes=blamed)


def _facts(
    session: Any, subgraph: sk.Subgraph, settings: SessionSettings, *, profiling: bool
) -> dict[str, Any]:
    assigned = assigned_nodes(session)
    return {
        "library": f"onnxruntime {library.onnxruntime().__version__}",
        "providers": list(session.get_providers()),
        "optimization": settings.options.optimization,
        "threads": settings.options.threads or None,
        "nodes": len(subgraph.members),
        "weight_bytes": sum(stored.type.nbytes or 0 for stored in subgraph.constants.values()),
        **({"nodes_by_provider": assigned} if assigned else {}),
        **({"profiling": True} if profiling else {}),
    }


def assigned_nodes(session: Any) -> dict[str, int]:
    """Return how many nodes each provider runs, as far as ONNX Runtime recorded it."""
    counts: dict[str, int] = {}
    for group in getattr(session, "get_provider_graph_assignment_info", list)():
        counts[group.ep_name] = counts.get(group.ep_name, 0) + len(group.get_nodes())
    return counts
