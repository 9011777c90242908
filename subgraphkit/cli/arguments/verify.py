"""The words of ``subgraphkit verify``."""

import argparse

from subgraphkit.cli.arguments.model import add_bind_words, add_feed_words
from subgraphkit.cli.values import tolerance

__all__ = ["add_verify"]


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit verify`` takes."""
    add_bind_words(parser)
    add_feed_words(parser)
    parser.add_argument(
        "--backend", metavar="LIST", help="backends under test, in order (default: as configured)"
    )
    parser.add_argument(
        "--reference",
        metavar="LIST",
        default="numpy",
        help="backends that are believed (default: numpy)",
    )
    parser.add_argument(
        "--per-subgraph",
        action="store_true",
        help="feed every subgraph what the reference has there, to find those at fault",
    )
    parser.add_argument(
        "--rtol",
        metavar="X",
        type=tolerance,
        help="part of the expected element that may be missed (default: by element type)",
    )
    parser.add_argument(
        "--atol",
        metavar="X",
        type=tolerance,
        help="what may be missed everywhere (default: a part of the largest value)",
    )
