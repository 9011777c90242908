"""Typed options of backends: declared once, checked at every bind, never imported with a runtime.

An option is one table of the manifest, or one line in the class of a backend that has none. From it
follow the check of a value, the default, the environment variable and the line in
``subgraphkit list``. It also says whether the value is part of an engine's key in the cache.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, Literal, Never

from subgraphkit.backend import messages
from subgraphkit.backend.option_values import READERS
from subgraphkit.errors import OptionError

OptionKind = Literal[
    "bool", "int", "float", "str", "enum", "bytes", "path", "list", "mapping", "shapes"
]
"""The kinds of values.

``bytes`` is a size such as ``2GiB``, ``mapping`` has plain values by name, ``shapes`` maps inputs
to shapes.
"""

_KINDS: Final = frozenset({*READERS, "enum"})
_ORDERED: Final = frozenset({"int", "float", "bytes"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_Declared = OptionKind | type[bool] | type[int] | type[float] | type[str]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a backend.

    Attributes:
        name: Lower-case identifier; no keyword of Python, because backends read it as an attribute.
        type: Kind of the value; ``bool``, ``int``, ``float`` and ``str`` may be given as classes.
        default: Value if none is given; None means the backend decides.
        help: One sentence for people.
        choices: The allowed values; required for ``enum``, allowed for others.
        minimum: Smallest allowed value (numbers and sizes).
        maximum: Largest allowed value (numbers and sizes).
        unit: Unit of a number, for people.
        scope: ``"bind"`` if it shapes the compiled engine, ``"run"`` if it may differ between runs.
        cache: Whether engines compiled with different values must not be exchanged. For a path, its
            content counts. A list or shapes may name parts of the model, so their names count as
            well if such an option is given.
        needs_trust: Whether a value names code to load, or widens trust. An untrusted configuration
            file must not give such an option (SGK126).
        expected: What a value has to be, for messages, where more is asked than the kind says.
        elsewhere: What other tools call the same, by tool; for documentation only.

    Raises:
        OptionError: If default, bounds or choices do not fit the kind (SGK111, SGK112), or the
            name or the kind is not one (SGK111).
    """

    name: str
    type: _Declared
    default: Any = None
    help: str = ""
    choices: tuple[Any, ...] = ()
    minimum: float | str | None = None
    maximum: float | str | None = None
    unit: str = ""
    scope: Literal["bind", "run"] = "bind"
    cache: bool = False
    needs_trust: bool = False
    expected: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Normalise the kind, the choices, the bounds and the default; check them."""
        kind = self.type if isinstance(self.type, str) else self.type.__name__
        is_name = _NAME.fullmatch(self.name) is not None and not iskeyword(self.name)
        self._require(is_name, "a lower-case identifier as its name")
        self._require(kind in _KINDS, f"one of the kinds {', '.join(sorted(_KINDS))}, not {kind!r}")
        self._require(kind != "enum" or bool(self.choices), "choices")
        self._require(self.scope in {"bind", "run"}, "scope 'bind' or 'run'")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "choices", tuple(self.choices))
        for bound in ("minimum", "maximum"):
            if (value := getattr(self, bound)) is not None:
                self._require(kind in _ORDERED, f"no {bound}, since {kind} has no order")
                object.__setattr__(self, bound, self._read_value(value, f"given as its {bound}"))
        if self.default is not None:
            object.__setattr__(self, "default", self.read(self.default, "its default"))

    @property
    def kind(self) -> str:
        """The kind as a word, whichever way it was declared."""
        return str(self.type)

    def env_name(self, backend: str) -> str:
        """Return the name of the environment variable that sets the option."""
        return f"SUBGRAPH_{backend}_{self.name}".upper()

    def read(self, value: object, origin: str, backend: str = "") -> Any:
        """Turn a given value into a typed and allowed one.

        Args:
            value: What was given; text is read, as it comes from the environment.
            origin: Who gave it, for the message.
            backend: Name of the backend, for the message.

        Returns:
            The typed value; immutable.

        Raises:
            OptionError: If the type is wrong (SGK111) or the value is not allowed (SGK112).
        """
        typed = self._read_value(value, f"given by {origin}", backend)
        given = f"{value!r} (given by {origin})"
        if self.choices and self.kind != "enum" and typed not in self.choices:
            expected = f"one of {', '.join(map(repr, self.choices))}"
            raise messages.option_out_of_range(backend, self.name, given, expected)
        # written as "not at least", so that nan is refused as well
        too_small = self.minimum is not None and not typed >= self.minimum
        if too_small or (self.maximum is not None and not typed <= self.maximum):
            raise messages.option_out_of_range(backend, self.name, given, self._range())
        return typed

    def _require(self, holds: bool, expected: str) -> None:  # noqa: FBT001 (reads as an assertion)
        if not holds:
            raise OptionError("SGK111", f"the declaration of option {self.name!r} needs {expected}")

    def _read_value(self, value: object, remark: str, backend: str = "") -> Any:
        if self.kind == "enum":
            return self._choice(value, remark, backend)
        try:
            return READERS[self.kind](value)
        except ValueError as error:
            given = f"{value!r} ({remark})"
            expected = self.expected or str(error)
            raise messages.bad_option_type(backend, self.name, given, expected) from None

    def _choice(self, value: object, remark: str, backend: str) -> Any:
        for choice in self.choices:
            # text from the environment names a choice of any type by how it is written
            if value == choice or (isinstance(value, str) and value.strip() == str(choice)):
                return choice
        expected = f"one of {', '.join(map(repr, self.choices))}"
        raise messages.option_out_of_range(backend, self.name, f"{value!r} ({remark})", expected)

    def _range(self) -> str:
        unit = f" {self.unit}" if self.unit else " bytes" if self.kind == "bytes" else ""
        if self.maximum is None:
            return f"at least {self.minimum}{unit}"
        if self.minimum is None:
            return f"at most {self.maximum}{unit}"
        return f"between {self.minimum} and {self.maximum}{unit}"


def validate_options(
    backend_name: str,
    schema: Sequence[Option],
    given: Mapping[str, tuple[Any, str]],
    foreign: Callable[[str, Any], str] | None = None,
) -> dict[str, Any]:
    """Check the options given for a backend and fill in the defaults.

    Args:
        backend_name: Name of the backend, for messages.
        schema: The options the backend understands.
        given: By option name, the value and its source.
        foreign: ``Backend.foreign_option``; None if there is nobody to ask.

    Returns:
        A typed value for every option of ``schema``, in its order.

    Raises:
        OptionError: If an option is unknown (SGK110), has a value of the wrong type (SGK111), or
            one that is not allowed (SGK112).
    """
    by_name = {option.name: option for option in schema}
    for key, (value, origin) in given.items():
        if key not in by_name:
            instead = foreign(key, value) if foreign is not None else ""
            raise messages.unknown_option(backend_name, key, origin, list(by_name), instead)
    return {
        name: option.read(*given[name], backend_name) if name in given else option.default
        for name, option in by_name.items()
    }


class PlainOptions(SimpleNamespace):
    """The values of options that the class of a backend declares: attributes, read-only."""

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"option {name!r} cannot be set to {value!r}: options are read-only")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"option {name!r} cannot be deleted: options are read-only")


def cache_values(schema: Iterable[Option], values: object) -> dict[str, Any]:
    """Return the values that belong into the key of a stored engine, in order of name.

    Args:
        schema: The options the backend understands.
        values: Their values, as attributes.

    Raises:
        AttributeError: A value is missing.
    """
    names = sorted(option.name for option in schema if option.cache)
    return {name: getattr(values, name) for name in names}
