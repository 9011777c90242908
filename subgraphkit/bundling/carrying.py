"""Options that travel with a bundle: those that shaped the engines, and all others given.

Options that do not shape engines belong to the machine a bundle is opened on, where a backend has
engines: which device, how many threads, whether to run what was only built. A backend that compiles
when the bundle is opened gets the options it was given, unless somebody there says otherwise.
"""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.options import Option
from subgraphkit.bundling import messages
from subgraphkit.bundling.manifest import BackendEntry
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.handing import plain_value
from subgraphkit.errors import OptionError

_LAYER = "bundle"


def carried_options(
    backend: Backend, settings: ResolvedConfig, *, has_engines: bool
) -> dict[str, Any]:
    """Return the options to write into a bundle.

    Raises:
        OptionError: A value does not come back from JSON as it is (SGK111, SGK112).
    """
    given = settings.options_for(backend.name)
    carried = {}
    for option in backend.options:
        value = getattr(backend.option_values, option.name, option.default)
        asked = option.name in given
        # What nobody asked for came from a neighbour's word, and decides what is computed.
        if value == option.default or not (option.cache or (asked and not has_engines)):
            continue
        carried[option.name] = plain_value(value)
        option.read(carried[option.name], "the bundle", backend.name)
    return carried


def with_carried_options(
    settings: ResolvedConfig, entries: tuple[BackendEntry, ...], place: Path
) -> ResolvedConfig:
    """Return settings in which the options of a bundle hold where nobody here says anything.

    Backends given as instances have their options already.
    """
    instances = {
        choice.name
        for choice in settings.backends
        if choice.target is not None and not isinstance(choice.target, type)
    }
    sources = {name: dict(entries) for name, entries in settings.option_sources.items()}
    for entry in entries:
        if entry.name in instances:
            continue
        here = sources.setdefault(entry.name, {})
        for name, value in entry.options.items():
            here.setdefault(name, (value, _LAYER, f"the bundle {str(place)!r}"))
    origin = f"the bundle {str(place)!r}"
    return replace(
        settings,
        sources=MappingProxyType({**settings.sources, "backend": (_LAYER, origin)}),
        option_sources=MappingProxyType(
            {name: MappingProxyType(values) for name, values in sources.items() if values}
        ),
    )


def check_options(backend: Backend, entry: BackendEntry, settings: ResolvedConfig) -> None:
    """Make sure that the engines of a backend are those its options ask for.

    Files may lie elsewhere than where the engines were made. What does not shape engines is no
    bundle's to say, such as whether code inside them may run.

    Raises:
        BundleError: An option that shapes engines has another value here, or the bundle has one
            that does not shape them (SGK185).
    """
    shaping = {option.name for option in backend.options if option.cache}
    for name in entry.options.keys() - shaping:
        raise messages.contradiction(
            f"the bundle sets option {name!r} of backend {entry.name!r}, which is for whoever "
            "opens it to say",
            "No version of subgraphkit writes that; export the session again.",
        )
    for option in backend.options:
        if not option.cache or option.kind == "path":
            continue
        here = getattr(backend.option_values, option.name, option.default)
        there = _stored(option, entry)
        if here != there:
            given = settings.options_for(entry.name).get(option.name)
            by = f" (given by {given[1]})" if given else ""
            raise messages.contradiction(
                f"option {option.name!r} of backend {entry.name!r} is {here!r}{by}, and the "
                f"engines of the bundle were made with {there!r}",
                "Leave the option out to run what the bundle has, or export it again.",
            )


def _stored(option: Option, entry: BackendEntry) -> Any:
    if option.name not in entry.options:
        return option.default
    try:
        return option.read(entry.options[option.name], "the bundle", entry.name)
    except OptionError:
        return entry.options[option.name]
