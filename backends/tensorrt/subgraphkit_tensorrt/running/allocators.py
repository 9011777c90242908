"""Allocators of the user's: device memory for TensorRT's own needs and for ours.

The option names an object. TensorRT is handed one of its own classes that calls it, because what
is raised inside does not pass through TensorRT, which has to be told 0 instead.
"""

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.library.logger import LOGGER

__all__ = ["Allocator", "allocator_named"]

_STREAM: Final = 0
_LIBRARIES: Final = frozenset(
    f"tensorrt{flavour}{bindings}"
    for flavour in ("", "_rtx", "_lean", "_dispatch")
    for bindings in ("", "_bindings")
)
"""Packages of TensorRT, whose class has the methods as well, to be written anew."""


class Allocator:
    """An allocator of the user's, called so that nothing is raised.

    Args:
        place: What the option said, for messages.
        take: Its method that allocates.
        give: Its method that takes memory back.

    Thread-safety: as the object, which TensorRT calls from any thread.
    """

    def __init__(self, place: str, take: Callable[..., Any], give: Callable[..., Any]) -> None:
        self._place = place
        self._take = take
        self._give = give
        self._stream_to_take = [_STREAM] if take.__name__ == "allocate_async" else []
        self._stream_to_give = [_STREAM] if give.__name__ == "deallocate_async" else []

    def __str__(self) -> str:
        """Render as what the option said."""
        return repr(self._place)

    def allocate(self, nbytes: int, alignment: int, flags: int = 0) -> int:
        """Return the address of device memory, or 0 if there is none."""
        try:
            return int(self._take(nbytes, alignment, flags, *self._stream_to_take) or 0)
        except Exception:  # noqa: BLE001 (it may be TensorRT that asks)
            LOGGER.warning("allocator %s failed to allocate %d bytes", self, nbytes, exc_info=True)
            return 0

    def free(self, address: int) -> bool:
        """Give memory back; False if the allocator does not take it."""
        try:
            done = self._give(address, *self._stream_to_give)
        except Exception:  # noqa: BLE001 (likewise)
            LOGGER.warning("allocator %s failed to take %#x back", self, address, exc_info=True)
            return False
        return done is None or bool(done)

    def for_library(self, trt: Any) -> Any:
        """Return an ``IGpuAllocator`` of a TensorRT that calls this one."""
        return _class_of(trt)(self)


def _method(found: Any, *names: str) -> Callable[..., Any] | None:
    """Return the first method of the object's own; those of TensorRT's class do nothing."""
    for name in names:
        owner = next((one for one in type(found).__mro__ if name in vars(one)), None)
        written = owner is not None and owner.__module__.partition(".")[0] not in _LIBRARIES
        if written or name in getattr(found, "__dict__", {}):
            method: Callable[..., Any] = getattr(found, name)
            return method
    return None


def allocator_named(place: str) -> Allocator | None:
    """Find the allocator that an option names as ``module:name``; None if it names none.

    Raises:
        OptionError: It names nothing that can allocate and deallocate (SGK112).
    """
    if not place:
        return None
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, type):
            found = found()
    except Exception as error:
        raise _no_allocator(place, f"{type(error).__name__}: {error}") from error
    take = _method(found, "allocate", "allocate_async")
    give = _method(found, "deallocate", "free", "deallocate_async")
    if take is None or give is None:
        raise _no_allocator(place, f"a {type(found).__name__} has no allocate and deallocate")
    return Allocator(place, take, give)


def _no_allocator(place: str, why: str) -> OptionError:
    return OptionError(
        "SGK112",
        f"option 'allocator' of backend 'tensorrt' names {place!r}, which is no allocator: {why}",
        hint="Write module:name; the name is a class that takes no arguments, or an instance of "
        "one, with allocate(size, alignment, flags), which returns an address or 0, and "
        "deallocate(address). One derived from TensorRT's IGpuAllocator will do.",
        backend="tensorrt",
        option="allocator",
    )


@lru_cache(maxsize=8)
def _class_of(trt: Any) -> Any:
    class GpuAllocator(trt.IGpuAllocator):  # type: ignore[misc]  # known when it is imported
        def __init__(self, inner: Allocator) -> None:
            trt.IGpuAllocator.__init__(self)  # the binding does not find it through super()
            self._inner = inner

        def allocate(self, size: int, alignment: int, flags: int) -> int:
            return self._inner.allocate(size, alignment, flags)

        def deallocate(self, memory: int) -> bool:
            return self._inner.free(memory)

        free = deallocate  # 8.x

        def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int:
            del stream  # memory of the object is good for any
            return self._inner.allocate(size, alignment, flags)

        def deallocate_async(self, memory: int, stream: int) -> bool:
            del stream
            return self._inner.free(memory)

        def reallocate(self, address: int, alignment: int, new_size: int) -> int:
            del address, alignment, new_size
            return 0  # which is to say that it cannot, so that TensorRT allocates and copies

    return GpuAllocator
