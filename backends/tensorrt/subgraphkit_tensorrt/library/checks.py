"""Failures of TensorRT, which returns None or False, as errors that quote what it said."""

from collections.abc import Sequence
from typing import TypeVar

from subgraphkit.errors import BackendError, CompileError, ExecutionError

__all__ = ["check", "check_run", "tail"]

_T = TypeVar("_T")
_QUOTED = 12


def check(result: _T | None, what: str, lines: Sequence[str] = (), *, hint: str = "") -> _T:
    """Return what a call on the way to an engine returned, unless it says that it failed.

    Args:
        result: What TensorRT returned; None and False mean failure.
        what: What was asked of it, to complete "TensorRT could not ...".
        lines: What it said meanwhile; see ``logger.listening``.
        hint: What to do about it.

    Raises:
        CompileError: It failed (SGK162).
    """
    if result is None or result is False:
        raise _told(CompileError, "SGK162", what, lines, hint)
    return result


def check_run(result: _T | None, what: str, lines: Sequence[str] = (), *, hint: str = "") -> _T:
    """Return what a call of the run side returned, unless it says that it failed; as ``check``.

    Raises:
        ExecutionError: It failed (SGK163).
    """
    if result is None or result is False:
        raise _told(ExecutionError, "SGK163", what, lines, hint)
    return result


def tail(lines: Sequence[str], count: int = _QUOTED) -> str:
    """Return the last different lines, errors rather than warnings, one below the other."""
    told = list(dict.fromkeys(lines))
    errors = [line for line in told if not line.startswith("warning")]
    return "\n".join((errors or told)[-count:])


def _told(
    kind: type[BackendError], code: str, what: str, lines: Sequence[str], hint: str
) -> BackendError:
    said = tail(lines)
    said = f"It said:\n{said}" if said else "It gave no reason."
    remedy = f"{said}\n{hint}" if hint else said
    message = f"TensorRT could not {what}"
    return kind(code, message, backend="tensorrt", hint=remedy, lines=tuple(lines))
