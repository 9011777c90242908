"""The words that several commands have in common: the model, its shapes, its inputs, options."""

import argparse

from subgraphkit.cli.values import file_of_input, option_value, shape_of, symbol_size

__all__ = ["add_bind_words", "add_feed_words"]


def add_bind_words(parser: argparse.ArgumentParser) -> None:
    """Add the model, and what a bind is told beside the backends."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or for 'run' a bundle")
    parser.add_argument(
        "--option",
        metavar="BACKEND.KEY=VALUE",
        type=option_value,
        action="append",
        default=[],
        help="an option of a backend",
    )
    parser.add_argument(
        "--shape",
        metavar="INPUT=N,N,...",
        type=shape_of,
        action="append",
        default=[],
        help="the shape of an input; ? leaves a dimension as it is",
    )
    parser.add_argument(
        "--symbol",
        metavar="NAME=N",
        type=symbol_size,
        action="append",
        default=[],
        help="the size of a named dimension",
    )


def add_feed_words(parser: argparse.ArgumentParser) -> None:
    """Add what is fed."""
    parser.add_argument(
        "--input",
        metavar="INPUT=FILE.npy",
        type=file_of_input,
        action="append",
        default=[],
        help="the array to feed; inputs not given are random",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of random inputs (default: 0)"
    )
