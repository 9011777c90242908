"""A command line carried out: parsed, executed, its report delivered, errors told."""

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from subgraphkit.cli.commands import command_of
from subgraphkit.cli.interrupts import is_interrupt
from subgraphkit.cli.parser import CommandLine
from subgraphkit.cli.reporting import (
    CommandReport,
    ExitCode,
    exit_code_of,
    plugin_output_apart,
    usage_error,
)
from subgraphkit.errors import MemoryLimitError, SubgraphkitError, describe_exception
from subgraphkit.texts import Screen

_UNWRITABLE: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}


def carry_out(words: Sequence[str]) -> int:
    """Carry out a command line; return its exit code."""
    if sys.stderr is None:  # our parent closed it
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)
    with contextlib.ExitStack() as screens:
        screens.enter_context(contextlib.redirect_stderr(Screen.over(sys.stderr)))
        if sys.stdout is not None:
            screens.enter_context(contextlib.redirect_stdout(Screen.over(sys.stdout)))
        return _execute_and_deliver(words)


def _execute_and_deliver(words: Sequence[str]) -> int:
    command = command_of([*words])
    name = command.rpartition(" ")[2] or "cli"
    report = CommandReport(name, as_json="--json" in words, debug="--debug" in words)
    try:
        with report.collecting_warnings():
            status = _attempt(command, words, report)
        report.deliver()
    except SystemExit as stop:  # argparse has printed help or version
        return int(stop.code or 0)
    except BrokenPipeError:
        # The reader of our output has seen enough; the interpreter must not complain at exit.
        _discard_stdout()
        return ExitCode.OK
    except OSError as error:  # a full disk, or no standard output at all
        _discard_stdout()
        unwritten = usage_error(f"standard output cannot be written: {error}")
        report.fail(unwritten)
        return exit_code_of(unwritten)
    return status


def _attempt(command: str, words: Sequence[str], report: CommandReport) -> int:
    """Parse and execute; errors end up in the report."""
    try:
        line = CommandLine(command)
        if line.command is None:
            line.add_extension_commands()
        arguments = line.parse(words)
        if line.command is None:
            report.as_json = False  # the command is an extension's, and so is its output
            with contextlib.redirect_stdout(getattr(sys.stdout, "stream", sys.stdout)):
                return int(arguments.handler(arguments) or ExitCode.OK)
        with plugin_output_apart():
            return int(line.command.execute(arguments, report))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (told, with an exit code)
        end = KeyboardInterrupt() if is_interrupt(error) else _with_code(error)
        report.fail(end)
        return exit_code_of(end)


def _with_code(error: BaseException) -> BaseException:
    """Give a code to a refusal of the machine: memory, or a file to be written."""
    if isinstance(error, SubgraphkitError):
        return error
    end: SubgraphkitError
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename:
        place = error.filename2 or error.filename
        end = usage_error(f"{str(place)!r} cannot be written: {error.strerror}")
    elif isinstance(error, MemoryError):
        end = MemoryLimitError(
            "SGK134",
            f"there is not enough memory: {describe_exception(error)}",
            hint="Give smaller sizes, or run it where there is more.",
        )
    else:
        return error
    end.__cause__ = error
    return end


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # or there is none
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
