"""Loading, the first step of the road; functions of a model are checked and inlined on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import defs, helper, inliner

from subgraphkit.boundary import walking
from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph
from subgraphkit.lazy import collector_paused
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.attribute_rules import body_protos, nodes_with_bodies
from subgraphkit.onnx_io.external_data import DataFolders, MoreFolders
from subgraphkit.onnx_io.payloads import Payload, taken_out
from subgraphkit.onnx_io.protos import ALIAS, copy_of, normal_domain, without_alias
from subgraphkit.onnx_io.reading import read_graph
from subgraphkit.onnx_io.sources import LimitsOf, ModelSource, ReadModel, parse_model, read_model
from subgraphkit.onnx_io.validation import check_graph, opsets_of, require_text
from subgraphkit.onnx_io.weights import initializer_of

# So many bytes that inlining repeats, such as those of a constant, count as a node.
_NODE_BYTES: Final = 1024

# The key under which the model of a bundle names the weights that are settled.
SETTLED: Final = "subgraphkit.settled"

_Key = tuple[str, str, str]
_Nodes = Sequence[onnx.NodeProto]


def inline_functions(model: onnx.ModelProto, limits: LimitsOf = LoadLimits) -> onnx.ModelProto:
    """Return the model with every call of a model-local function replaced by the function's body.

    The given model is returned as it is if it has no functions, and is never changed. This raises
    InvalidModelError (SGK212) for functions that call each other in a circle, or that onnx cannot
    inline. It raises UnsupportedModelError (SGK216) for calls that multiply beyond the limit.
    """
    if not model.functions:
        return model
    functions = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    _require_bounded(model, functions, limits)
    try:
        inlined = inliner.inline_local_functions(_prepared(model, functions), convert_version=True)
    except Exception as error:
        raise InvalidModelError(
            "SGK212", f"the model's functions cannot be inlined: {error}"
        ) from error
    _import_operator_sets(model, inlined)
    return inlined


def _prepared(model: onnx.ModelProto, functions: Mapping[_Key, Any]) -> onnx.ModelProto:
    """Return the model as onnx's inliner takes it.

    Functions import the model's operator sets where that changes no operator in them: the converter
    refuses nodes of unknown type. Calls state the defaults of attributes, which the inliner
    forgets. Every output of a function, and of its bodies, has a node of its own: the inliner loses
    other names.
    """
    wanted = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    copy = copy_of(model)
    for function in copy.functions:
        for entry in function.opset_import:
            domain, old = normal_domain(entry.domain), entry.version
            new = wanted.get(domain, old)
            own = (n for n in nodes_with_bodies(function.node) if normal_domain(n.domain) == domain)
            if new != old and all(_is_the_same(n.op_type, domain, old, new) for n in own):
                entry.version = new
        _name_outputs(function)
    for graph in (copy.graph, *copy.functions):
        for call in nodes_with_bodies(graph.node):
            stated = {one.name for one in call.attribute}
            called = functions.get(_key(call.domain, call.op_type, call.overload))
            default = called.attribute_proto if called is not None else ()
            call.attribute.extend(one for one in default if one.name not in stated)
    return copy


def _name_outputs(function: onnx.FunctionProto) -> None:
    """Name anew, by a node each, the outputs that no node makes or that were listed before."""
    graphs: list[Any] = [function]
    for holder in nodes_with_bodies(function.node):
        graphs += body_protos(holder).values()
    for graph in graphs:
        made = {name for node in graph.node for name in node.output}
        for place, value in enumerate(graph.output):
            if (name := getattr(value, "name", value)) not in made:
                new = f"{name}/handed_out_{place}"
                graph.node.append(helper.make_node("Identity", [name], [new]))
                if graph is function:
                    function.output[place] = new
                else:
                    value.name = new
            made.discard(name)


def _is_the_same(name: str, domain: str, version: int, target: int) -> bool:
    """Say whether two versions of an operator differ at most in the types they take."""
    try:
        forms = [_form(defs.get_schema(name, one, domain)) for one in (version, target)]
    except defs.SchemaError:
        return True  # not an operator of onnx, which has nothing to convert then
    return forms[0] == forms[1]


def _form(schema: defs.OpSchema) -> tuple[Any, ...]:
    formals = [(formal.name, formal.option) for formal in (*schema.inputs, *schema.outputs)]
    attributes = {
        name: (one.type, one.required, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    return formals, attributes


def _import_operator_sets(model: onnx.ModelProto, inlined: onnx.ModelProto) -> None:
    """Import operator sets that only the functions import; onnx's inliner leaves them out."""
    known = {normal_domain(entry.domain) for entry in inlined.opset_import}
    needed = {(normal_domain(e.domain), e.version) for f in model.functions for e in f.opset_import}
    for domain, version in sorted(one for one in needed if one[0] not in known):
        inlined.opset_import.add(domain=domain, version=version)


