"""Words that several commands take: the model, its shapes and inputs, options, backends, data."""

import argparse
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from subgraphkit.cli.command import Parser
from subgraphkit.errors import CallerError

_Value = TypeVar("_Value")


def _split(text: str, form: str) -> tuple[str, str]:
    """Split at the last ``=``; names of values may contain one, sizes do not."""
    name, found, value = text.rpartition("=")
    if not found or not name or not value:
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}")
    return name, value


def pair(text: str, form: str, *, may_be_empty: bool = False) -> tuple[str, str]:
    """Split at the first ``=``, for values that may contain one."""
    name, found, value = text.partition("=")
    if not found or not name or not (value or may_be_empty):
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}")
    return name, value


def _size(text: str, whole: str, form: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"expected {form}, got {whole!r}")
    return int(text)


def shape_of(text: str) -> tuple[str, tuple[int | None, ...]]:
    """Read ``x=1,3,?,224``; ``x=[]`` is a scalar."""
    form = "INPUT=N,N,... with whole numbers or ?"
    name, value = _split(text, form)
    dims = value.removeprefix("[").removesuffix("]").split(",")
    if dims == [""]:
        return name, ()
    return name, tuple(None if d.strip() == "?" else _size(d, text, form) for d in dims)


def symbol_size(text: str) -> tuple[str, int]:
    """Read ``batch=8``."""
    form = "NAME=N with a whole number"
    name, value = _split(text, form)
    return name, _size(value, text, form)


def file_of_input(text: str) -> tuple[str, str]:
    """Read ``x=folder/file.npy``, or ``folder/file.npz`` with the empty name."""
    if "=" not in text and text.endswith(".npz"):
        return "", text
    return pair(text, "INPUT=FILE.npy or FILE.npz")


def option_value(text: str) -> tuple[str, str, str]:
    """Read ``tensorrt.precision=fp16`` as backend, option and value."""
    place, found, value = text.partition("=")
    backend, dot, key = place.partition(".")
    if not found or not dot or not backend or not key:
        raise argparse.ArgumentTypeError(f"expected BACKEND.KEY=VALUE, got {text!r}")
    return backend, key, value


def seconds(text: str) -> float:
    """Read a time in seconds, more than none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return value


def counting(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number that is not below ``least``, nor above ``most``."""
    end = "or more" if most is None else f"to {most}"

    def read(text: str) -> int:
        value = int(text) if text.strip().isdecimal() else -1
        if value < least or (most is not None and value > most):
            wanted = f"a whole number, {least} {end}"
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return value

    return read


def tolerance(text: str) -> float:
    """Read a tolerance: a number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number that is not negative, got {text!r}")
    return value


def file_to_write(given: str | None, what: str) -> Path | None:
    """Refuse a file that could not be written before any work is done.

    Raises:
        CallerError: It is a folder, its folder is missing or closed to you, or no file can have
            that name (SGK301).
    """
    if given is None:
        return None
    path = Path(given)
    try:
        problem = ""
        if path.is_dir() or not path.parent.is_dir():
            problem = "it is a folder, or its folder is missing"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            problem = "you have no permission to write there"
    except OSError as error:  # such as a name that is too long
        problem = str(error.strerror)
    if problem:
        raise CallerError(
            "SGK301",
            f"{what} in {given!r}: {problem}",
            hint="Give the path of a file in a folder that exists and that you may write to.",
        )
    return path


def merge_pairs(pairs: Iterable[tuple[str, _Value]], option: str) -> dict[str, _Value]:
    """Make a dictionary of what was given by a repeated option.

    Raises:
        CallerError: A name is given twice (SGK301).
    """
    merged: dict[str, _Value] = {}
    for name, value in pairs:
        if name in merged:
            raise CallerError("SGK301", f"{option} gives {name!r} twice")
        merged[name] = value
    return merged


def merge_options(given: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Arrange option values by backend.

    Raises:
        CallerError: An option is given twice (SGK301).
    """
    flat = merge_pairs(((f"{backend}.{key}", value) for backend, key, value in given), "--option")
    merged: dict[str, dict[str, str]] = {}
    for place, value in flat.items():
        backend, _, key = place.partition(".")
        merged.setdefault(backend, {})[key] = value
    return merged


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
