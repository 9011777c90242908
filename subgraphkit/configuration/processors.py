"""The processors this process may use: CPU affinity, quota of the control group, OpenMP's variable.

All of it is looked at when a bind is configured, so a change of the environment holds from the next
bind on.
"""

import math
import os
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

_PROC: Final = "/proc/self/cgroup"
_GROUPS: Final = "/sys/fs/cgroup"
_INFO: Final = Path("/proc/cpuinfo")
_VARIABLE: Final = "OMP_NUM_THREADS"
_MOST_BYTES: Final = 65_536
_TELLING: Final = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")
"""Instruction sets that decide which kernels a library has."""


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
    """Return how many threads are worth starting here, and what says so.

    Returns:
        The smallest of the CPUs this process may run on, the CPUs its control group grants, rounded
        up, and ``OMP_NUM_THREADS``; None if none of them is less than the machine has.
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
    count, why = min(limits, key=lambda limit: limit[0])
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
    # At every bind: a stream and its decoder cost more than what is read.
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, _MOST_BYTES).decode("ascii")
        finally:
            os.close(descriptor)
    except (OSError, UnicodeDecodeError):
        return ""
