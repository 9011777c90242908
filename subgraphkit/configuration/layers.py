"""Layers of settings: the values of one source, each with its place."""

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard

from subgraphkit.backend.messages import warn_user
from subgraphkit.configuration import messages
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.configuration.settings import ENV_PREFIX, SETTINGS, Setting


class Entry(NamedTuple):
    """A value and where it comes from.

    Attributes:
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
    """Read everything one source says; None means not given.

    ``locate``: Describes where a setting with this value comes from. For an unknown name, the
    setting is empty and the name is the value.
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
            values[key] = Entry(_read_setting(SETTINGS[key], value, location), location)
    layer = Layer(name, MappingProxyType(values))
    if "options" not in stated:
        return layer
    return replace(layer, options=read_options(stated["options"], lambda v: locate("options", v)))


def _read_setting(setting: Setting, value: object, location: str) -> Any:
    if setting.name == "backend":
        return parse_selection(value, location)
    try:
        return setting.read(value)
    except ValueError as error:
        raise messages.bad_setting(location, str(error)) from None


def read_options(
    given: object, locate: Callable[[object], str]
) -> Mapping[str, Mapping[str, Entry]]:
    """Refuse option values that are not by backend and option (ConfigError, SGK108)."""
    if not _is_named(given) or not all(map(_is_named, given.values())):
        expected = "a mapping from backend to options, such as {'tensorrt': {'precision': 'fp16'}}"
        raise messages.bad_setting(locate(given), expected)
    options = {}
    for backend, values in given.items():
        entries = {key: Entry(one, locate({backend: {key: one}})) for key, one in values.items()}
        options[backend] = MappingProxyType(entries)
    return MappingProxyType(options)


def _is_named(given: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(given, Mapping) and all(isinstance(key, str) for key in given)


_PROC: Final = "/proc/self/cgroup"
_GROUPS: Final = "/sys/fs/cgroup"
_INFO: Final = Path("/proc/cpuinfo")
_VARIABLE: Final = "OMP_NUM_THREADS"
_MOST_BYTES: Final = 65_536
# Instruction sets that decide which kernels a library has.
_TELLING: Final = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")


def processor_name() -> str:
    """Return the processor's model and those of its instruction sets that decide how fast it is."""
    import platform  # noqa: PLC0415 (configuring asks for no name)

    facts: dict[str, str] = {}
    try:
        lines = _INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip().lower(), value.strip())
    model = facts.get("model name") or platform.processor() or platform.machine()
    has = frozenset((facts.get("flags") or facts.get("features", "")).split())
    return " ".join([model, *(name for name in _TELLING if name in has)])


def thread_limit(environ: Mapping[str, str]) -> tuple[int | None, str]:
    """Return how many threads are worth starting here, and the source of that number.

    It is the smallest of three numbers: the CPUs this process may run on, those its control group
    grants, rounded up, and ``OMP_NUM_THREADS``. It is None if none is less than the machine's.
    """
    machine = os.cpu_count() or 1
    limits = [(machine, "the default")]
    if hasattr(os, "sched_getaffinity"):
        limits.append((len(os.sched_getaffinity(0)), "the CPU affinity of the process"))
    quota = min(_quotas(_PROC, _GROUPS), default=math.inf)
    if quota < machine:
        limits.append((max(1, math.ceil(quota)), "the CPU quota of the control group"))
    wanted = environ.get(_VARIABLE, "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        said = f"environment variable {_VARIABLE}={environ[_VARIABLE]!r}"
        limits.append((int(wanted), said))
    count, why = min(limits, key=itemgetter(0))
    return (None if count >= machine else count), why


def _quotas(own: str, root: str) -> Iterator[float]:
    """Yield the CPUs granted by the control group of this process and by those around it."""
    group = "/"
    for line in _text(own).splitlines():
        if line.startswith("0::/"):
            group = line.removeprefix("0::")
    for folder in accumulate(filter(None, group.split("/")), "{}/{}".format, initial=root):
        yield from _ratio(_text(f"{folder}/cpu.max").split())
    first = f"{root}/cpu"  # version 1
    yield from _ratio(
        [*_text(f"{first}/cpu.cfs_quota_us").split(), *_text(f"{first}/cpu.cfs_period_us").split()]
    )


def _ratio(words: list[str]) -> Iterator[float]:
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or nothing
        return
    if quota > 0 and period > 0:
        yield quota / period


def _text(path: str) -> str:
    # At every bind: a stream and its decoder cost more than the few bytes.
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, _MOST_BYTES).decode("ascii")
        finally:
            os.close(descriptor)
    except (OSError, UnicodeDecodeError):
        return ""


