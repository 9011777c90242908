"""``subgraphkit config``: every setting, its value, and the layer and place it comes from."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.tables import Table
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.files import config_paths


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    del arguments
    resolved = resolve()
    files = [str(path) for _, path in config_paths(os.environ, Path.cwd())]
    report.data = {"settings": described_settings(resolved), "files": files}
    report.show(Table.of("setting value layer location", resolved.as_table()))
    for file in files:
        report.note(f"read {file}")
    return ExitCode.OK


def described_settings(resolved: ResolvedConfig) -> list[dict[str, Any]]:
    """Return every setting with its origin, for programs; values are as people write them."""
    return [
        {"key": key, "value": value, "layer": layer, "location": location}
        for key, value, layer, location in resolved.as_table()
    ]


def _arguments(parser: Parser) -> None:
    parser.examples = ("config", "SUBGRAPH_BACKEND=numpy subgraphkit config")


COMMAND: Final = Command(_arguments, _execute)
