"""An engine: a plan that was loaded, its tensors, its contexts, and new weights for it."""

import weakref
from collections.abc import Sequence
from typing import Any, Final

from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit.types import DataType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.building.network import PACKED, element_type, feed
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import check, listening, make
from subgraphkit_tensorrt.running.contexts import Contexts
from subgraphkit_tensorrt.running.device import Device, Loader
from subgraphkit_tensorrt.running.io_tensors import IOTensor

_FREE_FOR_WEIGHTS: Final = 0.9


class LoadedEngine:
    """An engine on a device.

    Attributes:
        inputs: The inputs, in that order; those that the engine does not have are None.
        read: Those that it has, each with its place.
        leaves_host_alone: Whether no tensor of it is on the host, as shapes are.
        is_recordable: Whether its runs can be CUDA graphs: the host has no part in them.

    Raises:
        CompileError: TensorRT does not take the plan (SGK162), or it is not that of these inputs
            and outputs (SGK179).

    Thread-safety: may be used from any thread.
    """

    def __init__(
        self,
        blob: bytes,
        inputs: Sequence[str],
        outputs: Sequence[str],
        loader: Loader,
        options: Options,
        *,
        times: bool = False,
    ) -> None:
        self._library = loader.library
        self.device = loader.device
        with self.device.active(), listening() as lines:
            engine = check(loader.load(blob), "load an engine", lines, hint=_NOT_LOADED)
            read, made = _tensors(self._library.trt, engine)
            self.inputs = tuple(read.get(name) for name in inputs)
            for name in outputs:
                if name not in made:
                    raise _mismatch(f"it has no output {name!r}, only {', '.join(made)}")
            self.outputs = tuple(made[name] for name in outputs)
            if unknown := sorted(read.keys() - set(inputs)):
                raise _mismatch(f"it needs input {unknown[0]!r}, which the subgraph does not have")
            self.read = [(at, one) for at, one in enumerate(self.inputs) if one is not None]
            tensors = (*(one for _, one in self.read), *self.outputs)
            self.leaves_host_alone = not any(tensor.on_host for tensor in tensors)
            self.weight_budget = _stream_weights(loader, options, engine)
            self.is_recordable = self.leaves_host_alone and self.weight_budget is None
            self.plan_bytes = len(blob)
            self.contexts = Contexts(engine, loader, options, times=times)
            del engine  # it ends with the contexts, on its device
        self.device.retain()
        self._end = weakref.finalize(self, _close, self.device, self.contexts)
        self._end.atexit = False

    @property
    def handle(self) -> Any:
        """TensorRT's ``ICudaEngine``; None when it is closed."""
        return self.contexts.engine

    @property
    def refittable(self) -> bool:
        """Whether its weights can be replaced."""
        return self.handle is not None and bool(self.handle.refittable)

    def serialize(self) -> bytes:
        """Return a plan of it, with the weights it has; CompileError (SGK162) if it cannot."""
        with self.device.active(), listening() as lines:
            found = self.handle.serialize() if self.handle is not None else None
            return bytes(check(found, "write an engine down", lines))

    def memory(self) -> dict[str, int]:
        """Return the memory it takes, in bytes, as TensorRT reports it."""
        engine, can = self.handle, self._library.capabilities
        if engine is None:
            return {}
        found = {"plan_bytes": self.plan_bytes, "scratch_bytes": self.contexts.scratch_bytes}
        if can.engine_stat:
            stat = self._library.trt.EngineStat.TOTAL_WEIGHTS_SIZE
            found["weight_bytes"] = int(engine.get_engine_stat(stat))
        found["streamable_weight_bytes"] = int(engine.streamable_weights_size)
        if self.weight_budget is not None:
            found["weight_budget_bytes"] = self.weight_budget
        return found

    def close(self) -> None:
        """Let go of it; contexts that are in use go when they are given back."""
        self._end()


def _close(device: Device, contexts: Contexts) -> None:
    with device.active():
        contexts.close()
    device.release()


_NOT_LOADED: Final = (
    "A plan runs on the version of TensorRT and the kind of GPU it was built for; build it again, "
    "or set hardware_compatibility_level in the option builder. One with VERSION_COMPATIBLE "
    "carries a runtime, which is not run here; EXCLUDE_LEAN_RUNTIME leaves it out."
)


def _mismatch(what: str) -> CompileError:
    return CompileError(
        "SGK179",
        f"the engine is not that of the subgraph: {what}",
        backend="tensorrt",
        hint="Remove the stored engine and build it again: subgraphkit deploy cache clear.",
    )


def _tensors(trt: Any, engine: Any) -> tuple[dict[str, IOTensor], dict[str, IOTensor]]:
    """Return inputs and outputs by name."""
    inputs: dict[str, IOTensor] = {}
    outputs: dict[str, IOTensor] = {}
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        dtype = engine.get_tensor_dtype(name)
        type_ = element_type(trt, dtype)
        if type_ is DataType.UNDEFINED or type_ in PACKED:
            raise _mismatch(f"tensor {name!r} is {dtype}, which has no whole bytes")
        shape, place = tuple(engine.get_tensor_shape(name)), engine.get_tensor_location(name)
        tensor = IOTensor(name, type_.numpy, shape, place == trt.TensorLocation.HOST)
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        (inputs if is_input else outputs)[name] = tensor
    return inputs, outputs


def _stream_weights(loader: Loader, options: Options, engine: Any) -> int | None:
    """Say how much device memory weights may take; contexts must not exist yet."""
    if not options.weight_streaming:
        return None
    streamable = int(engine.streamable_weights_size)
    if (budget := options.weight_streaming_budget) is None:
        # The library's own proposal is cut to 32 bits by the binding.
        free = loader.device.cuda.free_memory() - int(engine.device_memory_size_v2)
        budget = max(int(_FREE_FOR_WEIGHTS * free), 0)
    engine.weight_streaming_budget_v2 = min(budget, streamable)
    return int(engine.weight_streaming_budget_v2)


def refit(loaded: LoadedEngine, subgraph: Subgraph, options: Options, library: Library) -> None:
    """Put the weights of a subgraph into an engine, which nothing may be running on.

    Raises:
        CompileError: TensorRT does not take them; the engine may hold some of them (SGK162).
    """
    model = prepare_model(subgraph, options)
    trt = library.trt
    with loaded.device.active(), listening() as lines:
        loaded.device.cuda.wait_for_device()
        loaded.contexts.forget_recordings()
        engine, logger = loaded.handle, library.logger
        refitter = make("make a refitter", lambda: trt.Refitter(engine, logger), lines)
        parser_refitter = trt.OnnxParserRefitter(refitter, library.logger)
        parts = "refit_model_proto"
        kept = feed(parser_refitter, model, library, "refit_from_bytes", parts)
        check(bool(kept), "read the new weights from the model", lines)
        missing = refitter.get_missing_weights()
        what = f"replace the weights; it lacks {', '.join(missing[:5])}"
        check(not missing, what, lines)
        check(refitter.refit_cuda_engine(), "replace the weights", lines)
        del refitter, kept  # what it read from may go now
