"""One logger for everything TensorRT says, as it keeps the first it is given.

Whatever it says goes to ``logging.getLogger("subgraphkit.tensorrt")``. Whoever calls into TensorRT
and may have to explain a failure listens meanwhile:

    with listening() as lines:
        plan = builder.build_serialized_network(network, config)
    check(plan, "build the network", lines)

TensorRT calls from threads of its own as well. Each listener hears its own thread's words and those
of threads that nobody listens to.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["LOGGER", "hear", "listening", "logger_for"]

LOGGER: Final = logging.getLogger("subgraphkit.tensorrt")
"""Where the words of TensorRT go."""

_KEPT: Final = 200
"""How many lines a listener remembers."""
_LEVELS: Final = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.INFO,
    "VERBOSE": logging.DEBUG,
}


class _Listeners:
    """Who listens, by thread.

    Thread-safety: may be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_thread: dict[int, list[deque[str]]] = {}

    def add(self, lines: deque[str]) -> None:
        with self._lock:
            self._by_thread.setdefault(threading.get_ident(), []).append(lines)

    def remove(self, lines: deque[str]) -> None:
        with self._lock:
            thread = threading.get_ident()
            left = [one for one in self._by_thread[thread] if one is not lines]
            if left:
                self._by_thread[thread] = left
            else:
                del self._by_thread[thread]

    def tell(self, line: str) -> None:
        with self._lock:
            own = self._by_thread.get(threading.get_ident())
            everybody = [one for listeners in self._by_thread.values() for one in listeners]
            for lines in everybody if own is None else own:
                lines.append(line)


_LISTENERS: Final = _Listeners()
_LOGGERS: Final[dict[int, tuple[Any, Any]]] = {}  # with the module, whose id would be given again
_LOCK: Final = threading.Lock()


@contextmanager
def listening() -> Iterator[Sequence[str]]:
    """Remember the warnings and errors of TensorRT while the context lasts, the last 200 lines.

    Yields:
        The lines, which grow; each begins with the severity. May still be read afterwards.
    """
    lines: deque[str] = deque(maxlen=_KEPT)
    _LISTENERS.add(lines)
    try:
        yield lines
    finally:
        _LISTENERS.remove(lines)


def hear(severity: str, text: str) -> None:
    """Take one message of TensorRT; never raises.

    Args:
        severity: Name of the severity, such as ``"WARNING"``.
        text: What it says.

    Thread-safety: may be called from any thread.
    """
    level = _LEVELS.get(severity, logging.WARNING)
    try:
        if level >= logging.WARNING:
            _LISTENERS.tell(f"{severity.lower()}: {text.strip()}")
        if LOGGER.isEnabledFor(level):
            LOGGER.log(level, "%s", text.strip())
    except Exception:  # noqa: BLE001, S110 (a handler that fails must not end in C++)
        pass


def logger_for(trt: Any) -> Any:
    """Return the one logger of this process for a TensorRT module, an ``ILogger``.

    Thread-safety: may be called from any thread.
    """
    with _LOCK:
        if id(trt) not in _LOGGERS:
            _LOGGERS[id(trt)] = (trt, _make(trt))
        return _LOGGERS[id(trt)][1]


def _make(trt: Any) -> Any:
    names = {member: name for name, member in trt.ILogger.Severity.__members__.items()}

    class Listener(trt.ILogger):  # type: ignore[misc]  # known when it is imported
        """Hands every message on."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)  # the binding does not find it through super()

        def log(self, severity: Any, msg: str) -> None:
            """Take a message."""
            hear(names.get(severity, "WARNING"), msg)

    return Listener()
