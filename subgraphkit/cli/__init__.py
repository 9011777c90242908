"""The command ``subgraphkit``: what the road, the registry and the configuration say, in a shell.

A command is a module in ``subgraphkit.cli.commands`` with a ``COMMAND``; it is imported when it is
called. An extension adds a command by the hook ``subgraphkit_cli``: it adds a parser to
``subparsers`` and sets its default ``handler`` to a function of the arguments that returns an exit
code.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from subgraphkit.cli.exits import ExitCode, exit_code_of
from subgraphkit.cli.parser import CommandLine
from subgraphkit.cli.reporting import CommandReport, plugin_output_apart
from subgraphkit.errors import CallerError

__all__ = ["ExitCode", "main"]

_EXTENSIONS_GROUP: Final = "subgraphkit.plugins"  # from its own module it would bring NumPy along


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line.

    Args:
        arguments: The words after the name of the program; those of this process if not given.

    Returns:
        An exit code, as listed in ``subgraphkit.cli.exits``.
    """
    if sys.stderr is None:  # whoever started us closed it
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words[0] if words and not words[0].startswith("-") else ""
    report = CommandReport(command or "cli", as_json="--json" in words, debug="--debug" in words)
    try:
        with report.collecting_warnings():
            status = _attempt(command, words, report)
        report.deliver()
    except SystemExit as stop:  # argparse has printed help or version
        return int(stop.code or 0)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain at exit.
        _discard_stdout()
        return ExitCode.OK
    except OSError as error:  # a full disk, or no standard output at all
        _discard_stdout()
        unwritten = CallerError("SGK301", f"standard output cannot be written: {error}")
        report.fail(unwritten)
        return exit_code_of(unwritten)
    return status


def _attempt(command: str, words: Sequence[str], report: CommandReport) -> int:
    """Parse and execute; errors end up in the report."""
    try:
        line = CommandLine(command)
        if line.command is None:
            _add_extension_commands(line)
        arguments = line.parse(words)
        if line.command is None:
            report.as_json = False  # the command is an extension's, and so is its output
            return int(arguments.handler(arguments) or ExitCode.OK)
        with plugin_output_apart():
            return int(line.command.execute(arguments, report))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (told, with an exit code)
        end = KeyboardInterrupt() if _is_interrupt(error) else error
        report.fail(end)
        return exit_code_of(end)


def _is_interrupt(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: Python 3.11 wraps it where it makes a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _add_extension_commands(line: CommandLine) -> None:
    """Let extensions add their commands; importing them is spared where there are none."""
    if not entry_points(group=_EXTENSIONS_GROUP):
        return
    extensions = import_module("subgraphkit.finding.extensions")
    resolved = import_module("subgraphkit.configuration.config").resolve()
    manager = extensions.ExtensionManager.from_config(resolved)
    manager.notify("subgraphkit_cli", subparsers=line.commands)


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # or there is none
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
