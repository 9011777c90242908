"""Loading: the first step of the road."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import onnx

from subgraphkit.boundary import walking
from subgraphkit.ir import Graph
from subgraphkit.lazy import collector_paused
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.external_data import DataFolders, MoreFolders
from subgraphkit.onnx_io.functions import inline_functions
from subgraphkit.onnx_io.payloads import Payload, taken_out
from subgraphkit.onnx_io.protos import ALIAS, without_alias
from subgraphkit.onnx_io.reading import read_graph
from subgraphkit.onnx_io.sources import LimitsOf, ModelSource, ReadModel, parse_model, read_model
from subgraphkit.onnx_io.validation import check_graph, opsets_of, require_text
from subgraphkit.onnx_io.weights import initializer_of

__all__ = ["Model", "load", "load_read"]

_SMALL: Final = LoadLimits(max_nodes=1000, max_operands=100, max_depth=4, max_rank=8)
"""What asks for no more is held against the limits when it is bound, where they are known."""


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
        conditions: Of the Ifs that were replaced by a branch, by number, the name and the value of
            the condition.
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
    apart: Sequence[Payload] = ()

    @property
    def name(self) -> str:
        """The name of the model in reports: its file's, or its graph's."""
        return self.path.name if self.path else (self.graph.name or "model")

    @property
    def data_bytes(self) -> int:
        """Bytes of the model that are in memory as long as it is; external data is not."""
        taken = sum(self.graph.constants[name].type.nbytes or 0 for name in self.taken_out)
        return taken + int(self.proto.ByteSize())

    @property
    def inside(self) -> frozenset[str]:
        """Names of the initializers whose data is in ``proto``, and is copied when it is read."""
        stored = self.proto.graph.initializer
        own = {one.name for one in stored if one.data_location != onnx.TensorProto.EXTERNAL}
        return frozenset(own - self.taken_out)

    def let_go(self) -> None:
        """Leave large weights that are in the model's file to those who hold them now.

        Who asks for them later has them read again, from the file as it was.
        """
        if self.folders is not None and self.path is not None:
            for payload in self.apart:
                payload.let_go(self.folders.read_again)

    def __repr__(self) -> str:
        """Render as ``Model('m.onnx', 176 nodes)``."""
        return f"Model({self.name!r}, {len(self.graph.nodes)} nodes)"


def load(source: ModelSource, more: MoreFolders = tuple, limits: LimitsOf = LoadLimits) -> Model:
    """Load and validate a model; weights stay where they are until something needs them.

    Model-local functions are inlined; the numbers of nodes used everywhere later are places in the
    node list after that. A node list that is not in topological order is fine.

    Args:
        source: The model; see ``subgraphkit.load``, which does the same with the folders that are
            configured.
        more: Returns the folders that external data may be in beside the model's own; asked only if
            some is in neither.
        limits: Returns what the model may ask for; asked only if it is not small.

    Returns:
        The model.

    Raises:
        ModelNotFoundError: The file does not exist or cannot be opened (SGK201).
        InvalidModelError: The model breaks a rule of ONNX (SGK202 to SGK205, SGK207 to SGK215,
            SGK218), or failed to load in a way that nobody foresaw (SGK219).
        UnsupportedModelError: It needs a newer onnx (SGK206), or asks for more than the limits
            allow (SGK216).
        CallerError: The source is of another kind, or a URL (SGK213).
    """
    return _load(read_model(source, more, limits), limits)


def load_read(data: bytes, path: Path, mapped: Mapping[str, memoryview] | None = None) -> Model:
    """Load a model from the bytes read of its file, even if the file was exchanged meanwhile.

    Args:
        data: The content of the file.
        path: The file; external data is looked for beside it.
        mapped: Files beside it that are in memory already, by name.

    Raises:
        ModelError: As ``load``.
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
            return _loaded(read, limits)
        except (TypeError, UnicodeError):
            # protobuf hands out bytes for what is to be text and is none
            require_text(read.proto, everywhere=True)
            raise


def _loaded(read: ReadModel, limits: LimitsOf) -> Model:
    stored, path, folders, size, apart = read
    opsets_of(stored)
    proto = inline_functions(stored, limits)
    # Functions may bring operator sets of their own along.
    opsets = opsets_of(proto)
    asks = {"max_model_bytes": size}

    def hold(found: Mapping[str, int]) -> None:
        asks.update(found)
        if any(one > getattr(_SMALL, name) for name, one in found.items()):
            limits().require_all(asks)

    if ALIAS in check_graph(proto.graph, opsets, folders, hold):
        proto = without_alias(proto)
    payloads = taken_out(proto.graph, apart)
    held = {
        tensor.name: initializer_of(tensor, folders, payload=payloads[tensor.name])
        for tensor in (proto.graph.initializer if payloads else ())
        if tensor.name in payloads
    }
    graph = read_graph(proto, proto.graph, opsets, folders, held=held)
    return Model(graph, proto, path, frozenset(payloads), folders, asks, apart=apart)
