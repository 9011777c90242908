"""The settings: the name, the reader and the default of each.

A setting is one line in ``SETTINGS``; its environment variable is its name in capitals behind
``SUBGRAPH_``. ``options`` is apart, because it is merged key by key.
"""

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypedDict

from subgraphkit.backend.option_values import (
    read_bool,
    read_bytes,
    read_float,
    read_int,
    read_list,
    read_path,
)
from subgraphkit.configuration.demands import (
    backend_name,
    less_isolated,
    limits,
    looser,
    more_folders,
    pins,
    read_isolated,
    shares,
)
from subgraphkit.configuration.selection import AUTO, NONE, Selection
from subgraphkit.limits import LoadLimits

ENV_PREFIX: Final = "SUBGRAPH_"

OptionValues = Mapping[str, Mapping[str, Any]]
"""Option values by backend, then by option."""


Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
"""Folders as a setting takes them: one, several, or text as ``SUBGRAPH_DATA_ROOTS`` has it."""


class OtherSettings(TypedDict, total=False):
    """The settings beside backends and their options; None leaves a setting alone."""

    strict: bool | str | None
    on_missing: str | None
    fallback: str | None
    on_fallback: str | None
    require: object
    on_unsupported: str | None
    on_compile_error: str | None
    on_run_error: str | None
    checked: bool | str | None
    nan_policy: str | None
    fold: bool | str | None
    outputs: object
    pin: object
    keep_off: object
    block: object
    plugins: object
    cache: bool | str | None
    cache_dir: Path | str | None
    cache_size: int | str | None
    threads: int | str | None
    max_memory: int | str | None
    limits: LoadLimits | Mapping[str, int | str] | str | None
    tune: str | None
    tune_seconds: float | str | None
    max_error: float | str | None
    build: str | None
    timeout_s: float | str | None
    isolate: object
    data_roots: Folders
    trusted_folders: Folders
    trust_specs: bool | str | None
    verbose: int | str | None
    raise_plugin_errors: bool | str | None


class SettingValues(OtherSettings, total=False):
    """Everything that ``config``, ``config.set`` and ``resolve`` take."""

    progress: str | None
    model_root: Path | str | None
    backend: Selection
    options: OptionValues | None


class Setting(NamedTuple):
    """One setting.

    Attributes:
        name: Its name in Python and in files.
        read: Turns the given value into the typed one. Or it raises ``ValueError``, whose text
            completes "is not ...".
        default: The value if nobody gives one.
        help: One sentence for people.
        union: Whether values of several layers add up instead of replacing each other.
        widens: Says whether a value widens trust, against the one that would hold without it. A
            file that nobody vouches for must not; see ``trust``.
    """

    name: str
    read: Callable[[object], Any]
    default: Any
    help: str
    union: bool = False
    widens: Callable[[Any, Any], bool] | None = None

    @property
    def env(self) -> str:
        """Name of the environment variable."""
        return ENV_PREFIX + self.name.upper()


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value.strip().lower() in words:
            return value.strip().lower()
        raise ValueError(f"one of {', '.join(map(repr, words))}")

    return read


def _choice(name: str, words: str, text: str) -> Setting:
    known = words.split("|")
    return Setting(name, _one_of(*known), known[0], text)


def _names(value: object) -> frozenset[str]:
    if isinstance(value, set | frozenset):
        value = sorted(value)
    return frozenset(read_list(value))


def _allowed_plugins(value: object) -> frozenset[str]:
    names = _names(value)
    return frozenset() if names == {NONE} else names


def read_folders(value: object) -> tuple[Path, ...]:
    """Read folders: one, several, or text with a colon (Windows: semicolon) or comma between."""
    if isinstance(value, str):
        value = read_list(value.replace(os.pathsep, ","))
    elif isinstance(value, os.PathLike):
        value = (value,)
    if not isinstance(value, Sequence) or not all(isinstance(p, str | os.PathLike) for p in value):
        raise ValueError("a folder, a list of folders, or folders with a colon between them")
    return tuple(read_path(os.fspath(path)) for path in value)


def _number(
    read: Callable[[object], float], fits: Callable[[float], bool], what: str
) -> Callable[[object], float]:
    def read_number(value: object) -> float:
        with suppress(ValueError):
            number = read(value)
            if fits(number):
                return number
        raise ValueError(what)

    return read_number


_seconds: Final = _number(read_float, lambda value: value > 0, "a number of seconds above 0")
_error: Final = _number(
    read_float, lambda value: 0 <= value < 1, "a relative error from 0, below 1"
)
_threads: Final = _number(read_int, lambda count: count > 0, "a number of threads, 1 or more")

