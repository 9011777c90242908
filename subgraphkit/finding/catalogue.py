"""Find installed backends from metadata alone, and remember the state of each.

Nothing here imports a plugin, NumPy or onnx: ``subgraphkit list`` and version checks stay quick,
and a plugin that crashes when imported can be listed. Entry points are read once per process. If
two distributions provide one name, both are kept; the standard library would silently return one.

Thread-safety: all functions may be called from any thread.
"""

import importlib.metadata
import importlib.util
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from operator import attrgetter
from typing import Final, Literal

from subgraphkit.backend.manifest import Manifest, Requirement, find_manifest, read_manifest
from subgraphkit.backend.messages import unavailable
from subgraphkit.backend.options import Option
from subgraphkit.backend.plugin_api import is_compatible, name_problem
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.names import BACKEND_NAMES, KNOWN_BACKENDS, plain_name, ships_with_us
from subgraphkit.errors import BackendError, SubgraphkitError
from subgraphkit.finding import messages
from subgraphkit.texts import cut_word, printable

State = Literal[
    "registered",
    "loaded",
    "ready",
    "build_only",
    "unavailable",
    "broken",
    "incompatible",
    "conflict",
    "blocked",
    "missing",
]
"""The state of a backend, from "found" to "ready", and the ways in which it can fail."""

IN_PROCESS: Final = "(this process)"
"""Stands for the distribution of a backend that was registered by a call."""


@dataclass(frozen=True, slots=True)
class BackendRecord:
    """All that is known about one backend of one distribution.

    Attributes:
        name: Name of the backend.
        distribution: The distribution that provides it.
        version: Version of the distribution; empty for a backend registered by a call.
        entry_point: Where the plugin says its backend is, ``"module:attribute"``.
        manifest: What the plugin declares, or None if it declares nothing.
        state: What is known so far.
        error: Why it cannot be used, in the states that say so.
    """

    name: str
    distribution: str = ""
    version: str = ""
    entry_point: str = ""
    manifest: Manifest | None = None
    state: State = "registered"
    error: SubgraphkitError | None = None

    @property
    def provider(self) -> str:
        """The distribution and its version, for messages."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def ships_with_us(self) -> bool:
        """Whether this project publishes it; such a one wins where others bear its name."""
        return ships_with_us(self.name, self.distribution)


key_of: Final = attrgetter("name", "distribution")


class Catalogue:
    """Every backend this process knows of, with the state of those it tried.

    Thread-safety: all methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._installed: dict[str, list[BackendRecord]] = {}
        self._registered: dict[str, BackendRecord] = {}
        self._outcomes: dict[tuple[str, str], tuple[State, SubgraphkitError | None]] = {}

    def records(self) -> list[BackendRecord]:
        """Return a record for every backend, ordered by name, with its state so far."""
        with self._lock:
            names = {one.name for one in BACKEND_NAMES.entry_points()} | self._registered.keys()
            found = [record for name in names for record in self._of_name(name)]
        return sorted(found, key=key_of)

    def find(self, name: str, distribution: str = "") -> list[BackendRecord]:
        """Return the records of a name, of one distribution if that is given."""
        wanted = plain_name(distribution)
        with self._lock:
            found = self._of_name(name)
        found = [one for one in found if not wanted or plain_name(one.distribution) == wanted]
        return sorted(found, key=key_of)

    def _of_name(self, name: str) -> list[BackendRecord]:
        """List the backends of a name, without reading those of other names."""
        if name in self._registered:
            records = [self._registered[name]]
        else:
            records = self._installed.get(name) or _discover(name)
            self._installed[name] = records
        known = self._outcomes
        return [
            replace(one, state=known[key][0], error=known[key][1]) if key in known else one
            for one, key in zip(records, map(key_of, records), strict=True)
        ]

    def add(self, record: BackendRecord) -> None:
        """Add a backend registered by a call, in the place of another of its name."""
        with self._lock:
            self._outcomes.pop(key_of(record), None)
            self._registered[record.name] = record
            BACKEND_NAMES.add(record.name)

    def remove(self, name: str) -> BackendRecord | None:
        """Remove a backend registered by a call; return it, or None if there is none."""
        with self._lock:
            self._outcomes.pop((name, IN_PROCESS), None)
            BACKEND_NAMES.discard(name)
            return self._registered.pop(name, None)

    def remember(
        self, record: BackendRecord, state: State, error: SubgraphkitError | None = None
    ) -> None:
        """Keep the state of a backend until ``forget``."""
        with self._lock:
            self._outcomes[key_of(record)] = (state, error)

    def forget(self) -> None:
        """Read metadata anew when next asked, and give failed backends another chance."""
        BACKEND_NAMES.forget()
        with self._lock:
            self._installed = {}
            self._outcomes.clear()


CATALOGUE: Final = Catalogue()


def _discover(name: str) -> list[BackendRecord]:
    records = [_record(one) for one in BACKEND_NAMES.entry_points() if one.name == name]
    return [_settle(record, records) for record in records]


