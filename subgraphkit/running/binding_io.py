"""Inputs and outputs bound in advance, as with ONNX Runtime's ``IOBinding``."""

import ctypes
import math
import re
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError, InputError
from subgraphkit.ir import BoundGraph
from subgraphkit.running.devices import HOST, DeviceBuffer, Stay, is_on_device, to_host
from subgraphkit.running.in_place import Shared, is_same_memory, overlap, overlaps, owner_of
from subgraphkit.running.messages import no_output, unfit
from subgraphkit.types import DataType, Shape, TensorType

_Array = npt.NDArray[Any]
_CUDA: Final = "cuda"
_TENSOR: Final = re.compile(r"tensor\((\w+)\)")


class IOBinding:
    """Arrays to read from and buffers to write into, kept from run to run.

    Both may be in the memory of a device: any object that speaks DLPack or
    ``__cuda_array_interface__``, or an address. They are read and written in place if the operators
    at that end of the model run on the device.

    Args:
        graph: The graph of the session.
        devices: The devices that its operators run on.

    Thread-safety: none; use one binding per thread.
    """

    def __init__(self, graph: BoundGraph, devices: Collection[str] = ()) -> None:
        self._graph = graph
        self._kinds = {HOST, _CUDA, *(device.partition(":")[0] for device in devices)}
        self._inputs: dict[str, Any] = {}
        self._targets: dict[str, Any] = {}
        # The targets in memory, by name: each input is compared with them.
        self._memory: dict[str, Any] = {}
        self._owners: set[int] = set()
        self._results: dict[str, Any] = {}
        # The facts on the targets, while they and the inputs that share their memory stay.
        self._buffers: list[Any] | None = None
        self._sharing: frozenset[str] = frozenset()

    # -- inputs ------------------------------------------------------------------------------

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Read the input from this array at every run; it is not copied now.

        Raises:
            InputError: The model has no such input (SGK142).
        """
        if name not in self._graph.inputs and name not in self._graph.defaults:
            raise InputError("SGK142", f"the model has no input {name!r}")
        if array is not self._inputs.get(name):
            self._inputs[name] = array
            if self._buffers is not None and (name in self._sharing or self._is_written(array)):
                self._buffers = None

    bind_ortvalue_input = bind_cpu_input
    """Do as ``bind_cpu_input``, with an array of the host or of a device in place of an
    OrtValue."""

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read the input from an address at every run; ONNX Runtime's signature.

        A run waits for CUDA's default stream; you have to wait for other streams. The memory stays
        its owner's.

        Args:
            name: Name of the input.
            device_type: ``"cpu"`` or ``"cuda"``.
            device_id: Number of the device.
            element_type: NumPy's element type, or ONNX's number of one or text, such as
                ``tensor(float)``.
            shape: Its shape; elements are in row-major order.
            buffer_ptr: Its address.

        Raises:
            InputError: The model has no such input (SGK142), or memory of that kind or elements
                of that type cannot be read (SGK145).
        """
        described = _at(name, (device_type, device_id), element_type, shape, buffer_ptr)
        self.bind_cpu_input(name, described)

    def synchronize_inputs(self) -> None:
        """Do nothing: arrays on a device say themselves whom to wait for."""

    # -- outputs -----------------------------------------------------------------------------

    def bind_output(
        self,
        name: str,
        device_type: Any = HOST,
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Say where an output goes at every run; ONNX Runtime's signature.

        Args:
            name: Name of the output.
            device_type: ``"cpu"`` for the host, or another device, such as ``"cuda"``, to leave it
                there. In short, an array to write into, which may be on a device.
            device_id: Number of the device.
            element_type: With ``buffer_ptr``, as for ``bind_input``.
            shape: With ``buffer_ptr``, the shape.
            buffer_ptr: Where to write; without, memory is allocated anew at every run.

        Raises:
            InputError: The model has no such output (SGK143), or the buffer is read-only, the
                output is no tensor, or there is no such device (SGK145).
        """
        if name not in self._graph.outputs:
            raise no_output(name, self._graph.outputs)
        where = (device_type, device_id)
        target: Any = device_type
        if buffer_ptr is not None:
            target = _at(name, where, element_type, shape, buffer_ptr)
        elif isinstance(device_type, str):
            self._check_kind(name, device_type)
            target = None if device_type == HOST else Stay(f"{device_type}:{device_id}")
        self._check_target(name, target)
        known = self._targets.get(name, HOST)
        if target is known or (buffer_ptr is not None and is_same_memory(target, known)):
            return  # a decoder binds its outputs again before each step
        self._targets[name], self._buffers = target, None
        self._memory = {n: x for n, x in self._targets.items() if not isinstance(x, Stay | None)}
        self._owners = {id(owner_of(one)) for one in self._memory.values()}

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Write the output into an array of the host or of a device; see ``bind_output``."""
        self.bind_output(name, ortvalue)

    def synchronize_outputs(self) -> None:
        """Wait until the outputs left on a device are computed.

        You do not need it before another library reads them: the protocol puts that in order. Your
        buffers are written when a run returns. If the backend works on a stream of yours, work that
        follows on it finds them written.
        """
        for result in self._results.values():
            wait = getattr(result, "wait", None) if is_on_device(result) else None
            if wait is not None:
                wait()

    # -- both --------------------------------------------------------------------------------

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()
        self._buffers = None

    def clear_binding_outputs(self) -> None:
        """Forget the output buffers and results."""
        self._targets.clear()
        self._memory.clear()
        self._results.clear()
        self._buffers = None

    def get_outputs(self) -> list[Any]:
        """Return the bound outputs of the last run, in the order they were bound.

        Those that were left on a device speak DLPack and ``__cuda_array_interface__``.

        Raises:
            CallerError: An output was bound after the last run (SGK143).
        """
        missing = [name for name in self._targets if name not in self._results]
        if missing:
            raise CallerError(
                "SGK143",
                f"output {missing[0]!r} has not been computed since it was bound",
                hint="Call run_with_iobinding() first.",
            )
        return [self._results[name] for name in self._targets]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the bound outputs of the last run as arrays of the host, those in buffers copied.

        Raises:
            CallerError: As ``get_outputs``.
            TypeError: An output is in a buffer of the caller on a device that NumPy cannot read.
        """
        found = zip(self._targets, IOBinding.get_outputs(self), strict=True)
        return [np.array(to_host(x)) if name in self._memory else to_host(x) for name, x in found]

    # -- for the session ---------------------------------------------------------------------

    def feeds(self) -> dict[str, Any]:
        """Return the bound inputs by name."""
        return dict(self._inputs)

    def buffers(self) -> list[Any]:
        """Return, per output of the model, a buffer to write into, ``Stay``, or None.

        Host buffers are left out if only the run tells their shape, or if they share part of an
        input's memory. Results are copied into these at the end. A buffer that is the array of an
        input is ``Shared``.

        Raises:
            InputError: A buffer has another dtype or shape than the output (SGK140, SGK141), or one
                on a device shares memory with another (SGK145).
        """
        if self._buffers is None:
            shared = self._find_shared()
            self._sharing = frozenset(chain(*shared.values()))
            self._buffers = [self._choose_buffer(*one) for one in shared.items()]
        return self._buffers

    def accept(self, results: Sequence[Any]) -> None:
        """Take the results of a run; those that operators did not write in place are copied.

        Raises:
            InputError: A buffer has another dtype or shape than the result (SGK140, SGK141), or an
                output for a device came to the host (SGK145).
        """
        if not self._targets:
            self._targets = dict.fromkeys(self._graph.outputs)
        by_name = dict(zip(self._graph.outputs, results, strict=True))
        for name, target in self._targets.items():
            self._results[name] = _deliver_result(name, by_name[name], target)

    def _check_kind(self, name: str, kind: str) -> None:
        if kind not in self._kinds:
            raise unfit(
                f"output {name!r} is wanted on {kind!r}, expected one of "
                f"{', '.join(map(repr, sorted(self._kinds)))}",
                hint="The GPU of CUDA and TensorRT is called 'cuda'.",
            )

    def _check_target(self, name: str, target: Any) -> None:
        if target is None:
            return
        is_array = isinstance(target, np.ndarray) and target.flags.writeable
        if not is_array and not isinstance(target, Stay) and not is_on_device(target):
            raise unfit(
                f"the buffer for output {name!r} is not an array that can be written to",
                hint="Pass a NumPy array, or an array on a device that speaks DLPack or "
                "__cuda_array_interface__.",
            )
        type_ = self._graph.types.get(name)
        if not isinstance(type_, TensorType):
            what = "left on a device" if isinstance(target, Stay) else "written into a buffer"
            raise unfit(f"output {name!r} is {type_}, which is not {what}")

    def _is_written(self, array: Any) -> bool:
        owner = owner_of(array)
        if owner is not None and self._owners.isdisjoint({id(owner), id(None)}):
            return False  # each of two owners has memory of its own
        return any(overlap(array, one) for one in self._memory.values())

    def _find_shared(self) -> dict[str, list[str]]:
        """Return for each output the inputs that its buffer shares memory with."""
        found: dict[str, list[str]] = {name: [] for name in self._graph.outputs}
        every, count = [*self._memory.items(), *self._inputs.items()], len(self._memory)
        for one, at in overlaps([x for _, x in every[:count]], [x for _, x in every]):
            name, other = every[one][0], every[at][0]
            if at >= count:
                found[name].append(other)
            elif one < at:
                raise unfit(
                    f"the buffers for outputs {name!r} and {other!r} share memory",
                    hint="Bind each to a buffer of its own, or to nothing.",
                )
        return found

    def _choose_buffer(self, name: str, shared: Sequence[str]) -> Any:
        target, type_ = self._targets.get(name), self._graph.types.get(name)
        if target is None or isinstance(target, Stay):
            return target
        if not isinstance(target, np.ndarray):
            if shared:
                raise unfit(
                    f"the buffer for output {name!r} shares memory with input {shared[0]!r}",
                    hint="Bind another buffer: the input may be read after the output is written.",
                )
            return target
        if not isinstance(type_, TensorType) or type_.dtype is DataType.UNDEFINED:
            return None
        if type_.element_count is not None:
            _check_fits(name, target, type_.dtype.numpy, type_.shape)
        if shared:
            same = [fed for fed in shared if is_same_memory(target, self._inputs[fed])]
            return Shared(target, same[0]) if len(same) == len(shared) == 1 else None
        return None if type_.element_count is None else target


def _deliver_result(name: str, result: Any, target: Any) -> Any:
    if target is None:
        return to_host(result)
    if isinstance(target, Stay):
        if not is_on_device(result):
            raise unfit(
                f"output {name!r} is wanted on {target.device}, but its operator has it on the "
                "host",
                hint="Bind it to the host; the engine computes it there, or in another element "
                "type than the model's.",
            )
        return result
    if result is target or not isinstance(target, np.ndarray):
        return target
    array = to_host(result)
    _check_fits(name, target, array.dtype, array.shape)
    np.copyto(target, array)
    return target


def _at(
    name: str, where: tuple[Any, int], element_type: Any, shape: Any, address: int
) -> _Array | DeviceBuffer:
    """Return an array over memory that is known by its address."""
    kind, index = where
    try:
        dtype = _dtype_of(element_type)
        if element_type is None or dtype.hasobject:
            raise TypeError(f"{element_type} is no type of numbers")  # noqa: TRY301 (worded below)
        sizes, address = tuple(map(int, shape)), int(address)
        if min(sizes, default=0) < 0 or (address <= 0 and 0 not in sizes):
            raise ValueError(f"there is no shape {sizes} at {address:#x}")  # noqa: TRY301 (likewise)
    except (TypeError, ValueError, KeyError) as error:
        raise unfit(
            f"the memory bound to {name!r} is not described: {error}",
            hint="Give element_type and shape with buffer_ptr, np.float32 and (1, 3) say.",
        ) from error
    if kind == _CUDA:
        return DeviceBuffer.at(address, sizes, dtype, index)
    if kind != HOST:
        raise unfit(
            f"the memory bound to {name!r} is on {kind!r}, expected 'cpu' or 'cuda'",
            hint="Memory of other devices is not read by its address.",
        )
    count = math.prod(sizes)
    buffer = (ctypes.c_byte * (count * dtype.itemsize)).from_address(address if count else 0)
    return np.frombuffer(memoryview(buffer), dtype, count).reshape(sizes)


def _dtype_of(element_type: Any) -> np.dtype[Any]:
    """Read an element type of NumPy, or ONNX's number or text of one."""
    text = _TENSOR.fullmatch(element_type) if isinstance(element_type, str) else None
    if text is not None and text[1].upper() not in DataType.__members__:
        raise TypeError(f"ONNX has no type {element_type!r}")
    if text is not None:
        return DataType[text[1].upper()].numpy
    return DataType(element_type).numpy if isinstance(element_type, int) else np.dtype(element_type)


def _check_fits(name: str, buffer: _Array, dtype: np.dtype[Any], shape: Shape | None) -> None:
    for code, what, have, want in (
        ("SGK141", "dtype", buffer.dtype, dtype),
        ("SGK140", "shape", buffer.shape, shape),
    ):
        if have != want:
            raise InputError(
                code, f"the buffer for output {name!r} has {what} {have}; the result has {want}"
            )
