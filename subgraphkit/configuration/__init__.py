"""The settings of a bind: selections, layers, files, environment, and the origin of each value."""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Folders": "subgraphkit.configuration.settings",
    "ResolvedConfig": "subgraphkit.configuration.config",
    "resolve": "subgraphkit.configuration.config",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
