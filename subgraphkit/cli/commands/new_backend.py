"""``subgraphkit new-backend``: a package to start from, which installs and passes its own test."""

import shlex
from argparse import Namespace
from pathlib import Path

from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import Report
from subgraphkit.cli.scaffolding.rendering import Names, write_package

__all__ = ["execute"]


def execute(arguments: Namespace, report: Report) -> ExitCode:
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