_DEFAULTS: Final = {
    name: Entry(
        parse_selection(setting.default, "the default") if name == "backend" else setting.default,
        "the default",
    )
    for name, setting in SETTINGS.items()
}


def default_layer() -> Layer:
    """Return the defaults of this machine."""
    values = {**_DEFAULTS, "threads": Entry(*thread_limit(os.environ))}
    return Layer("default", MappingProxyType(values))


_OPTIONS: Final = "SUBGRAPH_OPTIONS"
_APART: Final = frozenset({_OPTIONS, "SUBGRAPH_CONFIG"})
_BY_VARIABLE: Final = {setting.env: setting.name for setting in SETTINGS.values()}


def read_environment(environ: Mapping[str, str], backends: Callable[[], Collection[str]]) -> Layer:
    """Read every ``SUBGRAPH_*`` variable; a blank one counts as unset.

    Users are warned once, of all variables that mean nothing (SGK114).
    """
    stated = {
        name: value
        for name in environ
        if name.startswith(ENV_PREFIX) and (value := environ.get(name, "")).strip()
    }
    given = {_BY_VARIABLE[name]: stated[name] for name in stated if name in _BY_VARIABLE}
    layer = make_layer("environment", given, _locate)
    options = _options_from_json(stated[_OPTIONS]) if _OPTIONS in stated else {}
    others = [name for name in stated if name not in _BY_VARIABLE and name not in _APART]
    names = backends() if others else ()
    unknown = []
    for name in others:
        backend, option = _split_variable(name, names)
        if option:
            entry = Entry(stated[name], _variable_text(name, stated[name]))
            options.setdefault(backend, {})[option] = entry
        else:
            unknown.append(name)
    if unknown:
        known = [*_BY_VARIABLE, *sorted(_APART)]
        warn_user(messages.unknown_setting(sorted(unknown), "the environment", known))
    frozen = {backend: MappingProxyType(values) for backend, values in options.items()}
    return Layer("environment", layer.values, MappingProxyType(frozen))


def _variable_text(variable: str, value: object) -> str:
    return f"environment variable {variable}={value!r}"


def _locate(key: str, value: object) -> str:
    return _variable_text(SETTINGS[key].env, value) if key else "the environment"


def _options_from_json(text: str) -> dict[str, dict[str, Entry]]:
    location = _variable_text(_OPTIONS, text)
    try:
        given: Any = json.loads(text)
    except json.JSONDecodeError as error:
        expected = f"JSON ({error.msg} at position {error.pos})"
        raise messages.bad_setting(location, expected) from None
    options = read_options(given, lambda _: location)
    return {backend: dict(values) for backend, values in options.items()}


def _split_variable(variable: str, backends: Iterable[str]) -> tuple[str, str]:
    """Split into backend and option; the longest backend name wins, as names may contain ``_``."""
    rest = variable.removeprefix(ENV_PREFIX).lower()
    for backend in sorted(backends, key=len, reverse=True):
        if rest.startswith(f"{backend}_") and len(rest) > len(backend) + 1:
            return backend, rest[len(backend) + 1 :]
    return "", ""