def _key(domain: str, name: str, overload: str) -> _Key:
    return normal_domain(domain), name, overload


def _require_bounded(
    model: onnx.ModelProto, functions: Mapping[_Key, onnx.FunctionProto], limits: LimitsOf
) -> None:
    """Count the nodes after inlining, from the calls, before anything is inlined."""
    nodes, size = _inlined_size(model.graph.node, _inlined_sizes(functions))
    stored = sum(_own_bytes(one) for one in functions.values())
    repeated = max(0, size - 2 * stored)
    limits().require("max_inlined_nodes", nodes + repeated // _NODE_BYTES)


def _inlined_sizes(functions: Mapping[_Key, onnx.FunctionProto]) -> dict[_Key, tuple[int, int]]:
    """Return each function's nodes once inlined, and their bytes, callees before callers.

    Raises InvalidModelError (SGK212) if a function calls itself, by way of others or at once.
    """
    calls = {key: _calls(one.node, functions) for key, one in functions.items()}
    sizes: dict[_Key, tuple[int, int]] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            count, size = _inlined_size(functions[key].node, sizes)
            sizes[key] = count, size + _own_bytes(functions[key])
    except CycleError as error:
        circle = " -> ".join(name for _, name, _ in reversed(error.args[1]))
        raise InvalidModelError(
            "SGK212",
            f"model-local functions call each other in a circle: {circle}",
            hint="ONNX functions must not be recursive; repetition needs Loop or Scan.",
        ) from None
    return sizes


def _own_bytes(function: onnx.FunctionProto) -> int:
    return sum(one.ByteSize() for one in (*function.node, *function.attribute_proto))


def _calls(nodes: _Nodes, known: Mapping[_Key, object]) -> list[_Key]:
    """Return the functions called by nodes and by the bodies in them, with repetition."""
    keys = (_key(one.domain, one.op_type, one.overload) for one in nodes_with_bodies(nodes))
    return [key for key in keys if key in known]


def _inlined_size(nodes: _Nodes, sizes: Mapping[_Key, tuple[int, int]]) -> tuple[int, int]:
    """Return how many nodes there are once inlined, and the bytes of those that take the place."""
    called = [sizes[key] for key in _calls(nodes, sizes)]
    return len(nodes) + sum(count for count, _ in called), sum(size for _, size in called)


# Smaller models are checked when they are bound, where the limits are known.
_SMALL: Final = LoadLimits(max_nodes=1000, max_operands=100, max_depth=4, max_rank=8)


@dataclass(frozen=True, eq=False)
class Model:
    """A valid model whose weights have not been read.

    Attributes:
        graph: The main graph, model-local functions inlined.
        proto: The model in protobuf, functions inlined; not to be changed. Large weights may have
            been taken out; read them through ``graph``.
        taken_out: Names of the initializers of ``proto`` that have no data there.
        path: The file it was loaded from, or None.
        folders: Where its external data may be, or None if it may have none.
        asks: What the model asks for, by the limit of ``LoadLimits`` that bounds it.
        conditions: Name and value of the condition of each If that a branch replaced, by number.
        replaced: Operator and reason of each replaced node, by number.
        is_edited: Whether extensions had their turn, or are to have none.
        apart: The data that was taken out.

    Thread-safety: immutable, safe.
    """

    graph: Graph
    proto: onnx.ModelProto
    path: Path | None
    taken_out: frozenset[str] = frozenset()
    folders: DataFolders | None = None
    asks: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[int, tuple[str, bool]] = field(default_factory=dict)
    replaced: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    is_edited: bool = False
    apart: Sequence[Payload] = ()

    @property
    def name(self) -> str:
        """The name of the model in reports: its file's, or its graph's."""
        return self.path.name if self.path else (self.graph.name or "model")

    @property
    def settled(self) -> frozenset[str]:
        """Weights from which the export of a bundle had computed constants of its model."""
        found = [one.value for one in self.proto.metadata_props if one.key == SETTLED]
        return frozenset(found[0].split("\0")) if found else frozenset()

    @property
    def data_bytes(self) -> int:
        """Bytes of the model that are in memory as long as it is; external data is not."""
        taken = sum(self.graph.constants[name].type.nbytes or 0 for name in self.taken_out)
        return taken + int(self.proto.ByteSize())

    def let_go(self) -> None:
        """Leave large weights in the model's file to their present holders.

        If somebody needs them later, they are read again from the unchanged file.
        """
        if self.folders is not None and self.path is not None:
            for payload in self.apart:
                payload.let_go(self.folders.read_again)

    def __repr__(self) -> str:
        """Render as ``Model('m.onnx', 176 nodes)``."""
        return f"Model({self.name!r}, {len(self.graph.nodes)} nodes)"


def load(source: ModelSource, more: MoreFolders = tuple, limits: LimitsOf = LoadLimits) -> Model:
    """Load and validate a model, as ``subgraphkit.load``, whose errors are raised.

    ``more``: Returns further folders for external data; asked only if some is not in the model's
    own.
    ``limits``: Returns the limits; asked only if the model is not small.
    """
    return _load(read_model(source, more, limits), limits)


def load_read(data: bytes, path: Path, mapped: Mapping[str, memoryview] | None = None) -> Model:
    """Load a model from the bytes read of its file, even if the file was exchanged meanwhile.

    ``path``: The file; external data is looked for beside it.
    ``mapped``: Files beside it that are in memory already, by name.
    """
    proto = parse_model(data, f"the file {path.name!r}")
    folders = DataFolders(path, mapped=mapped or {})
    return _load(ReadModel(proto, path, folders, len(data)), LoadLimits.unlimited)


@collector_paused()
def _load(read: ReadModel, limits: LimitsOf) -> Model:
    name = read.path.name if read.path else str(read.proto.graph.name or "model")
    with walking("load", name):
        try:
            require_text(read.proto, everywhere=False)
            return _make_model(read, limits)
        except (TypeError, UnicodeError):
            # protobuf returns bytes where text is broken
            require_text(read.proto, everywhere=True)
            raise


def _make_model(read: ReadModel, limits: LimitsOf) -> Model:
    stored, path, folders, size, apart = read
    opsets = opsets_of(stored)
    proto = inline_functions(stored, limits)
    if proto is not stored:  # functions may bring operator sets of their own along
        opsets = opsets_of(proto)
    asks = {"max_model_bytes": size}

    def hold(found: Mapping[str, int]) -> None:
        asks.update(found)
        if [name for name, one in found.items() if one > getattr(_SMALL, name)]:
            limits().require_all(asks)

    if ALIAS in check_graph(proto.graph, opsets, folders, hold):
        proto = without_alias(proto)
    payloads = taken_out(proto.graph, apart) if apart else {}
    held = {
        tensor.name: initializer_of(tensor, folders, payload=payloads[tensor.name])
        for tensor in (proto.graph.initializer if payloads else ())
        if tensor.name in payloads
    }
    graph = read_graph(proto, proto.graph, opsets, folders, held=held)
    return Model(graph, proto, path, frozenset(payloads), folders, asks, apart=apart)
