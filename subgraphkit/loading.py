"""Loading: what there is of a model in, its graph out; the first step of the road."""

from subgraphkit import onnx_io
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.settings import Folders
from subgraphkit.onnx_io import Model, ModelSource

__all__ = ["load"]


def load(source: ModelSource | Model, *, data_roots: Folders = None) -> Model:
    """Load and validate a model; weights stay where they are until something needs them.

    Model-local functions are inlined; the numbers of nodes used everywhere later are places in the
    node list after that. A node list that is not in topological order is fine.

    Args:
        source: A path, an open file or the bytes of a model, in any form that ``onnx.load`` reads;
            an ``onnx.ModelProto`` (kept, not copied: do not change it afterwards); an
            ``onnx.GraphProto``, taken to be of the newest operator sets; an ``onnx_ir.Model``, an
            ``ONNXProgram`` of ``torch.onnx`` or a function of onnxscript. A loaded model is
            returned as it is.
        data_roots: Folders in or below which external data may be, beside the model's own folder
            and the one that its path is a link into; None for what is configured. Only a model
            loaded by path, and an ``onnx_ir.Model`` that was, may have external data.

    Returns:
        The model.

    Raises:
        ModelNotFoundError: The file does not exist or cannot be opened (SGK201).
        InvalidModelError: The model breaks a rule of ONNX (SGK202 to SGK205, SGK207 to SGK219).
        UnsupportedModelError: It needs a newer onnx (SGK206).
        CallerError: The source is of another kind, or a URL (SGK213).
        ConfigError: ``data_roots`` are not folders (SGK108).
    """
    if isinstance(source, Model):
        return source
    if data_roots is not None:
        given = resolve(data_roots=data_roots).data_roots
        return onnx_io.load(source, lambda: given)
    # The configuration is read only if some data is elsewhere.
    return onnx_io.load(source, lambda: resolve().data_roots)
