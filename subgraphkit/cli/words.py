"""Words that several commands take: the model, its shapes and inputs, options, backends."""

import argparse
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from subgraphkit.cli.reporting import usage_error

PROGRAM: Final = "subgraphkit"
_FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""The words of ``shtab`` for a file or a folder."""


class Parser(argparse.ArgumentParser):
    """Opens its help with examples, and raises errors where argparse would print and exit."""

    def __init__(self, examples: Sequence[str] = (), **settings: Any) -> None:
        # Abbreviated options would change their meaning when an option is added.
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self.examples = examples

    def word(
        self,
        spelling: str,
        purpose: str,
        kind: Callable[[str], Any] | None = None,
        default: Any = None,
        *,
        several: bool = False,
        within: argparse._ActionsContainer | None = None,
        **more: Any,
    ) -> None:
        """Add a word."""
        *names, last = spelling.split()
        if last.startswith("-"):
            names.append(last)
            if default is None and "choices" not in more:
                more.setdefault("action", "store_true")
        else:
            more["metavar"] = last
        told = f"{default:g}" if isinstance(default, float) else default
        if told not in (None, "", []) and "(default" not in purpose:
            purpose += f" (default: {told})"
        if several:
            more["action"], default = "append", []
        given = {"type": kind, "default": default}
        more |= {name: value for name, value in given.items() if value is not None}
        action: Any = (within or self).add_argument(*names, help=purpose, **more)
        if more.get("metavar", "").partition(".")[0] in {"MODEL", "FILE", "PLACE", "DIR", "FOLDER"}:
            action.complete = _FILES

    def format_help(self) -> str:
        """Return the help, examples first."""
        lines = [
            f"  {example if PROGRAM + ' ' in example else f'{PROGRAM} {example}'}\n"
            for example in self.examples
        ]
        return "".join(["examples:\n", *lines, "\n"] if lines else []) + super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise a usage error (SGK301)."""
        raise usage_error(message, hint=f"Help: {self.prog} --help")


class Merged(argparse.Action):
    """Makes a dictionary of a repeated option's values: names, the outermost first, and a value.

    CallerError (SGK301) for a name that is given twice.
    """

    def __call__(self, _: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        """Add a value."""
        merged = getattr(namespace, self.dest) or {}
        for *outer, name, value in values if isinstance(values, list) else [values]:
            inner = merged
            for one in outer:
                inner = inner.setdefault(one, {})
            if name in inner:
                given, place = ".".join([*outer, name]), option or self.metavar
                raise usage_error(f"{place} gives {given!r} twice")
            inner[name] = value
        setattr(namespace, self.dest, merged)


def pair(
    text: str, form: str, *, may_be_empty: bool = False, is_last: bool = False
) -> tuple[str, str]:
    """Split at the first ``=``, for values that may contain one, or else at the last."""
    name, found, value = text.rpartition("=") if is_last else text.partition("=")
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
    name, value = pair(text, form, is_last=True)  # names of values may contain one
    dims = value.removeprefix("[").removesuffix("]").split(",")
    if dims == [""]:
        return name, ()
    return name, tuple(None if d.strip() == "?" else _size(d, text, form) for d in dims)


def symbol_size(text: str) -> tuple[str, int]:
    """Read ``batch=8``."""
    form = "NAME=N with a whole number"
    name, value = pair(text, form, is_last=True)
    return name, _size(value, text, form)


def file_of_input(text: str) -> tuple[str, str]:
    """Read ``x=folder/file.npy``, or ``folder/file.npz`` with the empty name."""
    if "=" not in text and text.endswith(".npz"):
        return "", text
    return pair(text, "INPUT=FILE.npy or FILE.npz")


def option_value(text: str) -> tuple[str, str, str]:
    """Read ``tensorrt.precision=fp16`` as backend, option and value."""
    form = "BACKEND.KEY=VALUE"
    place, value = pair(text, form, may_be_empty=True)
    backend, _, key = place.partition(".")
    if not backend or not key:
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}")
    return backend, key, value


def _number(text: str, wanted: str, fits: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Read a time in seconds, more than none."""
    return _number(text, "a number of seconds", lambda value: 0 < value < math.inf)


def tolerance(text: str) -> float:
    """Read a tolerance: a number that is not negative."""
    return _number(text, "a number that is not negative", lambda value: 0 <= value < math.inf)


def counting(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of a whole number not below ``least``, nor above ``most``."""
    end = "or more" if most is None else f"to {most}"

    def read(text: str) -> int:
        value = int(text) if text.strip().isdecimal() else -1
        if value < least or (most is not None and value > most):
            wanted = f"a whole number, {least} {end}"
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return value

    return read


def writable(text: str) -> Path:
    """Refuse a file that cannot be written, before any work is done (CallerError, SGK301)."""
    path, problem = Path(text), ""
    try:
        if path.is_dir() or not path.parent.is_dir():
            problem = "it is a folder, or its folder is missing"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            problem = "you have no permission to write there"
    except OSError as error:  # such as a name that is too long
        problem = str(error.strerror)
    if problem:
        raise usage_error(
            f"{text!r} cannot be written: {problem}",
            hint="Give the path of a file in a folder that exists and that you may write to.",
        )
    return path


A_SPEC: Final = "a spec that 'subgraphkit deploy spec' wrote, a model or a bundle"


def add_bind_words(parser: Parser) -> None:
    """Add the model, and the arguments of a bind beside the backends."""
    parser.word("model MODEL", "an ONNX file, or for 'run' and 'spec' a bundle")
    purpose = "another folder in which the model may have its data"
    parser.word("--data-root FOLDER", purpose, action="append")
    for word, purpose, kind, dest in (
        ("--option BACKEND.KEY=VALUE", "an option of a backend", option_value, "options"),
        ("--shape INPUT=N,N,...", "the shape of an input; ? leaves it open", shape_of, "shapes"),
        ("--symbol NAME=N", "the size of a dimension, or of an axis: x[2]", symbol_size, "shapes"),
    ):
        parser.word(word, purpose, kind, action=Merged, dest=dest)


def add_feed_words(parser: Parser) -> None:
    """Add the words for feeds."""
    purpose = "the array to feed, or FILE.npz by input name (default: random)"
    parser.word("--input INPUT=FILE.npy", purpose, file_of_input, action=Merged)
    parser.word("--seed N", "seed of random inputs", int, 0)


def add_max_error(parser: Parser) -> None:
    """Add how far results may be off where shorter floats are faster."""
    purpose = "the relative L2 error that outputs may have where shorter floats are faster, as 1e-2"
    parser.word("--max-error E", purpose, tolerance)


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


def add_compared_words(parser: Parser) -> None:
    """Add the words of commands that feed a model to backends that they choose."""
    add_bind_words(parser)
    add_feed_words(parser)
    add_max_error(parser)


def add_placement_words(parser: Parser) -> None:
    """Add which nodes a backend must take, or must not."""
    for word, must in (("--pin", "must"), ("--keep-off", "must not")):
        purpose = f"a node that a backend {must} take: its name, its operator or #NUMBER"
        parser.word(f"{word} NODE=BACKEND", purpose, action="append")
