"""Read the settings out of the environment, at every bind and never at import.

Source: NetworkX, whose ``bool("0")`` made a setting mean its opposite, for reading booleans by
words; networkx#8323 for reading at use.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend.notices import warn_user
from subgraphkit.configuration import messages
from subgraphkit.configuration.layers import Entry, Layer, make_layer, read_options
from subgraphkit.configuration.settings import ENV_PREFIX, SETTINGS

_OPTIONS: Final = "SUBGRAPH_OPTIONS"
_APART: Final = frozenset({_OPTIONS, "SUBGRAPH_CONFIG"})
_BY_VARIABLE: Final = {setting.env: setting.name for setting in SETTINGS.values()}


def read_environment(environ: Mapping[str, str], backends: Callable[[], Collection[str]]) -> Layer:
    """Read every ``SUBGRAPH_*`` variable; a blank one counts as unset.

    Raises:
        ConfigError: If a value is of the wrong kind (SGK107, SGK108).

    Warns:
        SubgraphkitWarning: Once, naming all variables that mean nothing (SGK114).
    """
    stated = {
        name: value
        for name in environ
        if name.startswith(ENV_PREFIX) and (value := environ.get(name, "")).strip()
    }
    given = {_BY_VARIABLE[name]: stated[name] for name in stated if name in _BY_VARIABLE}
    layer = make_layer("environment", given, _locate)
    options = _options_from_json(stated.get(_OPTIONS, "{}"))
    others = [name for name in stated if name not in _BY_VARIABLE and name not in _APART]
    names = backends() if others else ()
    unknown = []
    for name in others:
        backend, option = _split(name, names)
        if option:
            entry = Entry(stated[name], _described(name, stated[name]))
            options.setdefault(backend, {})[option] = entry
        else:
            unknown.append(name)
    if unknown:
        known = [*_BY_VARIABLE, *sorted(_APART)]
        warn_user(messages.unknown_setting(sorted(unknown), "the environment", known))
    frozen = {backend: MappingProxyType(values) for backend, values in options.items()}
    return Layer("environment", layer.values, MappingProxyType(frozen))


def _described(variable: str, value: object) -> str:
    return f"environment variable {variable}={value!r}"


def _locate(key: str, value: object) -> str:
    return _described(SETTINGS[key].env, value) if key else "the environment"


def _options_from_json(text: str) -> dict[str, dict[str, Entry]]:
    location = _described(_OPTIONS, text)
    try:
        given: Any = json.loads(text)
    except json.JSONDecodeError as error:
        expected = f"JSON ({error.msg} at position {error.pos})"
        raise messages.bad_setting(location, expected) from None
    options = read_options(given, lambda _: location)
    return {backend: dict(values) for backend, values in options.items()}


def _split(variable: str, backends: Iterable[str]) -> tuple[str, str]:
    """Split into backend and option; the longest backend name wins, as names may contain ``_``."""
    rest = variable.removeprefix(ENV_PREFIX).lower()
    for backend in sorted(backends, key=len, reverse=True):
        if rest.startswith(f"{backend}_") and len(rest) > len(backend) + 1:
            return backend, rest[len(backend) + 1 :]
    return "", ""
