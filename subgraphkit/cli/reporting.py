"""The output of a command: data on standard output, everything else on standard error.

A command fills one ``CommandReport``. Nothing reaches standard output before the command has ended.
So a plugin's prints cannot get into the data, and ``--json`` is always one document.
"""

import enum
import errno
import logging
import math
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, Self

from subgraphkit import __version__, errors
from subgraphkit import backend as contract
from subgraphkit.backend.messages import PLACEMENT_LOG, is_of_plugin
from subgraphkit.storing.files import write_output
from subgraphkit.texts import Screen, fold_text, paragraph, printable

_FLAGS: Final = (
    (r"argument require='([^']*)'", r"--min-coverage \1"),
    (r"a place in the node list, or give a predicate", "or #NUMBER"),
    (r"argument options=\{'(\w+)': \{'(\w+)': '([^']*)'\}\}", r"--option \1.\2=\3"),
    (r"argument backends?='([^']*)'", r"--backend \1"),
    (r"shapes=\{[^}]*\} \((--symbol [^)]*)\)", r"\1"),
    (r"\bshapes (names|gives) ", r"--shape or --symbol \1 "),
    (r"\ba constraint names ", "--pin or --keep-off names "),
    (r"Leave out pin and keep_off\.", "Leave out --pin and --keep-off."),
    (r"limits=\{'(\w+)': (\d+)\}( in Python,\s*or SUBGRAPH_[\w=]+)?", r"SUBGRAPH_LIMITS=\1=\2"),
    (r"options=\{'BACKEND': \{\.\.\.\}\}", "--option BACKEND.KEY=VALUE"),
)
_SETTING: Final = re.compile(r"""\b([a-z_]+)=(?:"([^"]*)"|'([^']*)'|(True|False)\b)""")


def in_flags(text: str) -> str:
    """Write a Python argument in a message as the flag or the variable it is here."""
    for pattern, flag in _FLAGS:
        text = re.sub(pattern, flag, text)
    return _SETTING.sub(_variable, text)


def _variable(found: re.Match[str]) -> str:
    setting = import_module("subgraphkit.configuration.settings").SETTINGS.get(found[1])
    if setting is None:
        return found[0]
    return f"{setting.env}={found[2] or found[3] or found[4].lower()}"


class ExitCode(enum.IntEnum):
    """The exit code of a command."""

    _value_: int
    meaning: str

    OK = 0, "all went well"
    CHECK_FAILED = 1, "a check failed"
    USAGE = 2, "the command, a setting or an input is wrong"
    BACKEND = 3, "a backend is missing, broken or incompatible, or cannot run here"
    MODEL = 4, "the model cannot be read or is not valid"
    UNCLAIMED = 5, "no backend claims some nodes, or one has less than is required"
    FAILURE = 6, "a subgraph failed to compile or to run"
    INCOMPLETE = 7, "it ended too early, or tried too little; what was found is shown"
    BUG = 70, "a bug in subgraphkit"
    INTERRUPTED = 130, "interrupted from the keyboard"

    def __new__(cls, number: int, meaning: str = "") -> Self:
        """Make a code of its number and meaning."""
        code = int.__new__(cls, number)
        code._value_, code.meaning = number, meaning
        return code


EXIT_CODES: Final = {code: code.meaning for code in ExitCode}

_KINDS: Final[tuple[tuple[tuple[type[errors.SubgraphkitError], ...], ExitCode], ...]] = (
    ((errors.ModelError, errors.ModelNotFoundError), ExitCode.MODEL),
    ((errors.UnclaimedNodesError,), ExitCode.UNCLAIMED),
    (errors.CANNOT_BE_USED, ExitCode.BACKEND),
    ((errors.InternalError,), ExitCode.BUG),
    ((errors.CompileTimeoutError, errors.WeightUpdateError), ExitCode.FAILURE),
    ((errors.CallerError,), ExitCode.USAGE),
)


