"""``author new-backend``: a package to start from, which installs and passes its own tests."""

import shlex
from argparse import Namespace
from pathlib import Path

from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.scaffolding.rendering import distribution_of, write_package
from subgraphkit.cli.words import Parser


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    name, folder = arguments.name, arguments.folder or Path(distribution_of(arguments.name))
    files = [path.as_posix() for path in write_package(name, folder)]
    following = [
        f"cd {shlex.quote(str(folder))}",
        "pip install -e '.[test]'",
        f"subgraphkit doctor {name}",
        f"subgraphkit author test {name} --level 5",
        "pytest",
        "python -m build && twine check --strict dist/*",
    ]
    report.data = {"name": name, "folder": str(folder), "files": files, "next": following}
    report.show("\n  ".join([f"{folder}/", *files]))
    report.show("\n  ".join(["Next:", *following]))
    return ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = ("author new-backend acme_npu", "author new-backend acme_npu ~/src/acme")
    parser.word("name NAME", "what the backend is called, such as acme_npu")
    purpose = "where to write it, in an empty folder (default: subgraphkit-NAME)"
    parser.word("folder DIR", purpose, Path, nargs="?")
