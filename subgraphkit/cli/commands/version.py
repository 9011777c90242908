"""``subgraphkit version``: which versions are at work; nothing but metadata is read."""

import platform
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from subgraphkit import __version__
from subgraphkit.backend.plugin_api import PLUGIN_API, api_text
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.tables import Table
from subgraphkit.finding.listing import list_backends

PACKAGES: Final = (
    "numpy",
    "onnx",
    "ml_dtypes",
    "networkx",
    "filelock",
    "platformdirs",
    "pluggy",
    "protobuf",
    "rich",
    "onnxruntime",
)
"""Distributions whose versions help to reproduce a result."""


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    facts: dict[str, Any] = {"subgraphkit": __version__, "plugin_api": api_text(PLUGIN_API)}
    if arguments.verbose:
        facts |= {
            "python": sys.version.split()[0],
            "platform": platform.platform(),
            "packages": package_versions(),
            "backends": {
                record.name: record.provider for record in list_backends() if record.provider
            },
        }
    report.data = facts
    report.show(f"subgraphkit {__version__}")
    if arguments.verbose:
        report.show(Table.of("what version", _rows(facts)))
    return ExitCode.OK


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("plugin API", facts["plugin_api"]), ("Python", facts["python"])]
    rows += [("platform", facts["platform"]), *facts["packages"].items()]
    return rows + [(f"backend {name}", provider) for name, provider in facts["backends"].items()]


def _arguments(parser: Parser) -> None:
    parser.examples = ("version", "version --verbose")
    parser.word("--verbose", "show Python, the packages and the plugins, too")


COMMAND: Final = Command(_arguments, _execute)
