"""The double's classes that callers derive from."""

import enum
from typing import Any


class _Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class _Listener:
    """Has to be initialised by name, as the bindings' classes have."""

    def __init__(self) -> None:
        self.is_started = True


def started(listener: Any) -> Any:
    """Return a listener whose base class was initialised; the bindings raise otherwise."""
    if not getattr(listener, "is_started", False):
        raise TypeError(f"{type(listener).__name__}.__init__() must be called when overriding it")
    return listener


class ILogger(_Listener):
    Severity = _Severity

    def log(self, severity: Any, msg: str) -> None:
        raise NotImplementedError


class IProfiler(_Listener):
    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError


class IOutputAllocator(_Listener):
    pass


class IGpuAllocator(_Listener):
    pass


class IProgressMonitor(_Listener):
    pass


CALLED_BACK = (ILogger, IProfiler, IOutputAllocator, IGpuAllocator, IProgressMonitor)
"""The classes."""
