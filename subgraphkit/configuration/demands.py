"""Readers of demands on the placement, and of limits to demands of models."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from subgraphkit.backend.option_values import read_bytes, read_float, read_list
from subgraphkit.backend.plugin_api import BACKEND_NAME
from subgraphkit.configuration.selection import NONE
from subgraphkit.errors import ConfigError
from subgraphkit.limits import LoadLimits

EVERYBODY: Final = "process"
"""The word of the setting ``isolate`` that stands for all backends."""

_CHOSEN_NAME = re.compile(
    rf"{BACKEND_NAME.pattern}(?:#\d+)?"
)  # with its number, where it is chosen again


class Pin(NamedTuple):
    """Nodes and a backend, for a pin or its opposite.

    Attributes:
        node: The name of a node or an operator, or a place in the list of nodes.
    """

    node: str | int
    backend: str

    def __str__(self) -> str:
        return f"{'#' * isinstance(self.node, int)}{self.node}={self.backend}"


def pins(value: object) -> tuple[Pin, ...]:
    """Read ``Conv=numpy, #12=openvino``, or a mapping from nodes to backends; else ValueError."""
    pairs = [(node, name) for node, given in _pairs(value) for name in _several(given)]
    return tuple(_pin(node, backend) for node, backend in pairs)


def _pairs(value: object) -> Iterable[tuple[object, object]]:
    """Read ``name=value, ...``, or a mapping; ValueError for other things."""
    if isinstance(value, Mapping):
        return value.items()
    return [item.rpartition("=")[::2] for item in read_list(value)]


def _several(given: object) -> Iterable[object]:
    return given if isinstance(given, list | tuple) else (given,)


def _pin(node: object, backend: object) -> Pin:
    if isinstance(node, str):
        node = node.strip()
        number = node.removeprefix("#")
        node = int(number) if number != node and number.isdecimal() else node
    is_node = isinstance(node, str | int) and not isinstance(node, bool) and node != ""
    if is_node and isinstance(backend, str) and _CHOSEN_NAME.fullmatch(backend.strip()):
        return Pin(cast("str | int", node), backend.strip())
    raise ValueError("nodes with backends, such as 'Conv=numpy, #12=openvino'")


def shares(value: object) -> Mapping[str, float]:
    """Read ``tvm=0.9, onednn=0.5``, or a mapping to shares from 0 to 1; else ValueError."""
    pairs = _pairs(value)
    try:
        found = {backend_name(backend): read_float(share) for backend, share in pairs}
    except ValueError:
        found = {"": -1.0}
    if all(0 <= share <= 1 for share in found.values()):
        return MappingProxyType(found)
    raise ValueError("backends with shares from 0 to 1, such as 'tvm=0.9'")


def backend_name(value: object) -> str:
    """Read the name of one backend; ValueError for anything else."""
    if isinstance(value, str) and BACKEND_NAME.fullmatch(value.strip()) is not None:
        return value.strip()
    raise ValueError("the name of one backend, 'auto' or 'none'")


def limits(value: object) -> LoadLimits:
    """Read ``unlimited``, ``default``, ``max_nodes=1000, max_value_bytes=2GiB``, or a mapping.

    Others have their defaults; ValueError for anything else.
    """
    if isinstance(value, LoadLimits):
        return value
    if isinstance(value, str) and value.strip() in {"unlimited", "default"}:
        return LoadLimits.unlimited() if value.strip() == "unlimited" else LoadLimits()
    names = [field.name for field in fields(LoadLimits)]
    try:
        given = {str(name).strip(): read_bytes(one) for name, one in _pairs(value)}
        if given.keys() <= set(names) and (given or not value) and isinstance(value, Mapping | str):
            return LoadLimits(**given)
    except (ConfigError, ValueError):
        pass
    known = ", ".join(names)
    raise ValueError(f"'unlimited', or limits with numbers such as 'max_nodes=1000': {known}")


def more_folders(value: Iterable[Path], below: Iterable[Path]) -> bool:
    """Say whether there is a folder that was not there before."""
    return not set(value) <= set(below)


def looser(value: LoadLimits, below: LoadLimits) -> bool:
    """Say whether some limit is higher than another set of limits has it."""

    def bounds(one: LoadLimits) -> list[float]:
        held = [getattr(one, field.name) for field in fields(LoadLimits)]
        known = [*held, one.value_bytes, one.compile_bytes]  # where these are None
        return [0 if n is None else n or math.inf for n in known]

    return any(mine > other for mine, other in zip(bounds(value), bounds(below), strict=True))


def less_isolated(value: frozenset[str], below: frozenset[str]) -> bool:
    """Say whether some backend is isolated no longer."""
    return EVERYBODY not in value and not below <= value


def read_isolated(value: object) -> frozenset[str]:
    """Read ``none``, ``process`` for all backends, or the names of some; else ValueError."""
    if isinstance(value, set | frozenset):
        value = sorted(value)
    names = read_list(value)
    if names in ((), (NONE,)):
        return frozenset()
    if NONE in names or (EVERYBODY in names and len(names) > 1):
        raise ValueError(f"{NONE!r}, {EVERYBODY!r}, or names of backends with commas between them")
    return frozenset(map(backend_name, names))
