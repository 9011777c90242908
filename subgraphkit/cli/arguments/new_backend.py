"""The words of ``subgraphkit new-backend``."""

import argparse
from pathlib import Path

__all__ = ["add_new_backend"]


def add_new_backend(parser: argparse.ArgumentParser) -> None:
    """Add the words to a parser."""
    parser.add_argument("name", metavar="NAME", help="what the backend is called, such as acme_npu")
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="where to write it (default: subgraphkit-NAME)",
    )
