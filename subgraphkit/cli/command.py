"""A command of the command line: its words and its action."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from subgraphkit.cli.reporting import CommandReport

__all__ = ["Command"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command; its name and purpose are in ``subgraphkit.cli.commands``.

    Attributes:
        examples: Command lines, without the name of the program, that open its help.
        add_arguments: Adds its words to a parser.
        execute: Carries it out: puts what is shown into the report and returns an exit code.
    """

    examples: tuple[str, ...]
    add_arguments: Callable[[ArgumentParser], None]
    execute: Callable[[Namespace, CommandReport], int]
