"""One logger for everything TensorRT says, as it keeps the first it is given.

Whatever it says goes to ``logging.getLogger("subgraphkit.tensorrt")``. Whoever calls into TensorRT
and may have to explain a failure listens meanwhile:

    with listening() as lines:
        plan = builder.build_serialized_network(network, config)
    check(plan, "build the network", lines)

TensorRT calls from threads of its own as well. Each listener hears its own thread's words and those
of threads that nobody listens to.

A listener decides whether an error becomes an exception, a refusal or nothing, so the error is
logged as a detail. An error that nobody listens to is logged as an error. TensorRT has many
warnings. They are logged as information, and reach no terminal unless logging is configured.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from subgraphkit.errors import BackendError, CompileError, ExecutionError
from subgraphkit.logs import logger_of

LOGGER: Final = logger_of("tensorrt")
_KEPT: Final = 200
_LEVELS = dict.fromkeys(("WARNING", "INFO"), logging.INFO) | {"VERBOSE": logging.DEBUG}
_LEVELS |= dict.fromkeys(("INTERNAL_ERROR", "ERROR"), logging.ERROR)


class listening:  # noqa: N801 (read as a verb, where it is used)
    """Remember the warnings and errors of TensorRT while the context lasts, the last 200 lines."""

    __slots__ = ("_listeners",)

    def __enter__(self) -> Sequence[str]:
        lines: list[str] = []
        self._listeners = _LISTENERS.setdefault(threading.get_ident(), [])
        self._listeners.append(lines)
        return lines

    def __exit__(self, *_: object) -> None:
        self._listeners.pop()


_LISTENERS: Final[dict[int, list[list[str]]]] = {}
"""By thread, who listens in it; a thread alone changes what is its own, and no lock is held."""


def _tell(line: str) -> bool:
    """Report a line to the listeners of this thread; returns whether there are any."""
    own = _LISTENERS.get(threading.get_ident())
    hearing = own or [one for listeners in [*_LISTENERS.values()] for one in [*listeners]]
    for lines in hearing:
        lines.append(line)
        del lines[:-_KEPT]
    return bool(hearing)


def hear(severity: str, text: str) -> None:
    """Take one message of TensorRT; never raises.

    Thread-safety: may be called from any thread.
    """
    level = _LEVELS.get(severity, logging.INFO)
    try:
        if severity not in {"INFO", "VERBOSE"}:
            heard = _tell(f"{severity.lower()}: {text.strip()}")
            if heard and level >= logging.ERROR:
                level = logging.DEBUG
        if LOGGER.isEnabledFor(level):
            LOGGER.log(level, "%s", text.strip())
    except Exception:  # noqa: BLE001, S110 (a handler that fails must not end in C++)
        pass


@cache
def logger_for(trt: Any) -> Any:
    """Return the one logger of this process for a TensorRT module, an ``ILogger``."""
    names = {member: name for name, member in trt.ILogger.Severity.__members__.items()}

    class Listener(trt.ILogger):  # type: ignore[misc]  # known when it is imported
        """Hands every message on."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)  # the binding does not find it through super()

        def log(self, severity: Any, msg: str) -> None:
            """Take a message."""
            hear(names.get(severity, "WARNING"), msg)

    return Listener()


_T = TypeVar("_T")
_QUOTED: Final = 12


def check(result: _T | None, what: str, lines: Sequence[str] = (), *, hint: str = "") -> _T:
    """Return what a call made on the way to an engine; CompileError (SGK162) if it failed."""
    if result is None or result is False:
        raise _failure(CompileError, "SGK162", what, lines, hint)
    return result


def make(what: str, call: Callable[[], Any], lines: Sequence[str], *, hint: str = "") -> Any:
    """Return what a class of the library makes, as ``check``; bindings raise for a null pointer."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 (a binding raises what it likes)
        found, lines = None, (*lines, f"error: {type(error).__name__}: {error}")
    return check(found, what, lines, hint=hint)


def check_run(result: _T | None, what: str, lines: Sequence[str] = (), *, hint: str = "") -> _T:
    """Return what a call of the run side made; ExecutionError (SGK163) if it failed."""
    if result is None or result is False:
        raise _failure(ExecutionError, "SGK163", what, lines, hint)
    return result


def tail(lines: Sequence[str]) -> str:
    """Return the last different lines, errors rather than warnings, one below the other."""
    told = list(dict.fromkeys(lines))
    return "\n".join(([line for line in told if not line.startswith("warning")] or told)[-_QUOTED:])


def _failure(
    kind: type[BackendError], code: str, what: str, lines: Sequence[str], hint: str
) -> BackendError:
    said = f"It said:\n{tail(lines)}" if lines else "It gave no reason."
    remedy = f"{said}\n{hint}" if hint else said
    message = f"TensorRT could not {what}"
    return kind(code, message, backend="tensorrt", hint=remedy, lines=tuple(lines))
