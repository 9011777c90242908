"""Values on the command line: text in, typed pairs out; argparse reports mistakes."""

import argparse
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

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
