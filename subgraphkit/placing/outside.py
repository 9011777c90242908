"""Specs that came as JSON, from anybody: the settings of this process are ceilings for them.

A number of theirs holds if it is below ours, and backends that we isolate stay isolated. They name
no code to load and no folder or bundle to trust, unless the setting ``trust_specs`` lets them.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.demands import EVERYBODY, more_folders
from subgraphkit.configuration.messages import untrusted_spec
from subgraphkit.configuration.settings import SETTINGS
from subgraphkit.finding.catalogue import declared_options
from subgraphkit.limits import LoadLimits
from subgraphkit.placing.specs import OpenCall


def within_ceiling(call: OpenCall, here: ResolvedConfig) -> OpenCall:
    """Return the call of a spec from outside, with no more than this process allows.

    ConfigError if it names code, or something to trust (SGK126), or a value is none (SGK108).
    """
    if not here.trust_specs:
        _require_harmless(call, here)
    settings: dict[str, Any] = dict(call.settings)
    for name, tighter in _TIGHTER.items():
        if settings.get(name) is not None and here.sources[name][0] != "default":
            theirs = SETTINGS[name].read(settings[name])
            settings[name] = tighter(theirs, getattr(here, name))
    return call._replace(settings=settings)  # type: ignore[arg-type]  # the same names


def _require_harmless(call: OpenCall, here: ResolvedConfig) -> None:
    if call.trust:
        raise untrusted_spec("trust=true")
    for name in ("data_roots", "trusted_folders"):
        given = call.settings.get(name)
        if given and more_folders(SETTINGS[name].read(given), getattr(here, name)):
            raise untrusted_spec(f"{name}={given!r}")
    theirs = resolve(backend=call.backend, options=call.options)
    for backend, options in theirs.option_sources.items():
        for option in declared_options(backend):
            given = options.get(option.name)
            if option.needs_trust and given and given[1] == "call":
                raise untrusted_spec(f"option {backend}.{option.name}={given[0]!r}")


def _lower_limits(one: LoadLimits, other: LoadLimits) -> LoadLimits:
    """Return the lower of each; 0 is no limit, and None is that of the machine."""

    def lower(name: str) -> int | None:
        pair = [getattr(both, name) for both in (one, other)]
        known = [number for number in pair if number]
        return min(known) if known else None if None in pair else 0

    lowest: dict[str, Any] = {field.name: lower(field.name) for field in fields(LoadLimits)}
    return LoadLimits(**lowest)


# Settings of which the tighter of two values holds, and which that is.
_TIGHTER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("max_memory", "threads", "timeout_s"), min),
    "isolate": lambda one, it: frozenset({EVERYBODY}) if EVERYBODY in one | it else one | it,
    "limits": _lower_limits,
}
