"""List backends without importing one.

Thread-safety: all functions may be called from any thread.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import replace

from subgraphkit.backend.manifest import Requirement
from subgraphkit.backend.messages import unavailable
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.finding import messages
from subgraphkit.finding.catalogue import CATALOGUE, BackendRecord


def list_backends(*, all: bool = False) -> list[BackendRecord]:  # noqa: A002 (reads best)
    """List backends by name, with what is known of each; no plugin is imported.

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
            error = messages.blocked(record.name, "the list of backends", where)
            records.append(replace(record, state="blocked", error=error))
        else:
            records.append(_with_requirements(record))
    if all:
        installed = {record.name for record in records}
        records += [_missing(name) for name in KNOWN_BACKENDS if name not in installed]
    return sorted(records, key=lambda record: record.key)


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
    """Name what is missing, each with what to do about it."""
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
    version = _version(top_level)
    if requirement.minimum and version and _numbers(version) < _numbers(requirement.minimum):
        return f"module {top_level!r} is version {version}, {requirement.minimum} is needed"
    return ""


def _version(module: str) -> str:
    # The distribution is mostly called like the module; a scan of all distributions would cost more
    # than the answer is worth here, and the probe tells the truth in the end.
    try:
        return importlib.metadata.version(module)
    except Exception:  # noqa: BLE001 (not installed, or with metadata that cannot be read)
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
