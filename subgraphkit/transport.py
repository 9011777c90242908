"""The form in which exceptions leave a process: names of classes, and plain values.

It has no code. A live object, such as an operator or an array, becomes its short text. If the other
end cannot find a class, the nearest public base replaces it. The exceptions that led to an error
become a note.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import reduce
from importlib import import_module
from itertools import islice
from types import MemberDescriptorType
from typing import Any, ClassVar, Final

_NOTES: Final = "__notes__"
_WHOLE: Final = frozenset({"code", "message", "hint"})
"""Attributes that are text of ours, and never cut."""

_NATIVE: Final = ("errno", "strerror", "filename", "name", "path")
"""Attributes of ``OSError`` and ``ImportError`` that no dictionary holds, as those of slots."""

_MOST_DEPTH: Final = 4
_MOST_BITS: Final = 1024
_MOST_TEXT: Final = 1 << 12
_MOST_OF_AN_OBJECT: Final = 200
_MOST_CAUSES: Final = 8
_LEAST_ROOM: Final = 8


class Travelling:
    """An exception that can be pickled and copied, with any arguments of its class.

    It arrives with its class, arguments and attributes; ``plain_value`` changes the values.
    ``__init__`` of the class is not called. Code is not sent: a class that cannot be imported there
    is replaced by its nearest public base.
    """

    __slots__ = ()
    _room: ClassVar[int] = 1 << 15
    """About how many bytes each attribute may take."""

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_error, parts_of(self)


def parts_of(error: Any) -> tuple[list[str], tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Return the arguments of ``rebuild_error`` for a travelling exception; JSON can hold them."""
    travelling = [kind for kind in type(error).__mro__ if issubclass(kind, Travelling)]
    kinds = [kind for kind in travelling if kind is not Travelling]
    names = [
        f"{kind.__module__}:{kind.__qualname__}"
        for kind in kinds
        if kind is kinds[0] or not kind.__name__.startswith("_")
    ]
    room = error._room  # noqa: SLF001 (of the same module)
    held = dict(vars(error))
    if (fault := _attribute(error, "fault")) is not None:
        held["_fault"] = fault
    notes = [str(note) for note in held.pop(_NOTES, None) or ()]
    notes += _origin(error)
    state = {
        name: str(value) if name in _WHOLE and isinstance(value, str) else plain_value(value, room)
        for name, value in held.items()
    }
    if notes:
        state[_NOTES] = [note[:_MOST_TEXT] for note in notes]
    members = ((name, one) for kind in kinds for name, one in vars(kind).items())
    slots = [name for name, one in members if isinstance(one, MemberDescriptorType)]
    asked = [name for name in (*_NATIVE, *slots) if name not in held]
    natives = {name: plain_value(_attribute(error, name)) for name in asked}
    known = {name: one for name, one in natives.items() if one is not None or name in slots}
    texts = tuple(one if type(one) is str else plain_value(one) for one in error.args)
    return names, texts, state, known


def _attribute(error: Any, name: str) -> Any:
    with suppress(Exception):  # code of whoever wrote the class
        return getattr(error, name, None)
    return None


def rebuild_error(
    names: Sequence[str],
    args: Sequence[Any],
    state: Mapping[str, Any],
    natives: Mapping[str, Any],
    *,
    imports: bool = True,
) -> BaseException:
    """Make an exception of the result of ``parts_of``.

    ``imports``: Whether to import the module of a class; otherwise it must have been.
    """
    for name in names:
        kind = _find_object(name, imports=imports)
        if isinstance(kind, type) and issubclass(kind, Travelling):
            with suppress(Exception):  # code of whoever wrote the class; then its base arrives
                return _make_error(kind, args, state, natives)
    return RuntimeError(*args)


