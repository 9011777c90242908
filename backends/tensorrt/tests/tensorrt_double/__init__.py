"""A double of TensorRT and of CUDA, to test what would need a GPU.

It has the classes, members and enumerations of a release as they were measured, and no others. Its
engines hold the ONNX model and compute it by the NumPy backend, on memory and streams that behave
as a device's do at their most unkind; see ``cuda``.
"""

import ctypes
import weakref
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from backends.tensorrt.tests.tensorrt_api import Api
from backends.tensorrt.tests.tensorrt_double.building import BUILDING
from backends.tensorrt.tests.tensorrt_double.counting import Counted
from backends.tensorrt.tests.tensorrt_double.cuda import DoubleCuda
from backends.tensorrt.tests.tensorrt_double.listeners import CALLED_BACK
from backends.tensorrt.tests.tensorrt_double.refitting import REFITTING
from backends.tensorrt.tests.tensorrt_double.running import RUNNING
from subgraphkit_tensorrt.library.capabilities import Capabilities
from subgraphkit_tensorrt.library.flavours import FLAVOURS, Library
from subgraphkit_tensorrt.library.logger import logger_for

CLASSES = (*BUILDING, *RUNNING, *REFITTING, *CALLED_BACK)
"""The classes of the double, of all releases together."""

_SET_UP = {"IBuilderConfig", "Runtime"}


def members_of(api: Api, owner: str) -> list[str]:
    """Return the members of a class in a release."""
    return _members(api.release, owner)


@lru_cache(maxsize=256)
def _members(release: str, owner: str) -> list[str]:
    return [name for name in dir(getattr(Api(release).module(), owner)) if not name.startswith("_")]


def _stored(name: str) -> property:
    return property(
        lambda self: vars(self).get(name), lambda self, value: vars(self).update({name: value})
    )


class Double:
    """One release of TensorRT with a device of its own.

    Attributes:
        fails_halfway: Whether runs fail when half of their work is on the stream.
        live: Engines and contexts that have not ended.
        patch: Sets an attribute, for as long as a test runs.
        run_needs_bytes: Memory of the device that TensorRT takes itself in a run.
    """

    def __init__(
        self,
        release: str = "11.4.0",
        memory: int = 1 << 30,
        schedule: int | None = None,
        *,
        pools: bool = True,
    ) -> None:
        self.cuda = DoubleCuda(memory, schedule, pools=pools)
        self.counted = Counted(self.cuda)
        """The same for the backend, whose handles are counted."""
        self.live = Counter(engines=0, contexts=0)
        self.run_needs_bytes = 0
        self.patch: Callable[[Any, str, Any], None] = setattr
        self.fails_halfway = False
        self.refuses_runs = False
        self.refuses_contexts = False
        self.refuses_refits = False
        self.refuses_refitters = False
        self.builders: weakref.WeakSet[Any] = weakref.WeakSet()
        self.trt = self._module(Api(release))
        flavour = FLAVOURS[Api(release).flavour]
        capabilities = Capabilities.of(self.trt, flavour.name)
        self.library = Library(flavour, self.trt, capabilities, logger_for(self.trt))

    def left(self) -> dict[str, int]:
        """Count what was made for the backend and has not ended."""
        return {name: count for name, count in (self.live + self.counted.live).items() if count}

    def meanwhile(self, path: str, act: Callable[..., object]) -> None:
        """Let something happen at every call of a method, before what it does."""
        owner, name = getattr(self.trt, path.partition(".")[0]), path.partition(".")[2]
        done = getattr(owner, name)
        self.patch(owner, name, lambda *given: (act(*given), done(*given))[1])

    @property
    def violations(self) -> list[str]:
        """What a real device would not have survived."""
        return self.cuda.violations

    def host_array(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Copy an array out of the memory of the host, as TensorRT does when a run is enqueued."""
        count = int(np.prod(shape, dtype=np.int64))
        data = ctypes.string_at(address, count * dtype.itemsize)
        return np.frombuffer(data, dtype, count).reshape(shape)

    def _module(self, api: Api) -> ModuleType:
        module = api.module()
        for owner in CLASSES:
            name = owner.__name__
            if not api.has(name):
                continue
            members = {
                key: value
                for key, value in vars(owner).items()
                if key.startswith("_") or key == "Severity" or api.has(f"{name}.{key}")
            }
            if name in _SET_UP:
                # What is only set and read back need not be known to the double one by one.
                told = (one for one in members_of(api, name) if one not in members)
                members |= {one: _stored(one) for one in told if not api.arguments(f"{name}.{one}")}
            members.pop("__dict__", None)
            members.pop("__weakref__", None)
            bases = owner.__bases__
            made = type(name, bases, {**members, "_trt": module, "_double": self})
            setattr(module, name, made)
        return module
