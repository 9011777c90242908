"""Values that need not come to the host, and arrays on other devices.

Values stay on a device as long as only its operators read them, and outputs where the caller wants
them. An array's device is known by its protocols, DLPack or ``__cuda_array_interface__``, and never
by its class.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.operator import ON_DEVICE
from subgraphkit.errors import InputError
from subgraphkit.planning import Plan, Step
from subgraphkit.running.in_place import Shared, find_outputs_in_place
from subgraphkit.running.messages import unfit

HOST: Final = "cpu"
"""The device of operators that take arrays of NumPy."""

_HOSTS_IN_DLPACK: Final = frozenset({1, 3})
"""Memory of the host, and the part of it that a GPU reads as well."""
_CUDA_IN_DLPACK: Final = frozenset({2, 13})
"""Memory of a GPU, and such as moves between it and the host by itself."""
_DEFAULT_STREAM: Final = 1
"""The number by which ``__cuda_array_interface__`` calls CUDA's default stream."""


class Stay(NamedTuple):
    """In place of a buffer: the output is to be left on a device."""

    device: str


class DeviceBuffer:
    """Memory of a GPU that somebody described; it is neither owned nor freed."""

    def __init__(
        self,
        interface: Mapping[str, Any],
        dtype: npt.DTypeLike | None = None,
        owner: object = None,
        device: int | None = None,
    ) -> None:
        self.shape: tuple[int, ...] = tuple(interface["shape"])
        self.dtype: np.dtype[Any] = np.dtype(interface["typestr"] if dtype is None else dtype)
        self.device_id = device
        self._interface = dict(interface)
        self._owner = owner

    @classmethod
    def at(
        cls, address: int, shape: Sequence[int], dtype: npt.DTypeLike, device: int
    ) -> "DeviceBuffer":
        """Describe elements in row-major order; readers wait for CUDA's default stream."""
        kind = np.dtype(dtype)
        memory = {"version": 3, "data": (int(address), False), "stream": _DEFAULT_STREAM}
        elements = {"shape": tuple(map(int, shape)), "typestr": kind.str, "strides": None}
        return cls(memory | elements, kind, device=device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describe the memory to another library."""
        return dict(self._interface)

    def __repr__(self) -> str:
        """Render as ``DeviceBuffer(float32[2, 3] at 0x7f00)``."""
        address = self._interface["data"][0]
        return f"DeviceBuffer({self.dtype}{list(self.shape)} at {address:#x})"


# -- where values may stay -----------------------------------------------------------------------


def left_on_device(plan: Plan) -> frozenset[str]:
    """Return the values that operators of one device hand to one another, and no operator else.

    Outputs of the graph may be among them; these are fetched at the end.
    """
    readers = _readers(plan)
    return frozenset(
        name
        for step in plan.steps
        if step.operator.device != HOST
        for name in step.subgraph.outputs
        if readers.get(name) == {step.operator.device}
    )


def taken_on_device(plan: Plan) -> frozenset[str]:
    """Return the inputs of the graph that are read by operators of one device alone."""
    readers = _readers(plan)
    given_out = set(plan.graph.outputs)
    return frozenset(
        name
        for name in (*plan.graph.inputs, *plan.graph.defaults)
        if name not in given_out and len(readers.get(name, ())) == 1 and HOST not in readers[name]
    )


def left_for(plan: Plan, output: str, name: str) -> str:
    """Return the device on which an output may stay until it is fed to an input; else the host."""
    maker = _makers(plan).get(output)
    if maker is None or name not in taken_on_device(plan):
        return HOST
    return maker.operator.device if maker.operator.device in _readers(plan)[name] else HOST


def read_elsewhere(plan: Plan, step: Step) -> frozenset[str]:
    """Return the inputs of a step that a caller may have asked to stay on another device."""
    makers = _makers(plan)
    return frozenset(
        name
        for name in step.subgraph.inputs
        if name in plan.graph.outputs
        and name in makers
        and makers[name].operator.device not in {HOST, step.operator.device}
    )


def placer(plan: Plan) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function from places for outputs to those for operators.

    It raises InputError (SGK145) for a device that the operator behind an output does not run on.
    """
    makers, left, names = _makers(plan), left_on_device(plan), plan.graph.outputs
    in_place = cache(partial(find_outputs_in_place, plan))  # few callers share memory

    def place_of(name: str, target: Any) -> Any:
        if isinstance(target, Shared):
            target = target.buffer if in_place().get(name) == target.name else None
        if target is None:
            return ON_DEVICE if name in left else None
        if isinstance(target, np.ndarray):
            return target
        wanted = target.device if isinstance(target, Stay) else device_of(target)
        maker = makers.get(name)
        # Where only the kind of device is known, the operator looks at the rest.
        device = "" if maker is None else maker.operator.device
        if maker is None or wanted not in {device, device.partition(":")[0]}:
            raise _computed_elsewhere(name, wanted, maker)
        return ON_DEVICE if isinstance(target, Stay) else target

    return lambda targets: [place_of(*one) for one in zip(names, targets, strict=True)]


def _computed_elsewhere(name: str, wanted: str, maker: Step | None) -> InputError:
    where = "by no operator"
    if maker is not None:
        where = f"on {maker.operator.device} by backend {maker.subgraph.backend!r}"
    return unfit(
        f"output {name!r} is wanted on {wanted}, but it is computed {where}",
        hint="Bind it to an array of the host, or to nothing and have it allocated there; or give "
        "the node that makes it to a backend of that device.",
        output=name,
    )


def _makers(plan: Plan) -> Mapping[str, Step]:
    return {name: step for step in plan.steps for name in step.subgraph.outputs}


def _readers(plan: Plan) -> Mapping[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for step in plan.steps:
        for name in step.subgraph.inputs:
            readers.setdefault(name, set()).add(step.operator.device)
    return readers


# -- arrays --------------------------------------------------------------------------------------


def is_on_device(value: Any) -> bool:
    """Say whether a value is an array in memory that the host does not read."""
    if isinstance(value, np.ndarray):
        return False
    if (where := getattr(value, "__dlpack_device__", None)) is not None:
        return where()[0] not in _HOSTS_IN_DLPACK
    return getattr(value, "__cuda_array_interface__", None) is not None


def device_of(value: Any) -> str:
    """Return the device of an array, such as ``"cuda:0"``, or ``"cuda"`` if no more is known."""
    if (where := getattr(value, "__dlpack_device__", None)) is not None:
        kind, index = where()
        if kind in _HOSTS_IN_DLPACK:
            return HOST
        return f"cuda:{index}" if kind in _CUDA_IN_DLPACK else f"device {kind}:{index}"
    if getattr(value, "__cuda_array_interface__", None) is None:
        return HOST
    index = getattr(value, "device_id", None)
    return "cuda" if index is None else f"cuda:{index}"


def to_host(value: Any) -> Any:
    """Return a device's array as a host array, others as they are; TypeError if unreadable."""
    if isinstance(value, np.ndarray) or not is_on_device(value):
        return value
    if not hasattr(value, "__array__"):
        raise TypeError(f"the host cannot read a {type(value).__name__} on a device")
    return np.asarray(value)
