"""Loading: from any form of a model to its graph, the first step of the road."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from subgraphkit import configuration, onnx_io
from subgraphkit.ir import Subgraph
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io import Model, ModelSource


def load(
    source: ModelSource | Model | Subgraph,
    *,
    data_roots: "configuration.Folders" = None,
    limits: LoadLimits | Mapping[str, int | str] | str | None = None,
) -> Model:
    """Load and validate a model; weights stay where they are until something needs them.

    Model-local functions are inlined; the numbers of nodes used everywhere later are places in the
    node list after that. A node list that is not in topological order is fine.

    Args:
        source: A path, an open file or the bytes of a model in protobuf.
            Or an ``onnx.ModelProto`` (kept, not copied: do not change it afterwards), an
            ``onnx_ir.Model``, an ``ONNXProgram`` of ``torch.onnx`` or a function of onnxscript. A
            subgraph is a model of its own. A loaded model is returned as it is.
        data_roots: Folders for external data, and those below, beside the model's own folder and
            the folder its link leads to; None for the configured ones. Only a model loaded by path,
            and an ``onnx_ir.Model`` that was, may have external data.
        limits: The demands that the model may make; None for the configured ones.

    Returns:
        The model.

    Raises:
        ModelNotFoundError: The file does not exist or cannot be opened (SGK201).
        InvalidModelError: The model breaks a rule of ONNX (SGK202 to SGK205, SGK207 to SGK215,
            SGK218), or failed to load in an unforeseen way (SGK219).
        UnsupportedModelError: It needs a newer onnx (SGK206), or asks for more than the limits
            allow (SGK216).
        CallerError: The source is of another kind, or a URL (SGK213).
        ConfigError: ``data_roots`` are not folders, or ``limits`` cannot be read (SGK108).
    """
    if isinstance(source, Model):
        return source

    # The configuration is read only if some data is elsewhere, or the model is large. Binding
    # checks small models against the limits.
    @cache
    def settings() -> "configuration.ResolvedConfig":
        return configuration.resolve(data_roots=data_roots, limits=limits)

    if data_roots is not None or limits is not None:
        settings()
    given = source.to_model() if isinstance(source, Subgraph) else source
    model = onnx_io.load(given, lambda: settings().data_roots, lambda: settings().limits)
    if limits is not None:
        settings().limits.require_all(model.asks)
    # Extensions had their turn on the model that a subgraph is of.
    return replace(model, is_edited=True) if isinstance(source, Subgraph) else model
