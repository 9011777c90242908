"""Words that several commands take: the model, its shapes and inputs, options, backends, data."""

from typing import Final

from subgraphkit.cli.command import Parser
from subgraphkit.cli.values import file_of_input, option_value, shape_of, symbol_size, tolerance

A_SPEC: Final = "a spec that 'subgraphkit deploy spec' wrote, a model or a bundle"
"""What commands take that open a session in other processes."""


def add_bind_words(parser: Parser) -> None:
    """Add the model, and the arguments of a bind beside the backends."""
    parser.word("model MODEL", "an ONNX file, or for 'run' and 'spec' a bundle")
    parser.word(
        "--data-root FOLDER",
        "another folder in which the model may have its data",
        action="append",
    )
    parser.word("--option BACKEND.KEY=VALUE", "an option of a backend", option_value, several=True)
    parser.word(
        "--shape INPUT=N,N,...",
        "the shape of an input; ? leaves a dimension open",
        shape_of,
        several=True,
    )
    parser.word(
        "--symbol NAME=N",
        "the size of a named dimension, or of an axis, such as x[2]",
        symbol_size,
        several=True,
    )


def add_max_error(parser: Parser) -> None:
    """Add how far results may be off where shorter floats are faster."""
    purpose = "the relative L2 error that outputs may have where shorter floats are faster, as 1e-2"
    parser.word("--max-error E", purpose, tolerance)


def add_feed_words(parser: Parser) -> None:
    """Add what is fed."""
    parser.word(
        "--input INPUT=FILE.npy",
        "the array to feed, or FILE.npz by input name (default: random)",
        file_of_input,
        several=True,
    )
    parser.word("--seed N", "seed of random inputs", int, 0)


def add_road_words(parser: Parser) -> None:
    """Add the model, the arguments of a bind, and the backends."""
    add_bind_words(parser)
    parser.word("--backend LIST", "backends in order, such as tensorrt:device=0,numpy")
    add_placement_words(parser)
    add_max_error(parser)
    parser.word("--strict", "fail unless the listed backends take every node")
    purpose = "do not fold constants or remove Identity nodes"
    parser.word("--no-fold", purpose, action="store_false", dest="fold")
    parser.set_defaults(strict=None, fold=None)  # what is configured


def add_placement_words(parser: Parser) -> None:
    """Add which nodes a backend must take, or must not."""
    for word, must in (("--pin", "must"), ("--keep-off", "must not")):
        purpose = f"a node that a backend {must} take: its name, its operator or #NUMBER"
        parser.word(f"{word} NODE=BACKEND", purpose, action="append")


def add_data_words(parser: Parser) -> None:
    """Add batches, and what runs the model over them."""
    purpose = (
        ".npz files with a batch each, or folders of them; for the report (default: one random "
        "batch)"
    )
    parser.word("--data PLACE", purpose, default=[], nargs="+")
    parser.word("--backend LIST", "backends that run the model", default="numpy")


def add_calibration_words(parser: Parser) -> None:
    """Add how large the values of a model get: what that is found on, how, and where it is kept."""
    parser.word(
        "--calibrate PLACE",
        "find out how large values get, over .npz files with a batch each, or folders of them",
        default=[],
        nargs="+",
    )
    parser.word(
        "--ranges FILE",
        "how large values get: where --calibrate stores it, or else the file that it stored, or a "
        "calibration cache of TensorRT",
    )
    parser.word(
        "--method",
        "how --calibrate chooses thresholds (default: mse, the least squared error)",
        default="mse",
        choices=("mse", "entropy", "percentile", "minmax"),
    )
    parser.word(
        "--percentile P",
        "percent of the elements that are not clipped, for that method",
        float,
        99.99,
    )
