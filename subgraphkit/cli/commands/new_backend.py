"""``subgraphkit new-backend``: a package to start from, which installs and passes its own test."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from subgraphkit.cli.command import Command
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.scaffolding.rendering import Names, write_package

__all__ = ["COMMAND"]


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Write the package and say what to do next."""
    names = Names.of(arguments.name)
    folder = arguments.folder or Path(names.distribution)
    files = [path.as_posix() for path in write_package(names, folder)]
    following = [
        f"pip install -e {shlex.quote(f'{folder}[test]')}",
        f"subgraphkit doctor {names.name}",
        f"subgraphkit test {names.name} --level 3",
    ]
    report.data = {"name": names.name, "folder": str(folder), "files": files, "next": following}
    report.show("\n".join([f"{folder}/", *(f"  {path}" for path in files)]))
    report.show("\n".join(["Next:", *(f"  {command}" for command in following)]))
    return ExitCode.OK


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what the backend is called, such as acme_npu")
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="where to write it (default: subgraphkit-NAME)",
    )


COMMAND: Final = Command(
    examples=("new-backend acme_npu", "new-backend acme_npu ~/src/acme"),
    add_arguments=_arguments,
    execute=_execute,
)
