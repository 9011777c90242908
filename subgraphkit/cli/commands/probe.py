"""``subgraphkit deploy probe``: whether a model on a server answers, found out by an inference."""

from argparse import Namespace

from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.words import Parser, seconds
from subgraphkit.serving.oip import probe
from subgraphkit.texts import printable


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    url, model, version = arguments.url, arguments.model, arguments.version
    problem = probe(url, model, version, timeout_s=arguments.timeout)
    report.data = {"model": model, "healthy": not problem, "problem": problem}
    report.show(printable(f"{model} does not answer: {problem}" if problem else f"{model} answers"))
    return ExitCode.CHECK_FAILED if problem else ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "deploy probe http://127.0.0.1:8000 bert",
        "deploy probe http://127.0.0.1:8000 bert --version 2 --timeout 5",
    )
    parser.word("url URL", "the server, such as http://127.0.0.1:8000")
    parser.word("model MODEL", "name of the model there")
    parser.word("--version V", "which version of it (default: what the server chooses)")
    parser.word("--timeout SECONDS", "how long the server may be silent", seconds, 10.0)