def exit_code_of(error: BaseException | type[BaseException]) -> ExitCode:
    """Return the exit code of a command that ended with an error, or with one of a class."""
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, BaseException) and is_of_plugin(error):
        # as it is, under SUBGRAPH_RAISE_PLUGIN_ERRORS
        return ExitCode.BACKEND
    if not issubclass(kind, errors.SubgraphkitError):
        return ExitCode.BUG
    for kinds, code in _KINDS:
        if issubclass(kind, kinds):
            return code
    return ExitCode.FAILURE


def usage_error(message: str, hint: str = "") -> errors.CallerError:
    """Word that a command line cannot be carried out as it is written (SGK301)."""
    return errors.CallerError("SGK301", message, hint=hint)


SCHEMA_VERSION: Final = 1
"""Version of the JSON documents; members may be added within it, none changes or goes."""


class _Lines(Protocol):
    """A thing written as lines, such as a ``viewing.Table``, which ``--help`` does not import."""

    def lines(self, width: int | None = None) -> list[str]:
        """Render as lines of at most so many cells, the heading first."""
        ...


class CommandReport:
    """Collects the output of a command and writes it at the end.

    Attributes:
        assumption: Sizes that the command had to invent, in words; failures of a run mention them.
        seconds: The times of its steps, in the order of their ends.
        width: Cells in a line of standard output; None where it is no terminal.
    """

    def __init__(self, command: str, *, as_json: bool = False, debug: bool = False) -> None:
        self.command = command
        self.as_json = as_json
        self.debug = debug
        self.data: Any = None
        self.assumption = ""
        self.seconds: dict[str, float] = {}
        self.width = Screen(sys.stdout).width if sys.stdout is not None else None
        self._blocks: list[str | _Lines] = []
        self._warnings: list[dict[str, str]] = []
        self._errors: list[dict[str, Any]] = []

    def show(self, block: str | _Lines, *, exactly: bool = False) -> None:
        """Add a paragraph or a table to the text for people; ``exactly`` is for programs."""
        if isinstance(block, str) and not exactly:
            block = fold_text(block, self.width)
        self._blocks.append(block)

    def note(self, text: str) -> None:
        """Write something beside the data, now."""
        sys.stderr.write(f"{paragraph(text, Screen(sys.stderr).width)}\n")

    def keep(
        self, file: Path | None, make: Callable[[], str | bytes], words: str = "page: {}"
    ) -> None:
        """Write a file, if one was asked for, and say so in words that name it."""
        if file is not None:
            with self.writing(file, words):
                content = make()
                write_output(file, content.encode() if isinstance(content, str) else content)

    @contextmanager
    def writing(self, file: Path, words: str) -> Iterator[None]:
        """Say that a file was written, once it was; CallerError (SGK301) if it cannot be."""
        try:
            yield
        except OSError as error:
            problem = f"{str(file)!r} cannot be written: {error.strerror or error}"
            raise usage_error(problem) from error
        self.note(words.format(file))

    @contextmanager
    def doing(self, what: str) -> "Iterator[contract.Progress]":
        """Show the present work and its progress on standard error, as ``progress`` says."""
        started = time.perf_counter()
        settings = import_module("subgraphkit.configuration.config").resolve()
        how = settings.progress if settings.sources["progress"][0] != "default" else "auto"
        viewing = import_module("subgraphkit.viewing.progress")
        with viewing.show_progress(how, sys.stderr) as progress:
            progress(what, 0)
            yield progress
        self.seconds[what] = time.perf_counter() - started

    def fail(self, error: BaseException) -> None:
        """Report an error now, and keep it for the document."""
        failed = exit_code_of(error) is ExitCode.FAILURE
        if isinstance(error, errors.SubgraphkitError) and self.assumption and failed:
            error.hint = "\n".join(filter(None, (error.hint, f"Sizes: {self.assumption}.")))
        self._errors.append(_error_members(error))
        if self.debug:
            sys.stderr.write("".join(traceback.format_exception(error)))
        self.note(f"error: {_text_of(error)}")
        if not isinstance(error, errors.SubgraphkitError | KeyboardInterrupt) and not self.debug:
            self.note("  Run the command again with --debug to see where.")

    @contextmanager
    def collecting_warnings(self) -> Iterator[None]:
        """Report warnings, those of the placement too, in our own form and keep them."""

        def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            said = {"type": category.__name__, "message": in_flags(str(message))}
            if said not in self._warnings:
                self._warnings.append(said)
                self.note(f"warning: {said['message']}")

        def keep(record: logging.LogRecord) -> bool:
            tell(record.getMessage(), errors.SubgraphkitWarning)
            return False

        with warnings.catch_warnings():
            warnings.simplefilter("always", errors.SubgraphkitWarning)
            warnings.showwarning = tell
            PLACEMENT_LOG.addFilter(keep)
            try:
                yield
            finally:
                PLACEMENT_LOG.removeFilter(keep)

    def deliver(self) -> None:
        """Write the data to standard output; OSError if it cannot be, or nobody reads."""
        stream = sys.stdout
        if stream is None:  # typing does not know of processes without
            raise OSError(errno.EBADF, "it is closed")
        if self.as_json:
            import json  # noqa: PLC0415 (texts for people are quick)

            stream.write(json.dumps(self._document(), indent=2, allow_nan=False) + "\n")
        else:
            for place, block in enumerate(self._blocks):
                stream.write("\n" if place else "")
                _deliver(block, Screen(stream))
        stream.flush()

    def _document(self) -> Mapping[str, Any]:
        return {
            "schema": f"subgraphkit.{self.command}/{SCHEMA_VERSION}",
            "version": __version__,
            "data": self.data,
            "warnings": self._warnings,
            "errors": self._errors,
        }


