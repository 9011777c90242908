"""The command line: parsed with help that opens with examples, and errors of our own.

Only the command that is called is imported, so that ``--help`` and a mistyped command are answered
at once.
"""

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn

from subgraphkit import __version__
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.cli.commands import GROUPS, PURPOSES
from subgraphkit.cli.reporting import EXIT_CODES, ExitCode, usage_error
from subgraphkit.cli.words import PROGRAM, Parser
from subgraphkit.configuration.names import BACKEND_NAMES, EXTENSIONS_GROUP
from subgraphkit.lazy import collector_paused

_EXAMPLES: Final = (
    "run model.onnx --backend numpy",
    "plan model.onnx --backend tensorrt,numpy --details",
)


class CommandLine:
    """The parser with its commands; ``command`` is the built-in one that is called, if one is."""

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
        self.command = _command(called) if called else None
        self.called, self._groups = self.parser, {"": _commands_of(self.parser)}
        for name, purpose in PURPOSES.items():
            group, _, last = name.rpartition(" ")
            if group not in self._groups:
                self._groups[group] = self._group(group)
            parser = self._groups[group].add_parser(last, help=purpose)
            command = _command(name) if every else self.command if name == called else None
            if command is not None:
                self.called = parser
                parser.description = f"{purpose[0].upper()}{purpose[1:]}."
                command.add_words(parser)
                parser.word("--json", "write one JSON document")
                parser.word("--debug", "show the traceback of an error")

    def _group(self, name: str) -> "argparse._SubParsersAction[Any]":
        purpose, _, names = GROUPS[name].partition(":")
        parser = self._groups[""].add_parser(name, help=f"{purpose}:{names}")
        parser.description = f"{purpose[0].upper()}{purpose[1:]}."
        return _commands_of(parser)

    def add_extension_commands(self) -> None:
        """Let extensions add their commands; importing them is spared where there are none."""
        if not BACKEND_NAMES.entry_points(EXTENSIONS_GROUP):
            return
        extensions = import_module("subgraphkit.finding.extensions")
        resolved = import_module("subgraphkit.configuration.config").resolve()
        manager = extensions.ExtensionManager(resolved)
        manager.notify("subgraphkit_cli", subparsers=self._groups[""])

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Read a command line; CallerError (SGK301), or SystemExit behind help and version."""
        self._check_command(words)
        arguments, unknown = self.parser.parse_known_args(words)
        if unknown or not arguments.command:
            self._refuse([*unknown, *words], arguments.command)
        return arguments

    def _check_command(self, words: Sequence[str]) -> None:
        group = words[0] if words and words[0] in GROUPS else ""
        given = words[1 if group else 0 :]
        known = list(self._groups[group].choices)
        hint = f"Commands: {', '.join(known)}"
        if not given:
            (self._groups[""].choices[group] if group else self.parser).print_help()
            raise SystemExit(ExitCode.USAGE)
        word = given[0]
        if word not in known and not word.startswith("-"):
            inner = (name for name in PURPOSES if name.rpartition(" ")[2] == word)
            guess = did_you_mean(word, known)
            guess = next((f"; did you mean {name!r}?" for name in inner), guess)
            raise usage_error(f"there is no command {word!r}{guess}", hint=hint)

    def _refuse(self, unknown: Sequence[str], command: str | None) -> NoReturn:
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        parser = self.called if self.command else self._groups[""].choices.get(command or "")
        parser, guess = parser or self.parser, ""
        if word.startswith("--"):
            options = re.findall(r"(?<!\S)--[a-z][a-z-]*", parser.format_help())
            guess = did_you_mean(word.partition("=")[0], options)
            name = word.partition("=")[0].removeprefix("--").upper()
            if f" {name} " in f"{parser.format_usage()} ".replace("\n", " "):
                guess = f": {name} goes without an option"
        raise usage_error(
            f"{parser.prog} does not take {word!r}{guess}", hint=f"Help: {parser.prog} -h"
        )


def full_parser() -> Parser:
    """Return the parser with every command, from which ``shtab`` writes completions for shells."""
    line = CommandLine(every=True)
    line.add_extension_commands()
    return line.parser


def _commands_of(parser: Parser) -> "argparse._SubParsersAction[Any]":
    return parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", prog=parser.prog, parser_class=Parser
    )


def _command(name: str) -> ModuleType:
    module = name.rpartition(" ")[2].replace("-", "_")
    with collector_paused(importing=True):
        return import_module(f"subgraphkit.cli.commands.{module}")
