"""The words of ``subgraphkit test``."""

import argparse
from typing import Final

from subgraphkit.cli.values import seconds

__all__ = ["LEVEL_CHOICES", "add_test"]

LEVEL_CHOICES: Final = range(8)
"""The levels of the kit, which is not imported for the help."""


def add_test(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit test`` takes."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a backend, with options as in a selection; or module:Class, one that is not "
        "installed; or loopback, which claims everything and runs it on the fallback",
    )
    parser.add_argument(
        "--level",
        metavar="N",
        type=int,
        choices=LEVEL_CHOICES,
        default=LEVEL_CHOICES[-1],
        help="the last level to try: 0 static, 1 contract, 2 partition traps, 3 operators, "
        "4 models, 5 running, 6 artefacts, 7 stress (default: 7)",
    )
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="cases to try, such as 'L3/Conv/*'"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long one case may take (default: 60)",
    )
    files = parser.add_argument_group("files")
    files.add_argument(
        "--models",
        metavar="DIR",
        default="",
        help="models of your own to try at level 4: NAME.onnx, compared with numpy, or "
        "NAME/model.onnx with NAME/test_data_set_0",
    )
    files.add_argument("--csv", metavar="FILE", help="write what is known of each operator")
    files.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    files.add_argument(
        "--baseline",
        metavar="FILE",
        help="what --json wrote earlier; cases that ended better then are failures",
    )
