"""``author new-backend``: a package to start from, which installs and passes its own tests."""

import shlex
from argparse import Namespace
from pathlib import Path
from typing import Final

from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.scaffolding.rendering import SELECTORS, Design, write_package
from subgraphkit.cli.scaffolding.typed_options import option_of


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    options = [option_of(word) for word in _words(arguments.options)]
    operators = _words(arguments.operators)
    design = Design(arguments.name, arguments.selector, operators, options)
    folder = arguments.folder or Path(design.distribution)
    files = [path.as_posix() for path in write_package(design, folder)]
    place = shlex.quote(str(folder))
    following = [
        f"cd {place}",
        "pip install -e '.[test]'",
        f"subgraphkit doctor {design.name}",
        f"subgraphkit author test {design.name} --level 5",
        "pytest",
        "python -m build && twine check --strict dist/*",
    ]
    report.data = {"name": design.name, "folder": str(folder), "files": files, "next": following}
    report.show("\n".join([f"{folder}/", *(f"  {path}" for path in files)]))
    report.show("\n".join(["Next:", *(f"  {command}" for command in following)]))
    return ExitCode.OK


def _words(texts: list[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "author new-backend acme_npu",
        "author new-backend acme_npu ~/src/acme --operators Conv,Relu --options tile:int=8",
        "author new-backend acme_npu --selector operators --operators Gemm,Softmax",
    )
    parser.word("name NAME", "what the backend is called, such as acme_npu")
    parser.word(
        "folder DIR",
        "where to write it, in an empty folder (default: subgraphkit-NAME)",
        Path,
        nargs="?",
    )
    kinds = "; ".join(f"{name}: {meaning}" for name, meaning in SELECTORS.items())
    parser.word(
        "--selector KIND",
        f"how it finds its regions; {kinds}",
        default=next(iter(SELECTORS)),
        choices=tuple(SELECTORS),
    )
    parser.word(
        "--operators OPERATOR,...",
        "what it takes, in the order of a chain (default: Conv,BatchNormalization,Relu)",
        several=True,
    )
    parser.word(
        "--options NAME:TYPE=DEFAULT,...",
        "options for it to have besides min_nodes, such as tile:int=8,mode:enum=fast|exact",
        several=True,
    )


COMMAND: Final = Command(_arguments, _execute)
