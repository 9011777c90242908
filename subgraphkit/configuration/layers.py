"""Layers of settings: what one source says, each value with where it comes from."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from subgraphkit.configuration import messages
from subgraphkit.configuration.processors import thread_limit
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.configuration.settings import SETTINGS, Setting
from subgraphkit.errors import ConfigError


class Entry(NamedTuple):
    """A value and where it comes from.

    Attributes:
        value: The typed value.
        location: Who gave it, with the value as written: ``environment variable
            SUBGRAPH_STRICT='yes'``.
    """

    value: Any
    location: str


@dataclass(frozen=True, slots=True)
class Layer:
    """All that one source says.

    Attributes:
        name: ``"call"``, ``"context"``, ``"process"``, ``"environment"``, ``"file"``,
            ``"user file"`` or ``"default"``.
        values: Settings by name.
        options: Option values as written, by backend and option.
        found_in: The folder of a file that was found by looking for one, and named by nobody.
    """

    name: str
    values: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    options: Mapping[str, Mapping[str, Entry]] = field(default_factory=lambda: MappingProxyType({}))
    found_in: Path | None = None


def make_layer(
    name: str, given: Mapping[str, object], locate: Callable[[str, object], str]
) -> Layer:
    """Read everything one source says.

    Args:
        name: Name of the layer.
        given: Values as written, by setting; None means not given.
        locate: Describes where a setting of that value comes from; with no setting, where all of
            them come from, and the value is the name of one that does not exist.

    Raises:
        ConfigError: If a setting is unknown (SGK114), a value is of the wrong kind (SGK108), or a
            selection cannot be read (SGK107).
    """
    stated = {key: value for key, value in given.items() if value is not None}
    unknown = [key for key in stated if key not in SETTINGS and key != "options"]
    if unknown:
        where = locate("", unknown[0])
        raise messages.unknown_setting(unknown, where, [*SETTINGS, "options"])
    values = {}
    for key, value in stated.items():
        if key != "options":
            location = locate(key, value)
            values[key] = Entry(_read(SETTINGS[key], value, location), location)
    options = read_options(stated.get("options", {}), lambda v: locate("options", v))
    return Layer(name, MappingProxyType(values), options)


def _read(setting: Setting, value: object, location: str) -> Any:
    if setting.name == "backend":
        return parse_selection(value, location)
    try:
        return setting.read(value)
    except ValueError as error:
        raise messages.bad_setting(location, str(error)) from None


def read_options(
    given: object, locate: Callable[[object], str]
) -> Mapping[str, Mapping[str, Entry]]:
    """Check that option values come by backend and option; the values are read at bind.

    Raises:
        ConfigError: If they do not (SGK108).
    """
    if not isinstance(given, Mapping):
        raise _bad_options(locate(given))
    options = {}
    for backend, values in given.items():
        if not isinstance(backend, str) or not isinstance(values, Mapping):
            raise _bad_options(locate(given))
        if not all(isinstance(key, str) for key in values):
            raise _bad_options(locate(given))
        entries = {key: Entry(one, locate({backend: {key: one}})) for key, one in values.items()}
        options[backend] = MappingProxyType(entries)
    return MappingProxyType(options)


def _bad_options(location: str) -> ConfigError:
    return messages.bad_setting(
        location, "a mapping from backend to options, such as {'tensorrt': {'precision': 'fp16'}}"
    )


_DEFAULTS: Final = {
    name: Entry(
        parse_selection(setting.default, "the default") if name == "backend" else setting.default,
        "the default",
    )
    for name, setting in SETTINGS.items()
}


def default_layer() -> Layer:
    """Return what holds here where nobody says anything."""
    values = {**_DEFAULTS, "threads": Entry(*thread_limit(os.environ))}
    return Layer("default", MappingProxyType(values))