def _settle(record: BackendRecord, rivals: list[BackendRecord]) -> BackendRecord:
    """Mark a record as one of several; its own failure comes before that."""
    ours = next((one for one in rivals if one.ships_with_us), None)
    if len(rivals) == 1 or record.state != "registered" or record is ours:
        return record
    if ours is not None:
        error = messages.shadowed_backend(record.name, record.provider, ours.provider)
    else:
        error = messages.conflict(record.name, [(r.provider, r.entry_point) for r in rivals])
    return replace(record, state="conflict", error=error)


def _record(entry_point: EntryPoint) -> BackendRecord:
    # once, for each question to a distribution reads the whole file
    said = entry_point.dist.metadata if entry_point.dist is not None else None
    record = BackendRecord(
        entry_point.name,
        said["Name"] if said is not None else "(unknown distribution)",
        said["Version"] if said is not None else "",
        entry_point.value,
    )
    if problem := name_problem(record.name):
        problem = f"{problem}; entry point of {record.provider}"
        bad_name = messages.bad_registration(cut_word(printable(record.name), 64), problem)
        return replace(record, state="broken", error=bad_name)
    path = find_manifest(record.entry_point.partition(":")[0].strip())
    if path is None:
        return record
    try:
        manifest = read_manifest(path, record.name)
    except BackendError as error:
        return replace(record, state="broken", error=error)
    record = replace(record, manifest=manifest)
    if is_compatible(manifest.api):
        return record
    too_new = messages.incompatible(record.name, record.provider, manifest.api, imported=False)
    return replace(record, state="incompatible", error=too_new)


def list_backends(*, all: bool = False) -> list[BackendRecord]:  # noqa: A002 (reads best)
    """List backends by name, with the facts on each; no plugin is imported.

    A state beyond ``registered`` comes from metadata (``conflict``, ``incompatible``, ``broken``
    manifest) or from the configuration (``blocked``). It may also come from a requirement that is
    not installed (``unavailable``), or from an attempt to use the backend in this process.

    Args:
        all: Whether to list backends that are published but not installed, as ``missing``.

    Returns:
        One record for each backend and distribution.

    Raises:
        ConfigError: If the configuration cannot be read.
    """
    resolved = resolve()
    records = []
    for record in CATALOGUE.records():
        if record.name in resolved.block:
            where = resolved.sources["block"][1]
            error = messages.blocked_backend(record.name, "the list of backends", where)
            records.append(replace(record, state="blocked", error=error))
        else:
            records.append(_with_requirements(record))
    if all:
        installed = {record.name for record in records}
        records += [_missing(name) for name in KNOWN_BACKENDS if name not in installed]
    return sorted(records, key=key_of)


def declared_options(name: str) -> list[Option]:
    """Return the options that the manifests of a backend declare."""
    found = [one.manifest for one in CATALOGUE.find(name) if one.manifest is not None]
    return [option for manifest in found for option in manifest.options]


def usable_names() -> list[str]:
    """Return the names of installed backends that have not failed so far."""
    working = ("registered", "loaded", "ready", "build_only")
    return sorted({record.name for record in CATALOGUE.records() if record.state in working})


def _with_requirements(record: BackendRecord) -> BackendRecord:
    if record.state != "registered" or record.manifest is None:
        return record
    problems = missing_requirements(record.manifest.requires, libraries=False)
    if not problems:
        return record
    return replace(record, state="unavailable", error=unavailable(record.name, problems))


def _missing(name: str) -> BackendRecord:
    install = KNOWN_BACKENDS[name]
    error = messages.missing(name, "the list of backends", install, usable_names())
    return BackendRecord(name, state="missing", error=error)


def missing_requirements(requires: Iterable[Requirement], *, libraries: bool) -> list[str]:
    """Name missing things, each with its remedy."""
    problems = []
    for requirement in requires:
        problem = _module_problem(requirement) if requirement.module else ""
        if libraries and requirement.library and not _library_loads(requirement.library):
            problem = f"shared library {requirement.library!r} cannot be loaded"
        if problem:
            remedy = f"pip install {requirement.pip!r}" if requirement.pip else requirement.hint
            problems.append(f"{problem}: {remedy}" if remedy else problem)
    return problems


def _module_problem(requirement: Requirement) -> str:
    top_level = requirement.module.partition(".")[0]
    try:
        found = importlib.util.find_spec(top_level) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        return f"module {top_level!r} is not installed"
    # Most distributions have the name of their module. A scan of all would cost more than it is
    # worth: the probe finds the truth.
    version = version_of(top_level)
    if requirement.minimum and version and _numbers(version) < _numbers(requirement.minimum):
        return f"module {top_level!r} is version {version}, {requirement.minimum} is needed"
    return ""


def version_of(distribution: str) -> str:
    """Return the version of a distribution; empty if it is not installed, or cannot be read."""
    try:
        return importlib.metadata.version(distribution)
    except Exception:  # noqa: BLE001 (any fault of its metadata)
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+", 1)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _library_loads(name: str) -> bool:
    import ctypes  # noqa: PLC0415 (only doctor's child needs it; listing stays quick)

    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
