"""Readers of option and setting values, from Python objects and from text.

Every reader takes a person's words and returns the typed value. Or it raises ``ValueError``, whose
text completes "expected ...". Truthiness is never asked: ``"0"`` and ``"no"`` mean no.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

OptionShapes = Mapping[str, tuple[int | str | tuple[int, ...] | None, ...]]
"""The value of an option of the kind ``shapes``: by name, a number, a symbol, nothing or a
range."""

OptionMapping = Mapping[str, bool | int | float | str]
"""The value of an option of the kind ``mapping``: plain values by name."""

_WORDS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_FIXED_SHAPE: Final = re.compile(r"\d+(x\d+)*")


def read_bool(value: object) -> bool:
    """Read a boolean: ``True``, ``False``, or one of eight words in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    raise ValueError("a boolean; use 1/0, true/false, yes/no or on/off")


def read_int(value: object) -> int:
    """Read a whole number; a boolean is not one."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return int(value)
    raise ValueError("a whole number")


def read_float(value: object) -> float:
    """Read a number; a boolean is not one."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(value)
    raise ValueError("a number")


def read_str(value: object) -> str:
    """Read a string; nothing is converted to one."""
    if isinstance(value, str):
        return value
    raise ValueError("a string")


def read_bytes(value: object) -> int:
    """Read a size in bytes: a whole number, or text such as ``2GiB``, ``500MB`` or ``4096``."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ValueError("a size such as 4096, 500MB or 2GiB")
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def read_path(value: object) -> Path:
    """Read a path; ``~`` is the home directory."""
    if isinstance(value, Path) or (isinstance(value, str) and value.strip()):
        return Path(value).expanduser()
    raise ValueError("a path")


def read_list(value: object) -> tuple[str, ...]:
    """Read a list of strings, or text separated by commas."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    if isinstance(value, Sequence) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise ValueError("a list of strings, or words separated by commas")


def read_shapes(value: object) -> OptionShapes:
    """Read shapes by input name: a mapping, or ``x=1x3x224x224;mask=N,128``.

    In a mapping, several shapes of whole numbers may replace one, for options that take them.
    """
    problem = "shapes by input name, such as {'x': (1, 3)} or 'x=1x3;mask=N,128'"
    if isinstance(value, str):
        return MappingProxyType(dict(_shape_from_text(item, problem) for item in value.split(";")))
    if isinstance(value, Mapping) and all(map(_is_named_shape, value.items())):
        return MappingProxyType({name: tuple(map(_dim, dims)) for name, dims in value.items()})
    raise ValueError(problem)


def _is_named_shape(item: tuple[object, object]) -> bool:
    name, dims = item
    return (
        isinstance(name, str)
        and isinstance(dims, Sequence)
        and not isinstance(dims, str)
        and all(map(_is_dim, dims))
    )


def _is_dim(dim: object) -> bool:
    if isinstance(dim, list | tuple):
        return all(map(_is_whole, dim))
    return dim is None or isinstance(dim, str) or _is_whole(dim)


def _is_whole(dim: object) -> bool:
    return isinstance(dim, int) and not isinstance(dim, bool)


def _dim(dim: object) -> int | str | tuple[int, ...] | None:
    if isinstance(dim, list | tuple):
        return tuple(dim)
    return dim if isinstance(dim, int | str) else None


def _shape_from_text(item: str, problem: str) -> tuple[str, tuple[int | str | None, ...]]:
    name, equals, text = (part.strip() for part in item.partition("="))
    if not name or not equals:
        raise ValueError(problem)
    # "x" separates dimensions only where nothing else can be meant: a symbol may contain the letter
    words = text.split("x") if _FIXED_SHAPE.fullmatch(text) else text.split(",")
    dims = (word.strip() for word in words if word.strip())
    return name, tuple(int(dim) if dim.isdigit() else None if dim == "?" else dim for dim in dims)


def read_mapping(value: object) -> OptionMapping:
    """Read plain values by name: a mapping, or ``tactics=4;strict=true;level=FULL``."""
    problem = "plain values by name, such as {'a': 1, 'b': True} or 'a=1;b=true'"
    if isinstance(value, str):
        items = [item.partition("=") for item in value.split(";") if item.strip()]
        if all(name.strip() and equals for name, equals, _ in items):
            return MappingProxyType({name.strip(): _plain(text) for name, _, text in items})
    elif isinstance(value, Mapping) and all(map(_is_plain, value.items())):
        return MappingProxyType(dict(value))
    raise ValueError(problem)


def _is_plain(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], bool | int | float | str)


def _plain(text: str) -> bool | int | float | str:
    """Read a word as the value it looks like; ``1`` is a number."""
    for read in (read_int, read_float, read_bool):
        with suppress(ValueError):
            return read(text)
    return text.strip()


READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "bool": read_bool,
    "int": read_int,
    "float": read_float,
    "str": read_str,
    "bytes": read_bytes,
    "path": read_path,
    "list": read_list,
    "mapping": read_mapping,
    "shapes": read_shapes,
}
"""A reader for each kind of option but ``enum``, whose reader depends on its choices."""
