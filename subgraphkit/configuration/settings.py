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
    isolated,
    less_isolated,
    limits,
    looser,
    more_folders,
    pins,
    shares,
)
from subgraphkit.configuration.selection import AUTO, NONE, Selection
from subgraphkit.limits import LoadLimits

ENV_PREFIX: Final = "SUBGRAPH_"
"""All environment variables of the project begin with it."""

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
        read: Turns what was given into the typed value, or raises ``ValueError`` whose text
            completes "is not ...".
        default: The value if nobody gives one.
        help: One sentence for people.
        union: Whether values of several layers add up instead of replacing each other.
        widens: Says of a value, and of the one that would hold without it, whether it widens what
            is trusted. A file that nobody vouches for must not; see ``trust``.
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


def _flag(name: str, text: str, *, default: bool) -> Setting:
    return Setting(name, read_bool, default, text)


def _names(value: object) -> frozenset[str]:
    if isinstance(value, set | frozenset):
        value = sorted(value)
    return frozenset(read_list(value))


def _allowed_plugins(value: object) -> frozenset[str]:
    names = _names(value)
    return frozenset() if names == {NONE} else names


def read_folders(value: object) -> tuple[Path, ...]:
    """Read folders: one, several, or text with a colon (on Windows a semicolon) or comma between.

    Raises:
        ValueError: They are something else.
    """
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
    def checked(value: object) -> float:
        with suppress(ValueError):
            number = read(value)
            if fits(number):
                return number
        raise ValueError(what)

    return checked


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
    _choice(
        "on_fallback",
        "warn|ok|error",
        "What to do if a backend that was named gets little to do, or was left out, or work goes "
        "to a fallback that nobody named.",
    ),
    Setting(
        "require",
        shares,
        MappingProxyType({}),
        "The least share of a model's work that backends must take: BACKEND=SHARE, ...",
    ),
    Setting("pin", pins, (), "Nodes that a backend must take: NODE=BACKEND, ..."),
    Setting("keep_off", pins, (), "Nodes that a backend must not take: NODE=BACKEND, ..."),
    _choice(
        "on_unsupported",
        "repartition|raise",
        "What to do if a backend gives nodes back while compiling.",
    ),
    _choice(
        "on_compile_error", "raise|fallback", "What to do if a backend fails to compile a subgraph."
    ),
    _choice("on_run_error", "raise|fallback", "What to do if a subgraph fails while running."),
    _flag("checked", "Whether dtype and shape of what operators return are checked.", default=True),
    _choice("nan_policy", "warn|ignore|propagate|error", "What to do where NaN gets lost."),
    _flag(
        "fold",
        "Whether nodes that are known at bind are computed then, and copies leave.",
        default=True,
    ),
    Setting(
        "outputs",
        lambda value: tuple(read_list(value)),
        (),
        "Values that are returned in place of the model's outputs: any of those that nodes make.",
    ),
    Setting("block", _names, frozenset(), "Backends and extensions never to use.", union=True),
    Setting("plugins", _allowed_plugins, None, "The only extensions to load; 'none' loads none."),
    Setting("cache", read_bool, default=True, help="Whether compiled engines are kept."),
    Setting(
        "cache_dir",
        read_path,
        None,
        "Where compiled engines are kept; if nobody says, in the user's cache directory.",
    ),
    Setting("cache_size", read_bytes, 16 << 30, "How many bytes of engines are kept at most."),
    Setting(
        "threads",
        _number(read_int, lambda count: count > 0, "a number of threads, 1 or more"),
        None,
        "How many threads a run computes with, on every backend; unless given, as many as CPU "
        "affinity, the quota of the control group and OMP_NUM_THREADS allow.",
    ),
    Setting(
        "max_memory",
        read_bytes,
        None,
        "How much memory a session may take, such as 2GiB: one that needs more is refused before "
        "anything is compiled.",
    ),
    Setting(
        "limits",
        limits,
        LoadLimits(),
        "What a model may ask for while it is opened, and how large its values may be: "
        "NAME=NUMBER, ..., or unlimited.",
        widens=looser,
    ),
    _choice(
        "tune",
        "off|first|background",
        "Whether a session on auto measures who runs a model best: before it opens, or beside it.",
    ),
    Setting(
        "tune_seconds",
        _number(read_float, lambda seconds: seconds > 0, "a number of seconds above 0"),
        20.0,
        "About how long to measure.",
    ),
    Setting(
        "max_error",
        _number(read_float, lambda error: 0 <= error < 1, "a relative error from 0, below 1"),
        0.0,
        "The relative L2 error that outputs may have where shorter floats are quicker; 0 keeps "
        "float32.",
    ),
    _choice(
        "build",
        "now|background",
        "Whether a session is built before it answers, or answers on what opens quickly meanwhile.",
    ),
    Setting(
        "timeout_s",
        _number(read_float, lambda seconds: seconds > 0, "a number of seconds above 0"),
        None,
        "How many seconds compiling a model may take; as long as it takes, if nobody says. A run "
        "has an argument of that name.",
    ),
    Setting(
        "isolate",
        isolated,
        frozenset(),
        "Which backends compile and run in a child process, which may crash or be ended: none, "
        "process for all of them, or their names.",
        widens=less_isolated,
    ),
    _choice(
        "progress",
        "none|auto|log",
        "How a session that opens shows how far it is: auto is a bar on a terminal and a line "
        "every 10 seconds elsewhere.",
    ),
    Setting(
        "data_roots",
        read_folders,
        (),
        "Folders in or below which a model may have external data, beside its own.",
        widens=more_folders,
    ),
    Setting(
        "model_root",
        read_path,
        None,
        "The folder in which the models of specs are looked for.",
    ),
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
    _flag(
        "raise_plugin_errors",
        "Whether errors of plugins are raised at once, as they are.",
        default=False,
    ),
)

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({entry.name: entry for entry in _ALL})
"""Every setting but ``options``, by name."""
