"""Every exception subgraphkit raises, grouped by the person who can mend it.

``ModelError`` is for the model's author, ``CallerError`` for the caller, ``BackendError`` for the
author of a backend, and ``InternalError`` for us. Each error carries a stable code (``SGK103``), a
message and a hint. The message says what failed, what was expected and what was found; the hint
says what to do. The codes are listed in ``CODES`` and rendered in golden tests, so a code never
changes meaning.

All of them can be pickled and copied; see ``SubgraphkitError`` for the parts that arrive.
"""

import errno
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal

from subgraphkit.codes import CODES, OF_THE_MACHINE
from subgraphkit.texts import paragraph, printable
from subgraphkit.transport import Travelling, describe_exception, text_of

__all__ = [
    "CODES", "BackendConflictError", "BackendError", "BackendIncompatibleError",
    "BackendLoadError", "BackendNotFoundError", "BackendUnavailableError", "BindError",
    "BundleError", "CacheError", "CallerError", "CompileError", "CompileTimeoutError",
    "ConfigError", "ExecutionError", "Fault", "InputError", "InternalError", "InvalidModelError",
    "MemoryLimitError", "ModelError", "ModelNotFoundError", "OptionError", "RunCancelledError",
    "RunTimeoutError", "SelectorContractError", "SubgraphkitError", "SubgraphkitWarning",
    "UnclaimedNodesError", "UnsupportedModelError", "WeightUpdateError", "causes_of",
    "describe_exception", "fault_of", "text_of",
]  # fmt: skip

Fault = Literal["caller", "model", "backend", "machine"]
"""Who is at fault: the caller, the model, the software that computes, or the machine."""

