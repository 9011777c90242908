"""Look whether what a manifest requires is on the machine, without importing any of it."""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable

from subgraphkit.backend.manifest import Requirement


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