def _make_error(
    kind: Any, args: Sequence[Any], state: Mapping[str, Any], natives: Mapping[str, Any]
) -> BaseException:
    error = _bare(kind, args)
    native: Any = next(one for one in kind.__mro__ if one.__module__ == "builtins")
    native.__init__(error, *args)
    error.args = tuple(args)
    vars(error).update({name: _make_tuples(one, name) for name, one in state.items()})
    for name, value in natives.items():
        with suppress(AttributeError):  # computed attributes cannot be set
            setattr(error, name, value)
    return error


def _make_tuples(value: Any, name: str = "") -> Any:
    """Turn lists, JSON's form of tuples, into tuples; notes are a list."""
    if isinstance(value, dict):
        return {key: _make_tuples(one) for key, one in value.items()}
    return tuple(map(_make_tuples, value)) if isinstance(value, list) and name != _NOTES else value


def _bare(kind: Any, args: Sequence[Any]) -> BaseException:
    """Return an exception whose ``__init__`` was not called."""
    for one in kind.__mro__:
        # of several bases Python's own may each have one, and only one of them fits
        if "__new__" in vars(one):
            with suppress(TypeError):
                error: BaseException = one.__new__(kind, *args)
                return error
    raise TypeError(kind)


def _find_object(name: str, *, imports: bool) -> object:
    module, _, path = name.partition(":")
    with suppress(Exception):  # the module may be missing, and importing it may raise anything
        home: object = import_module(module) if imports else sys.modules[module]
        return reduce(getattr, path.split("."), home)
    return None


def _origin(error: BaseException) -> Iterator[str]:
    """Yield a note of the exceptions that led to one, if any did."""
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(found) <= _MOST_CAUSES and not any(at is one for one in found):
        found.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    if len(found) > 1:
        texts = (f"{type(one).__name__}: {text_of(one)}".strip()[:_MOST_TEXT] for one in found[1:])
        yield "Caused by " + "\nwhich was caused by ".join(texts)


def plain_value(value: Any, room: int = 1 << 12, depth: int = 0) -> Any:
    """Return a value as numbers, text, None, tuples and dicts of these, of bounded size.

    Sets become tuples, and other objects their short text.

    ``room``: About how many bytes it may take; values without room are left out.
    """
    if value is None or isinstance(value, bool):
        return value
    try:
        # classes that derive from those of Python would be sought at the other end
        if isinstance(value, str):
            return _cut(str.__str__(value), room)
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, int) and value.bit_length() <= _MOST_BITS:
            return int.__int__(value)
        return _several(value, room, depth)
    except Exception:  # noqa: BLE001 (code of the value, such as its way to word itself)
        return f"<{type(value).__name__}>"


def _several(value: Any, room: int, depth: int) -> Any:
    is_mapping = isinstance(value, Mapping)
    if depth < _MOST_DEPTH and (is_mapping or isinstance(value, list | tuple | AbstractSet)):
        count = max(1, min(len(value), room // _LEAST_ROOM))
        each = room // count, depth + 1
        if not is_mapping:
            return tuple([plain_value(one, *each) for one in islice(value, count)])
        items = islice(value.items(), count)
        return {_key(key, each[0]): plain_value(one, *each) for key, one in items}
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return plain_value(value.item(), room, _MOST_DEPTH)  # the scalar of a library
    return _cut(_short(value), min(room, _MOST_OF_AN_OBJECT))


def _key(key: Any, room: int) -> Any:
    return key if type(key) in {int, bool} else _cut(str(key), room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[:room]}..."


def _short(value: Any) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{type(value).__name__} of {value.dtype} {tuple(value.shape)}"
    if isinstance(
        value, int | bytes | bytearray | memoryview | Mapping | list | tuple | AbstractSet
    ):
        return f"<{type(value).__name__}>"  # of which the text may be as long as the value
    from dataclasses import is_dataclass  # noqa: PLC0415 (a tenth of what --help takes)

    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return f"<{type(value).__name__}>"
    return str(value)


def text_of(error: BaseException) -> str:
    """Return the text of an exception, also of one whose own way to word it fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (code of a plugin)
        return "it cannot be put into words"


def describe_exception(error: BaseException) -> str:
    """Return the type and the first line of the text of an exception."""
    text = text_of(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