_OF_THE_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
    | {errno.EACCES, errno.EPERM, errno.ENODEV, errno.ENXIO, errno.EAGAIN, errno.ESTALE}
)
_MOST_CAUSES: Final = 8
# Both are compiled when an error is first looked at.
_SAYS_MACHINE: Final = (
    r"(?i)out of memory|bad_alloc|(failed|cannot|unable|not enough memory) to alloc"
    r"|no space left on device|disk quota exceeded|too many open files"
)
_SAYS_VALUES: Final = (
    r"(?i)INVALID_?ARGUMENT|out of (data )?bounds|(?<!list )(?<!tuple )index out of range"
)
"""How libraries put it that an input has a value that a node cannot take, such as an index."""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, which may cause one another in a circle."""
    at: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if at is not None:
            yield at
            at = at.__cause__


def fault_of(error: BaseException, *, running: bool = False) -> Fault | None:
    """Return who is at fault for an exception of any kind, if it says so.

    Args:
        error: The exception; it may say so by an attribute ``fault``.
        running: Whether it was raised by a computation on feeds.
    """
    if isinstance(error, SubgraphkitError):
        said: Fault | None = getattr(error, "_fault", None)
        return said or ("machine" if error.code in OF_THE_MACHINE else None)
    said = getattr(error, "fault", None)
    if said is not None or isinstance(error, MemoryError | TimeoutError | PermissionError):
        return said or "machine"
    if isinstance(error, OSError):
        return "machine" if error.errno in _OF_THE_MACHINE else None
    text = text_of(error)
    if re.search(_SAYS_MACHINE, text):
        return "machine"
    return "caller" if running and re.search(_SAYS_VALUES, text) else None


class SubgraphkitWarning(Travelling, UserWarning):
    """A warning about something the user should change; results are right nevertheless."""

    def __init__(self, message: str) -> None:
        super().__init__(paragraph(message))


class SubgraphkitError(Travelling, Exception):
    """Base class of every error that subgraphkit raises on purpose.

    Pickled, copied or sent by another engine, it arrives with its class, code, message, hint and
    attributes. ``context`` is reduced to numbers, text, None, tuples and dicts of these; its causes
    are in a note (``__notes__``). If its class cannot be imported there, the nearest public base
    arrives; no code travels.

    Attributes:
        code: Stable identifier, a key of ``CODES``.
        message: What failed, what was expected, what was found; no trailing full stop. Names in
            it are made printable.
        hint: What to do about it; one line per remedy, or an empty string.
        context: Facts for programs (names, indices); keys depend on the code.
    """

    usual_fault: ClassVar[Fault] = "backend"
    """Who is at fault if neither the code nor the cause says so."""
    _fault: Fault  # not there unless somebody said so

    def __init__(self, code: str, message: str, *, hint: str = "", **context: Any) -> None:
        """Build an error.

        Args:
            code: A key of ``CODES``.
            message: What failed, what was expected, what was found.
            hint: What to do; printed indented below the message.
            **context: Facts for programs.
        """
        self.code = code
        self.message = printable(message, keep="\n\t")
        self.hint = printable(hint, keep="\n\t")
        self.context: dict[str, Any] = context
        super().__init__(self.message)

    @property
    def fault(self) -> Fault:
        """Who is at fault; a server answers 400 to a ``"caller"`` and stays healthy.

        ``"caller"``: the call, or the values fed. ``"model"``: the model. ``"machine"``: memory,
        disk, permissions, time limits, devices and drivers, or a process that was killed; elsewhere
        or later the same may succeed. ``"backend"``: the software that computes, which is a backend
        or, for an ``InternalError``, subgraphkit.

        It is the value set here, else that of the code, else of a cause, else of the class.
        """
        usual = self.usual_fault
        for at in causes_of(self):
            if (found := fault_of(at)) is not None:
                return found
            if usual == "backend":  # the class of a wrapper says less than the error's
                usual = getattr(at, "usual_fault", usual)
        return usual

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault

    def __str__(self) -> str:
        """Render as ``[code] message`` with the hint indented below."""
        lines = [paragraph(f"[{self.code}] {self.message}")]
        lines += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


class ModelError(SubgraphkitError):
    """The model is at fault; its author can mend it."""

    usual_fault: ClassVar[Fault] = "model"


class InvalidModelError(ModelError, ValueError):
    """The model breaks a rule of ONNX, or its bytes are damaged."""


class UnsupportedModelError(ModelError):
    """The model is valid but uses something that subgraphkit does not support."""


class CallerError(SubgraphkitError):
    """The call is at fault; the caller can mend it."""

    usual_fault: ClassVar[Fault] = "caller"


class ModelNotFoundError(CallerError, FileNotFoundError):
    """The model file does not exist or cannot be opened."""


class ConfigError(CallerError, ValueError):
    """A selection, setting or configuration file cannot be read."""


class OptionError(CallerError, ValueError):
    """A backend option is unknown, of the wrong type, or out of range."""


class BackendNotFoundError(CallerError, LookupError):
    """A backend that was named is not installed or not known."""


class BindError(CallerError, ValueError):
    """The shapes given to ``bind`` do not fit the model."""


class InputError(CallerError, ValueError):
    """``run`` was given feeds or output names that the model does not have."""


class UnclaimedNodesError(CallerError):
    """Nodes are claimed by no backend, or less of a model by one than was asked for."""


class MemoryLimitError(CallerError, MemoryError):
    """A session would need more memory than it may take; nothing was compiled."""


class CacheError(CallerError, OSError):
    """The engine cache cannot be used; results do not depend on it."""


class BundleError(CallerError):
    """A bundle cannot be written, or cannot be opened here."""


class WeightUpdateError(CallerError, ValueError):
    """New weights do not fit the model, or a subgraph cannot take them."""


class CompileTimeoutError(CallerError, TimeoutError):
    """Compiling took longer than it may."""


class RunTimeoutError(CallerError, TimeoutError):
    """A run took longer than it may; the session can be run again."""


class RunCancelledError(CallerError):
    """A run was cancelled; the session can be run again."""


class BackendError(SubgraphkitError):
    """A backend is at fault; its author can mend it.

    Attributes:
        backend: Name of the backend.
        subgraph: Identifier of the subgraph concerned, or None.
    """

    def __init__(  # noqa: D417 (the other arguments are those of the base class)
        self,
        code: str,
        message: str,
        *,
        backend: str,
        subgraph: str | None = None,
        hint: str = "",
        **context: Any,
    ) -> None:
        """Build an error of a backend.

        Args:
            backend: Name of the backend.
            subgraph: Identifier of the subgraph concerned, or None.
        """
        super().__init__(code, message, hint=hint, **context)
        self.backend = backend
        self.subgraph = subgraph


class BackendLoadError(BackendError, ImportError):
    """A backend is installed but its import or registration failed."""


class BackendUnavailableError(BackendError, RuntimeError):
    """A backend is loaded but cannot run on this machine."""


class BackendIncompatibleError(BackendError):
    """A backend needs another version of the plugin API."""


class BackendConflictError(BackendError):
    """Two distributions provide a backend of the same name."""


CANNOT_BE_USED: Final = (
    BackendNotFoundError,
    BackendLoadError,
    BackendUnavailableError,
    BackendIncompatibleError,
    BackendConflictError,
)


class SelectorContractError(BackendError):
    """A selector or property returned something its contract forbids."""


class CompileError(BackendError):
    """A backend claimed a subgraph but failed to compile it."""


class ExecutionError(BackendError, RuntimeError):
    """A subgraph failed while running, or returned something other than declared."""


class InternalError(SubgraphkitError):
    """A bug in subgraphkit; the message asks for a report."""

    def __init__(self, message: str, **context: Any) -> None:
        """Build an internal error.

        Args:
            message: The broken invariant, with the facts that show it.
            **context: Facts for programs.
        """
        hint = "This is a bug in subgraphkit; report it with the model and this message."
        super().__init__("SGK900", message, hint=hint, **context)
