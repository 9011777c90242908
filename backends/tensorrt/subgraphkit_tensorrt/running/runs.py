"""One run of an engine: inputs are read, a context is taken, and its prepared call is run."""

from contextlib import suppress
from typing import Any

import numpy as np

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.running.arrays import (
    DeviceArray,
    fetch_to_host,
    is_on_device,
    read_foreign,
)
from subgraphkit_tensorrt.running.call import SHORT, Array, PreparedCall, Request
from subgraphkit_tensorrt.running.dlpack import Foreign
from subgraphkit_tensorrt.running.engine import LoadedEngine
from subgraphkit_tensorrt.running.io_tensors import IOTensor, is_usable, to_engine
from subgraphkit_tensorrt.running.memory import StreamSlot


def run_engine(loaded: LoadedEngine, profile: int, slot: StreamSlot, request: Request) -> list[Any]:
    """Run an engine in a slot, whose device is the thread's current one.

    If TensorRT lacks memory, memory that is kept for later is freed and the run tried once more.

    Raises:
        ExecutionError: It failed (SGK163, SGK174), or memory is short (SGK176).
        InputError: An input cannot be read, or an output cannot be written (SGK177). An output has
            another shape (SGK140) or element type (SGK141).
    """
    try:
        return _run_once(loaded, profile, slot, request)
    except ExecutionError as error:
        is_short = any(one in error.hint for one in SHORT)
        if error.code != "SGK163" or not is_short or not loaded.device.memory.kept_bytes:
            raise
    loaded.device.memory.trim()
    return _run_once(loaded, profile, slot, request)


def _run_once(loaded: LoadedEngine, profile: int, slot: StreamSlot, request: Request) -> list[Any]:
    foreign: list[Foreign] = []
    contexts = loaded.contexts
    try:
        arrays: list[Array] = []
        key: tuple[Any, ...] = (slot, request.key)
        for place, tensor in loaded.read:
            value = request.inputs[place]
            if type(value) is not np.ndarray or value.dtype != tensor.dtype or tensor.on_host:
                value = _array(loaded, slot, tensor, value, foreign)
                if not isinstance(value, np.ndarray):
                    key = (*key, place, is_usable(value.address))
            arrays.append(value)
        context = contexts.take(profile, key, records=request.records)
        try:
            call: PreparedCall | None = context.call
            if call is None or call.key != key or call.generation != slot.generation:
                call = PreparedCall(loaded, context, slot, arrays, request.wanted, key)
            return call.run(arrays, request, foreign)
        finally:
            contexts.put(context)
    except BaseException:
        with suppress(ExecutionError):  # what was begun may be reading and writing arrays
            slot.wait()
        raise
    finally:
        # On a stream of the user, whoever reuses the memory is in the same order.
        if foreign and slot.user is None:
            with suppress(ExecutionError):  # whoever waits next is told
                slot.wait()
        for array in foreign:
            array.release()


def _array(
    loaded: LoadedEngine, slot: StreamSlot, tensor: IOTensor, value: Any, foreign: list[Foreign]
) -> Array:
    """Return an input as the engine reads it: on the device, or on the host in its own type."""
    device = loaded.device
    if is_on_device(value):
        remote: DeviceArray | Foreign
        if isinstance(value, DeviceArray) and value.__dlpack_device__()[1] == device.index:
            value.use_on(slot.stream)
            remote = value
        else:
            remote = read_foreign(value, tensor.name, device, slot.stream)
            foreign.append(remote)
        if remote.dtype == tensor.dtype and not tensor.on_host:
            return remote
        value = fetch_to_host(value, tensor.name, device)
    return to_engine(np.asarray(value), tensor)
