"""Settings as plain data, to be handed to a child process that binds the same model."""

from collections.abc import Collection, Mapping
from typing import Any

from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.settings import SETTINGS


def plain_settings(settings: ResolvedConfig, without: Collection[str]) -> dict[str, Any]:
    """Return the settings of a bind by name, those left out that nobody gave."""
    values = {name: getattr(settings, name) for name in SETTINGS if name not in without}
    return {name: plain_value(value) for name, value in values.items() if value not in (None, ())}


def plain_options(settings: ResolvedConfig) -> dict[str, dict[str, Any]]:
    """Return the option values as written, by backend and option."""
    return {
        name: {key: plain_value(value) for key, (value, *_) in entries.items()}
        for name, entries in settings.option_sources.items()
    }


def plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it and the settings can read it again."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, frozenset | list | tuple):
        return [plain_value(one) for one in value]
    return value if isinstance(value, str | int | float | None) else str(value)
