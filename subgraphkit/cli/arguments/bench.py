"""The words of ``subgraphkit bench``."""

import argparse

from subgraphkit.cli.arguments.model import add_bind_words, add_feed_words
from subgraphkit.cli.values import counting, seconds

__all__ = ["add_bench"]


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit bench`` takes."""
    add_bind_words(parser)
    add_feed_words(parser)
    who = parser.add_argument_group(
        "backends; the others are compared with the first (default: what is configured)"
    )
    who.add_argument(
        "--backends",
        metavar="NAME,NAME,...",
        type=lambda text: text.split(","),
        action="extend",
        dest="selections",
        help="backends, each by itself with the fallback behind it",
    )
    who.add_argument(
        "--backend",
        metavar="LIST",
        action="append",
        dest="selections",
        help="backends together, in order, such as onednn,openvino,numpy; may be repeated",
    )
    parser.add_argument(
        "--repeat",
        metavar="N",
        type=counting(1),
        default=10,
        help="turns that everybody takes (default: 10)",
    )
    parser.add_argument(
        "--warmup",
        metavar="N",
        type=counting(0),
        default=3,
        help="runs beforehand that do not count (default: 3)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=counting(1),
        help="threads of every library that can be told (default: as each likes)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=600.0,
        help="how long compiling, or one turn, may take (default: 600)",
    )
    parser.add_argument("--markdown", action="store_true", help="write the table as Markdown")
