"""CUDA's runtime library with its handles counted, to see at the end that all have ended."""

from collections import Counter
from typing import Any

_MADE = {
    "cudaMalloc": (0, "memory"),
    "cudaMallocFromPoolAsync": (0, "memory"),
    "cudaHostAlloc": (0, "pinned memory"),
    "cudaStreamCreateWithFlags": (0, "streams"),
    "cudaEventCreateWithFlags": (0, "events"),
    "cudaMemPoolCreate": (0, "pools"),
    "cudaStreamEndCapture": (1, "graphs"),
    "cudaGraphInstantiateWithFlags": (0, "launchable graphs"),
}
"""By function, the argument that takes what it makes, and what that is."""
_ENDED = {
    "cudaFree": "memory",
    "cudaFreeAsync": "memory",
    "cudaFreeHost": "pinned memory",
    "cudaStreamDestroy": "streams",
    "cudaEventDestroy": "events",
    "cudaMemPoolDestroy": "pools",
    "cudaGraphDestroy": "graphs",
    "cudaGraphExecDestroy": "launchable graphs",
}


class Counted:
    """Hands every call on.

    Attributes:
        live: How many of each kind were made and have not ended.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self.live: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        if name not in _MADE and name not in _ENDED:
            return function

        def called(*arguments: Any) -> Any:
            status = function(*arguments)
            if not status and name in _ENDED:
                self.live[_ENDED[name]] -= 1
            elif not status:
                place, kind = _MADE[name]
                self.live[kind] += bool(arguments[place]._obj.value)
            return status

        return called