@contextmanager
def plugin_output_apart() -> Iterator[None]:
    """Send to standard error all that Python or C code writes to standard output meanwhile."""
    with redirect_stdout(sys.stderr):
        original: Any = sys.__stdout__
        saved = None
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it has no number
            target = original.fileno()
            saved = os.dup(target)
        if saved is None:
            yield
            return
        try:
            with suppress(OSError, ValueError):
                os.dup2(sys.stderr.fileno(), target)
            yield
        finally:
            os.dup2(saved, target)
            os.close(saved)


def in_json(value: Any, *more: str) -> Any:
    """Return records as dictionaries of their fields, and of the properties in ``more``.

    Numbers that JSON has no word for, and unknown objects, become text.
    """
    if is_dataclass(value):
        names = [one.name for one in fields(value)] + [one for one in more if hasattr(value, one)]
        return {name: in_json(getattr(value, name), *more) for name in names}
    if isinstance(value, Mapping):
        return {name: in_json(one, *more) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(one, *more) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def members(record: Any, names: str) -> dict[str, Any]:
    """Return some members of a record, as ``in_json`` writes them."""
    return {name: in_json(getattr(record, name)) for name in names.split()}


def _deliver(block: str | _Lines, screen: Screen) -> None:
    if isinstance(block, str):
        screen.write(f"{block}\n")
        return
    heading, *lines = block.lines(screen.width)
    screen.write_heading(heading)
    screen.write("".join(f"{line}\n" for line in lines))


def _text_of(error: BaseException) -> str:
    if isinstance(error, errors.SubgraphkitError):
        notes = "\n".join(getattr(error, "__notes__", ()))
        return in_flags("\n  ".join([str(error), *map(printable, notes.splitlines())]))
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if is_of_plugin(error):
        return f"{type(error).__name__}: {error} ({'; '.join(error.__notes__)})"
    return f"[SGK900] {type(error).__name__}: {error}"


def _error_members(error: BaseException) -> dict[str, Any]:
    if isinstance(error, errors.SubgraphkitError):
        return {
            "type": type(error).__name__,
            "code": error.code,
            "message": in_flags(error.message),
            "hint": in_flags(error.hint),
        }
    ours = not (isinstance(error, KeyboardInterrupt) or is_of_plugin(error))
    code = "SGK900" if ours else ""
    return {"type": type(error).__name__, "code": code, "message": str(error), "hint": ""}
