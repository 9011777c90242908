"""The words of the command line; what they do is in ``subgraphkit.cli.commands``.

Nothing heavy is imported here, so that ``--help`` and a mistyped word are answered at once.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from subgraphkit import __version__
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.cli.arguments.bench import add_bench
from subgraphkit.cli.arguments.cache import add_cache
from subgraphkit.cli.arguments.model import add_bind_words, add_feed_words
from subgraphkit.cli.arguments.new_backend import add_new_backend
from subgraphkit.cli.arguments.precision import add_calibrate, add_convert
from subgraphkit.cli.arguments.test import add_test
from subgraphkit.cli.arguments.verify import add_verify
from subgraphkit.cli.exits import EXIT_CODES
from subgraphkit.cli.values import seconds
from subgraphkit.errors import CallerError

__all__ = ["COMMANDS", "CommandLine"]

PROGRAM: Final = "subgraphkit"

COMMANDS: Final = {
    "run": "run a model once, on given or random inputs",
    "plan": "show which nodes would run where, and why; nothing is compiled",
    "build": "compile a model ahead, so that the next bind finds its engines",
    "verify": "compare what a backend computes with a reference, subgraph by subgraph if asked",
    "bench": "measure backends on one model, taking turns",
    "calibrate": "find out how large a model's values get, for convert",
    "convert": "write a model anew in fp16, bf16 or int8",
    "list": "list the backends",
    "info": "show what a backend says about itself",
    "doctor": "find out what works here, and how to mend what does not",
    "config": "show every setting and where its value comes from",
    "cache": "list, check or remove the compiled engines that are kept",
    "new-backend": "write a package to start a backend of your own from",
    "manifest": "write the typed options of a backend from its manifest, or check them",
    "test": "hold a backend against the contract, case by case",
    "selftest": "let a backend try on this machine what only its device can show",
    "version": "show versions",
}
"""The built-in commands, each with what it does."""

_EXAMPLES: Final = {
    "": ("run model.onnx --backend numpy", "plan model.onnx --backend tensorrt,numpy --reasons"),
    "run": ("run model.onnx --seed 1", "run model.onnx --input x=picture.npy -o results.npz"),
    "plan": ("plan model.onnx --symbol batch=8", "plan model.onnx --explain 12"),
    "build": (
        "build model.onnx --backend openvino",
        "build model.onnx --backend tensorrt --symbol batch=8 --engine model.plan",
    ),
    "verify": ("verify model.onnx --backend openvino", "verify model.onnx --per-subgraph"),
    "bench": (
        "bench model.onnx --backends numpy,openvino",
        "bench model.onnx --backends numpy --backend onednn,openvino,numpy",
    ),
    "calibrate": (
        "calibrate model.onnx --data batches/ -o ranges.json",
        "calibrate model.onnx --data a.npz b.npz --method minmax -o ranges.json",
    ),
    "convert": (
        "convert model.onnx --precision fp16 -o half.onnx --report",
        "convert model.onnx --precision int8 --ranges ranges.json -o small.onnx",
    ),
    "list": ("list", "list --all --json"),
    "info": ("info numpy", "info tensorrt --options"),
    "doctor": ("doctor", "doctor tensorrt --timeout 120"),
    "config": ("config", "SUBGRAPH_BACKEND=numpy subgraphkit config"),
    "cache": ("cache ls", "cache prune --size 4GiB --older-than 30"),
    "new-backend": ("new-backend acme_npu", "new-backend acme_npu ~/src/acme"),
    "manifest": ("manifest write src/subgraphkit_acme", "manifest check src/subgraphkit_acme"),
    "test": ("test numpy --level 3", "test numpy --only 'L3/Conv/*' --markdown support.md"),
    "selftest": ("selftest tensorrt", "selftest tensorrt --output report.json"),
    "version": ("version", "version --verbose"),
}


class _Parser(argparse.ArgumentParser):
    """Opens its help with examples, and raises what argparse would print and exit with."""

    def __init__(self, examples: Sequence[str] = (), **settings: Any) -> None:
        # Abbreviated options would change their meaning when an option is added.
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self._examples = examples

    def format_help(self) -> str:
        """Return the help, examples first."""
        lines = [
            f"  {example if PROGRAM in example else f'{PROGRAM} {example}'}\n"
            for example in self._examples
        ]
        return "".join(["examples:\n", *lines, "\n"] if lines else []) + super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise a usage error (SGK301)."""
        raise CallerError("SGK301", message, hint=f"Help: {self.prog} --help")