_ALL: Final = (
    Setting("backend", lambda value: value, AUTO, "Which backends, in the order of claiming."),
    Setting("strict", read_bool, default=False, help="Whether each node must be claimed by name."),
    _choice("on_missing", "error|warn", "What to do if a backend that was named cannot be used."),
    Setting(
        "fallback",
        backend_name,
        AUTO,
        "Which backend runs what nobody claimed; auto is numpy where it is installed, else the "
        "first ready one that takes every node.",
    ),
    _choice("on_fallback", "warn|ok|error", "What to do if a named backend gets little to do."),
    Setting(
        "require", shares, MappingProxyType({}), "The least shares of work: BACKEND=SHARE, ..."
    ),
    Setting("pin", pins, (), "Nodes that a backend must take: NODE=BACKEND, ..."),
    Setting("keep_off", pins, (), "Nodes that a backend must not take: NODE=BACKEND, ..."),
    _choice("on_unsupported", "repartition|raise", "What to do if compiling gives nodes back."),
    _choice("on_compile_error", "raise|fallback", "What to do if a subgraph fails to compile."),
    _choice("on_run_error", "raise|fallback", "What to do if a subgraph fails while running."),
    Setting("checked", read_bool, default=True, help="Whether results of operators are checked."),
    _choice("nan_policy", "warn|ignore|propagate|error", "What to do where NaN gets lost."),
    Setting(
        "fold", read_bool, default=True, help="Whether what is known at bind is computed then."
    ),
    Setting("outputs", read_list, (), "Values that are returned in place of the model's outputs."),
    Setting("block", _names, frozenset(), "Backends and extensions never to use.", union=True),
    Setting("plugins", _allowed_plugins, None, "The only extensions to load; 'none' loads none."),
    Setting("cache", read_bool, default=True, help="Whether compiled engines are kept."),
    Setting("cache_dir", read_path, None, "Where engines are kept; else in the user's cache."),
    Setting("cache_size", read_bytes, 16 << 30, "How many bytes of engines are kept at most."),
    Setting(
        "threads",
        _threads,
        None,
        "How many threads a run computes with, on every backend; unless given, as many as CPU "
        "affinity, the quota of the control group and OMP_NUM_THREADS allow.",
    ),
    Setting(
        "max_memory", read_bytes, None, "What a session may take, such as 2GiB, or is refused."
    ),
    Setting(
        "limits",
        limits,
        LoadLimits(),
        "What a model may ask for while it is opened, and how large its values may be: "
        "NAME=NUMBER, ..., or unlimited.",
        widens=looser,
    ),
    _choice("tune", "off|first|background", "Whether a session on auto measures who is best."),
    Setting("tune_seconds", _seconds, 20.0, "About how long to measure."),
    Setting("max_error", _error, 0.0, "The relative L2 error of outputs; 0 keeps float32."),
    _choice("build", "now|background", "Whether a session is built before it answers."),
    Setting("timeout_s", _seconds, None, "How many seconds compiling a model may take."),
    Setting(
        "isolate",
        read_isolated,
        frozenset(),
        "Which backends compile and run in a child process, which may crash or be ended: none, "
        "process for all of them, or their names.",
        widens=less_isolated,
    ),
    _choice("progress", "none|auto|log", "How a session that opens shows how far it is."),
    Setting(
        "data_roots",
        read_folders,
        (),
        "Folders in or below which a model may have external data, beside its own.",
        widens=more_folders,
    ),
    Setting("model_root", read_path, None, "The folder of the models of specs."),
    Setting(
        "trusted_folders",
        read_folders,
        (),
        "Folders in or below which a configuration file may name code to load, and widen what is "
        "trusted.",
        widens=more_folders,
    ),
    Setting(
        "trust_specs",
        read_bool,
        default=False,
        help="Whether specs that came as JSON may name code to load, and widen what is trusted.",
        widens=operator.gt,
    ),
    Setting(
        "verbose",
        _number(read_int, range(4).__contains__, "0, 1, 2 or 3"),
        0,
        "How much to log to standard error: 1 warnings, 2 what happens as well, 3 everything.",
    ),
    Setting("raise_plugin_errors", read_bool, default=False, help="Whether plugins' errors pass."),
)

SETTINGS: Final[Mapping[str, Setting]] = {entry.name: entry for entry in _ALL}
"""Every setting but ``options``, by name."""
