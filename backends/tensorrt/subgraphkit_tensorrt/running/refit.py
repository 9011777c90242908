"""New weights for an engine that was built."""

from collections.abc import Sequence
from typing import Any

from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import PreparedModel, prepare_model
from subgraphkit_tensorrt.library.checks import check
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.engine import LoadedEngine

__all__ = ["refit"]


def refit(loaded: LoadedEngine, subgraph: Subgraph, options: Options, library: Library) -> None:
    """Put the weights of a subgraph into an engine, which nothing may be running on.

    Args:
        loaded: A refittable engine of the subgraph, or of one that differs in its weights alone.
        subgraph: The subgraph, with the new weights.
        options: The options of the backend; the model is rewritten as for the build.
        library: TensorRT.

    Raises:
        CompileError: TensorRT does not take them; the engine may hold some of them (SGK162).
    """
    model = prepare_model(subgraph, options)
    trt = library.trt
    with loaded.device.active(), listening() as lines:
        loaded.device.cuda.wait_for_device()
        loaded.contexts.forget_recordings()
        refitter = _refitter(loaded, library, lines)
        parser_refitter = trt.OnnxParserRefitter(refitter, library.logger)
        check(_parsed(parser_refitter, model), "read the new weights from the model", lines)
        missing = refitter.get_missing_weights()
        what = f"replace the weights; it lacks {', '.join(missing[:5])}"
        check(not missing, what, lines)
        check(refitter.refit_cuda_engine(), "replace the weights", lines)
        # What it read from may go now.
        del refitter


def _refitter(loaded: LoadedEngine, library: Library, lines: Sequence[str]) -> Any:
    try:
        found = library.trt.Refitter(loaded.handle, library.logger)
    except Exception as error:  # noqa: BLE001 (a binding raises TypeError for a null pointer)
        lines = (*lines, f"error: {type(error).__name__}: {error}")
        found = None
    return check(found, "make a refitter", lines)


def _parsed(parser_refitter: Any, model: PreparedModel) -> bool:
    # Looked up on the object: releases that have the class need not have the call.
    if model.weights and hasattr(type(parser_refitter), "load_initializer"):
        if not parser_refitter.load_model_proto(model.proto.SerializeToString()):
            return False
        for name, array in model.weights.items():
            if not parser_refitter.load_initializer(name, array.ctypes.data, array.nbytes):
                return False
        return bool(parser_refitter.refit_model_proto())
    return bool(parser_refitter.refit_from_bytes(model.whole().SerializeToString()))