class CommandLine:
    """The parser with its commands.

    Attributes:
        commands: Where commands are added; handed to extensions.
    """

    def __init__(self) -> None:
        codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())
        self._parser = _Parser(
            _EXAMPLES[""],
            prog=PROGRAM,
            usage=f"{PROGRAM} COMMAND ...",
            description="Split an ONNX model into subgraphs and run each where it runs best.",
            epilog=f"exit codes:\n{codes}\n\n'{PROGRAM} COMMAND --help' says more about a command.",
        )
        self._parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
        self.commands: argparse._SubParsersAction[Any] = self._parser.add_subparsers(
            title="commands",
            dest="command",
            metavar="COMMAND",
            prog=PROGRAM,
            parser_class=_Parser,
        )
        for name, purpose in COMMANDS.items():
            parser = self.commands.add_parser(
                name,
                help=purpose,
                examples=_EXAMPLES[name],
                description=f"{purpose[0].upper()}{purpose[1:]}.",
            )
            _ARGUMENTS[name](parser)
            _add_common(parser)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Read a command line.

        Raises:
            CallerError: It cannot be read (SGK301).
            SystemExit: Help or version was asked for, and printed.
        """
        self._check_command(words)
        arguments, unknown = self._parser.parse_known_args(words)
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
        parser = self.commands.choices[command] if command else self._parser
        guess = ""
        if word.startswith("--"):
            options = re.findall(r"(?<!\S)--[a-z][a-z-]*", parser.format_help())
            guess = did_you_mean(word.partition("=")[0], options)
        raise CallerError(
            "SGK301", f"{parser.prog} does not take {word!r}{guess}", hint=f"Help: {parser.prog} -h"
        )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


def _add_model(parser: argparse.ArgumentParser) -> None:
    add_bind_words(parser)
    parser.add_argument(
        "--backend", metavar="LIST", help="backends in order, such as tensorrt:device=0,numpy"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        default=None,
        help="fail unless the listed backends claim every node",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add_feed_words(parser)
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="where to store the outputs")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="open a bundle that somebody else could have written; engines are run like programs",
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("--reasons", action="store_true", help="list every refusal")
    parser.add_argument(
        "--explain", metavar="NODE", help="say who was asked about a node, by number or name"
    )
    parser.add_argument(
        "--dot", action="store_true", help="write the graph of the subgraphs in the DOT language"
    )


def _add_build(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument(
        "--engine",
        metavar="FILE",
        help="also write the engine as the library's own tools take it; the model has to become "
        "one subgraph",
    )
    parser.add_argument(
        "--bundle",
        metavar="DIR",
        help="also write a bundle: all that is needed to run the model elsewhere",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a bundle that is there already"
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="list backends that are not installed, too"
    )


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a backend, or a bundle")
    parser.add_argument("--options", action="store_true", help="show its options only")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="backends beside the selected ones; all if none is named",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long a backend may take to answer (default: 60)",
    )
    parser.add_argument("--deep", action="store_true", help="let backends probe thoroughly as well")


def _add_manifest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("check", "write"),
        help="check: read the manifest, and see whether the options were written from it; write: "
        "write them",
    )
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="+",
        type=Path,
        help="a folder with an __init__.py and a subgraphkit-backend.toml",
    )


def _add_selftest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a backend")
    parser.add_argument("-o", "--output", metavar="FILE.json", help="where to store the report")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    del parser


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verbose", action="store_true", help="show Python, the packages and the plugins, too"
    )


_ARGUMENTS: Final = {
    "run": _add_run,
    "plan": _add_plan,
    "build": _add_build,
    "verify": add_verify,
    "bench": add_bench,
    "calibrate": add_calibrate,
    "convert": add_convert,
    "list": _add_list,
    "info": _add_info,
    "doctor": _add_doctor,
    "config": _add_nothing,
    "cache": add_cache,
    "new-backend": add_new_backend,
    "manifest": _add_manifest,
    "test": add_test,
    "selftest": _add_selftest,
    "version": _add_version,
}
