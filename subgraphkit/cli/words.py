"""Words that several commands take: the model, its shapes and inputs, options, backends, data."""

import argparse
from typing import Final

from subgraphkit.cli.values import file_of_input, option_value, shape_of, symbol_size

__all__ = [
    "A_SPEC",
    "add_bind_words",
    "add_data_words",
    "add_feed_words",
    "add_placement_words",
    "add_road_words",
]

A_SPEC: Final = "a spec that 'subgraphkit spec' wrote, a model or a bundle"
"""What commands take that open a session in other processes."""


def add_bind_words(parser: argparse.ArgumentParser) -> None:
    """Add the model, and the arguments of a bind beside the backends."""
    purpose = "an ONNX file, or for 'run' and 'spec' a bundle"
    parser.add_argument("model", metavar="MODEL", help=purpose)
    parser.add_argument(
        "--data-root",
        metavar="FOLDER",
        action="append",
        help="a folder in or below which the model may have its data, beside its own",
    )
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
        help="the size of a named dimension, or of an axis of an input, as x[2]",
    )


def add_feed_words(parser: argparse.ArgumentParser) -> None:
    """Add what is fed."""
    parser.add_argument(
        "--input",
        metavar="INPUT=FILE.npy",
        type=file_of_input,
        action="append",
        default=[],
        help="the array to feed, or FILE.npz with arrays by input; inputs not given are random",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of random inputs (default: 0)"
    )


def add_road_words(parser: argparse.ArgumentParser) -> None:
    """Add the model, the arguments of a bind, and the backends."""
    add_bind_words(parser)
    parser.add_argument(
        "--backend", metavar="LIST", help="backends in order, such as tensorrt:device=0,numpy"
    )
    add_placement_words(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        default=None,
        help="fail unless the listed backends claim every node",
    )
    parser.add_argument(
        "--no-fold",
        dest="fold",
        action="store_false",
        default=None,
        help="leave nodes in that are known at bind, and copies",
    )


def add_placement_words(parser: argparse.ArgumentParser) -> None:
    """Add which nodes a backend must take, or must not."""
    for word, purpose in (
        ("--pin", "a node that a backend must take"),
        ("--keep-off", "a node that a backend must not take"),
    ):
        parser.add_argument(
            word,
            metavar="NODE=BACKEND",
            action="append",
            help=f"{purpose}: its name, its operator or #NUMBER",
        )


def add_data_words(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add batches, and what runs the model over them."""
    parser.add_argument(
        "--data",
        metavar="PLACE",
        nargs="+",
        required=required,
        default=[],
        help=".npz files with a batch each, or folders of them"
        + ("" if required else "; for the report (default: one random batch)"),
    )
    parser.add_argument(
        "--backend",
        metavar="LIST",
        default="numpy",
        help="backends that run the model (default: numpy)",
    )
