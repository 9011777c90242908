"""The command line: parsed with help that opens with examples, and errors of our own.

Only the command that is called is imported, so that ``--help`` and a mistyped command are answered
at once.
"""

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from subgraphkit import __version__
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.cli.command import PROGRAM, Command, Parser
from subgraphkit.cli.commands import PURPOSES
from subgraphkit.cli.exits import EXIT_CODES
from subgraphkit.configuration.names import BACKEND_NAMES, EXTENSIONS_GROUP
from subgraphkit.errors import CallerError
from subgraphkit.lazy import collector_paused

_EXAMPLES: Final = (
    "run model.onnx --backend numpy",
    "plan model.onnx --backend tensorrt,numpy --reasons",
)


class CommandLine:
    """The parser with its commands."""

    def __init__(self, called: str = "", *, every: bool = False) -> None:
        codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())
        self.parser = Parser(
            _EXAMPLES,
            prog=PROGRAM,
            usage=f"{PROGRAM} COMMAND ...",
            description="Split an ONNX model into subgraphs and run each where it runs best.",
            epilog=f"exit codes:\n{codes}\n\n'{PROGRAM} COMMAND --help' says more about a command.",
        )
        self.parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
        self.commands: argparse._SubParsersAction[Any] = self.parser.add_subparsers(
            title="commands",
            dest="command",
            metavar="COMMAND",
            prog=PROGRAM,
            parser_class=Parser,
        )
        self.command = _command(called) if called in PURPOSES else None
        for name, purpose in PURPOSES.items():
            parser = self.commands.add_parser(name, help=purpose)
            command = _command(name) if every else self.command if name == called else None
            if command is not None:
                parser.description = f"{purpose[0].upper()}{purpose[1:]}."
                command.add_arguments(parser)
                parser.word("--json", "write one JSON document")
                parser.word("--debug", "show the traceback of an error")

    def add_extension_commands(self) -> None:
        """Let extensions add their commands; importing them is spared where there are none."""
        if not BACKEND_NAMES.entry_points(EXTENSIONS_GROUP):
            return
        extensions = import_module("subgraphkit.finding.extensions")
        resolved = import_module("subgraphkit.configuration.config").resolve()
        manager = extensions.ExtensionManager.from_config(resolved)
        manager.notify("subgraphkit_cli", subparsers=self.commands)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Read a command line.

        Raises:
            CallerError: It cannot be read (SGK301).
            SystemExit: Help or version was asked for, and printed.
        """
        self._check_command(words)
        arguments, unknown = self.parser.parse_known_args(words)
        if unknown:
            self._refuse(unknown, arguments.command)
        return arguments

    def _check_command(self, words: Sequence[str]) -> None:
        known = list(self.commands.choices)
        hint = f"Commands: {', '.join(known)}"
        if not words:
            raise CallerError("SGK301", "there is no command", hint=f"{hint}\nHelp: {PROGRAM} -h")
        word = words[0]
        if word not in known and not word.startswith("-"):
            guess = did_you_mean(word, known)
            raise CallerError("SGK301", f"there is no command {word!r}{guess}", hint=hint)

    def _refuse(self, unknown: Sequence[str], command: str | None) -> NoReturn:
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        parser = self.commands.choices[command] if command else self.parser
        guess = ""
        if word.startswith("--"):
            options = re.findall(r"(?<!\S)--[a-z][a-z-]*", parser.format_help())
            guess = did_you_mean(word.partition("=")[0], options)
        raise CallerError(
            "SGK301", f"{parser.prog} does not take {word!r}{guess}", hint=f"Help: {parser.prog} -h"
        )


def _command(name: str) -> Command:
    with collector_paused(importing=True):
        module = import_module(f"subgraphkit.cli.commands.{name.replace('-', '_')}")
    command: Command = module.COMMAND
    return command
