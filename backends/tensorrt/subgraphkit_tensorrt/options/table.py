"""The one table of options, from which checks, cache keys, translations and the page follow."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit.backend import Option
from subgraphkit_tensorrt.options.building import BUILDING
from subgraphkit_tensorrt.options.choosing import CHOOSING
from subgraphkit_tensorrt.options.entry import Entry
from subgraphkit_tensorrt.options.running import RUNNING
from subgraphkit_tensorrt.options.shaping import SHAPING

__all__ = ["OPTIONS", "TABLE", "defaults"]

TABLE: Final[Mapping[str, Entry]] = MappingProxyType(
    {entry.name: entry for entry in (*CHOOSING, *SHAPING, *BUILDING, *RUNNING)}
)
"""By name, every option of the backend."""

OPTIONS: Final[tuple[Option, ...]] = tuple(entry.option for entry in TABLE.values())
"""What the core is told of them."""


def defaults() -> dict[str, object]:
    """Return the default of every option."""
    return {option.name: option.default for option in OPTIONS}
