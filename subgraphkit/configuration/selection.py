"""The selection of backends: ``tensorrt:precision=fp16,onnxruntime?,numpy`` and its Python forms.

Grammar::

    selection := "none" | "@" file | item ("," item)*
    item      := name ["#" number] ["@" distribution] ["?"] (":" option "=" value)*

The first backend claims first. ``?`` makes a backend optional. ``@`` picks one of two distributions
that provide a name. ``auto`` stands for every backend that is ready. A backend may come several
times with other options. The second is then called ``tensorrt#2``, even if you leave out the
number. A file is a plan from ``tune`` or ``Partitioning.save``, with backends, options and the
place of every node. Give a value with ``,`` or ``:`` by ``SUBGRAPH_OPTIONS`` or in Python. You need
no quotes in a shell, unless a file has the selection as its name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend.option_values import read_path
from subgraphkit.backend.plugin_api import BACKEND_NAME, RESERVED_NAMES
from subgraphkit.configuration import messages
from subgraphkit.configuration.names import in_our_names
from subgraphkit.errors import ConfigError

Selection = object
"""A string of the grammar, a list of items, or one item.

An item is a string, a tuple ``(name, options)``, a ``Backend`` class, a ``Backend`` instance or a
``BackendChoice``.
"""

AUTO: Final = "auto"
NONE: Final = "none"
_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NUMBER: Final = re.compile(r"#(?:[2-9]|[1-9][0-9])")
_OPTION: Final = re.compile(r"([a-z][a-z0-9_]*)=([^,:]*)")
_EXPECTED: Final = "expected NAME[:key=value...] separated by commas"
_LIKELY_COMMAS: Final = ";|+ /&"


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """One item of a selection.

    Attributes:
        name: Name of the backend, or ``"auto"``; with a number, such as ``"tensorrt#2"``, where a
            backend is chosen several times.
        distribution: The distribution it must come from, or an empty string.
        optional: Whether it is left out, rather than an error, where it cannot run.
        options: Option values given with the item, as written.
        plan: The plan file to use, for ``"auto"``; None if none is named.
        target: The ``Backend`` class or instance given instead of a name, or None.
        origin: Who made the selection, for messages.
    """

    name: str
    distribution: str = ""
    optional: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    plan: Path | None = None
    target: object | None = field(default=None, compare=False)
    origin: str = "a call"

    @property
    def backend(self) -> str:
        """The name of the backend without a number."""
        return self.name.partition("#")[0]

    def __str__(self) -> str:
        """Write the item in the grammar; a value that needs it is shown as Python writes it."""
        if self.plan is not None:
            return f"@{self.plan}"
        distribution = f"@{self.distribution}" if self.distribution else ""
        options = "".join(f":{key}={value}" for key, value in self.options.items())
        return f"{self.name}{distribution}{'?' if self.optional else ''}{options}"


def strip_number(name: str) -> str:
    """Return the name of a backend without the number by which it was chosen again."""
    return name.partition("#")[0]


def parse_selection(selection: Selection, origin: str = "a call") -> tuple[BackendChoice, ...]:
    """Read a selection of backends; none for ``"none"`` and for an empty list.

    ``origin``: Who made the selection; kept in the choices and named in messages.

    Raises:
        ConfigError: If it cannot be read, or has an instance of a backend beside another (SGK107).
    """
    choices = list(_choices(selection, origin))
    if any(choice.name == NONE for choice in choices):
        if len(choices) > 1:
            raise messages.bad_selection(origin, f"{NONE!r} cannot be combined with backends")
        return ()
    if len(choices) > 1 and any(choice.plan is not None for choice in choices):
        raise messages.bad_selection(origin, "a plan file cannot be combined with backends")
    return tuple(_number_repeats(choices, origin))


def _number_repeats(choices: Iterable[BackendChoice], origin: str) -> Iterator[BackendChoice]:
    """Number a backend that comes again, with other options."""
    seen: dict[str, BackendChoice] = {}
    for choice in choices:
        same = [one for one in seen.values() if one.backend == choice.backend]
        number, name = 1, choice.name
        while name in seen:
            number += 1
            name = f"{choice.backend}#{number}"
        alike = number > 1 and dict(choice.options) in [dict(one.options) for one in same]
        # an instance has its options, so that it cannot come again with others
        if alike or (number > 1 and not isinstance(choice.target, type | None)):
            problem = f"backend {choice.name!r} is named twice"
            raise messages.bad_selection(origin, problem + " with the same options" * alike)
        seen[name] = replace(choice, name=name)
        yield seen[name]


def _choices(selection: Selection, origin: str) -> Iterable[BackendChoice]:
    match selection:
        case str() if selection.lstrip().startswith("@"):
            try:
                yield BackendChoice(AUTO, plan=read_path(selection.strip()[1:]), origin=origin)
            except ValueError as error:
                raise messages.bad_selection(origin, "expected a file after '@'") from error
        case str():
            yield from _TextReader(selection, origin).read()
        case tuple((_, Mapping())):
            yield _from_pair(selection, origin)
        case list() | tuple():
            for item in selection:
                yield from _choices(item, origin)
        case BackendChoice():
            yield selection
        case _:
            yield _from_object(selection, origin)


def _from_pair(pair: Any, origin: str) -> BackendChoice:
    target, options = pair
    named = [] if isinstance(target, list | tuple) else list(_choices(target, origin))
    if len(named) != 1 or named[0].name in {AUTO, NONE}:
        raise messages.bad_selection(origin, f"expected (backend, options), got {pair!r}")
    choice = named[0]
    if choice.target is not None and not isinstance(choice.target, type):
        raise messages.bad_selection(origin, f"{target!r} is an instance and has its options")
    if not all(isinstance(key, str) for key in options):
        raise messages.bad_selection(origin, f"the names of options are strings, got {options!r}")
    merged = MappingProxyType({**choice.options, **options})
    return replace(choice, options=merged, origin=origin)


def _from_object(target: object, origin: str) -> BackendChoice:
    # Backend itself is not imported here: it pulls in NumPy, and the registry checks the class
    # before it builds anything.
    name = getattr(target, "name", None)
    if not isinstance(name, str) or not callable(getattr(target, "properties", None)):
        raise messages.bad_selection(
            origin,
            "expected a string, a (name, options) pair, a Backend class or instance that has a "
            f"name, or a list of them, got {target!r}",
        )
    if BACKEND_NAME.fullmatch(name) is None or name in RESERVED_NAMES:
        raise messages.bad_selection(origin, f"{name!r} is not a backend name")
    return BackendChoice(name, target=target, origin=origin)


class _TextReader:
    def __init__(self, text: str, origin: str) -> None:
        self.text = text
        self.origin = origin
        self.position = 0

    def read(self) -> Iterable[BackendChoice]:
        while True:
            yield self._item()
            if self.position == len(self.text):
                return
            if self.text[self.position] != ",":
                raise self._error()
            self.position += 1

    def _item(self) -> BackendChoice:
        self._skip_blanks()
        name = self._take(BACKEND_NAME)
        name += self._take(_NUMBER) if self.text.startswith("#", self.position) else ""
        distribution = self._take(_DISTRIBUTION) if self._accept("@") else ""
        optional = self._accept("?")
        options = {}
        while self._accept(":"):
            key, value = self._take(_OPTION).split("=", 1)
            options[key] = value.strip()
        self._skip_blanks()
        if (name in {AUTO, NONE}) and (distribution or optional or options):
            raise messages.bad_selection(self.origin, f"{name!r} takes no '@', '?' or option")
        return BackendChoice(
            name, distribution, optional, MappingProxyType(options), origin=self.origin
        )

    def _take(self, pattern: re.Pattern[str]) -> str:
        if (match := pattern.match(self.text, self.position)) is None:
            raise self._error()
        self.position = match.end()
        return match[0]

    def _accept(self, character: str) -> bool:
        found = self.text.startswith(character, self.position)
        self.position += found
        return found

    def _skip_blanks(self) -> None:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1

    def _error(self) -> Exception:
        problem = f"{_EXPECTED}, got {self.text!r} at position {self.position}"
        return messages.bad_selection(self.origin, problem + self._guess())

    def _guess(self) -> str:
        if ours := in_our_names(self.text):
            return f"; in place of ONNX Runtime's providers write {ours!r}"
        if self.text.endswith(".json"):
            return f"; did you mean {'@' + self.text!r}, a plan file?"
        found = self.text[self.position : self.position + 1]
        before = self.text[max(self.position - 1, 0) : self.position]
        if found and (found in _LIKELY_COMMAS or before.isspace()):
            return "; did you mean ','?"
        if found == "=":
            return "; did you mean ':' before the option?"
        folded = self.text.lower()
        with suppress(ConfigError):
            if self.text != folded and parse_selection(folded) is not None:
                return f"; did you mean {folded!r}?"
        return ""
