"""``check_backend``: the conformance kit for people without pytest."""

import os
import random
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import chain, zip_longest
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import ConfigError
from subgraphkit.finding.catalogue import IN_PROCESS
from subgraphkit.finding.registry import find_record
from subgraphkit.testing.cases import LEVELS, Finding, Stopped, batches
from subgraphkit.testing.children import Pool, Task

LAST_LEVEL: Final = len(LEVELS) - 1
DEFAULT_SECONDS: Final = 60.0
_SHARES: Final = {3: 4, 4: 1, 5: 5}
"""The drawn levels, whose cases come in an order that is drawn, with their parts of the time."""
_FIRST: Final = ("operators", "versions")
"""The groups of level 5 that come before all others, in order: results of operators."""
_LARGE_FACTOR: Final = 2.0
"""A case with more is large: a real network."""
_BEGIN_LARGE: Final = 0.75
"""The part of the time after which no large case is begun: one takes long."""

REQUIRED: Final = frozenset({"L0/import", "L0/probe"})
"""Cases without which no other level has any sense."""
_LOOPBACK: Final = {"loopback": "subgraphkit.testing.foreign:LoopbackBackend"}
_MOST_CHILDREN: Final = 2
_ORIGIN: Final = "the backend to be tested"


def check_backend(  # noqa: PLR0913 (subject and time of the trial)
    backend: Any,
    level: int = LAST_LEVEL,
    *,
    options: Mapping[str, Any] | None = None,
    only: str | Collection[str] = "*",
    models: str = "",
    timeout_seconds: float = DEFAULT_SECONDS,
    seed: int = 0,
    within: float = inf,
) -> Iterator[Finding]:
    """Check a backend against the contract.

    Cases run in child processes, many in each. If one crashes, hangs or takes half the machine's
    memory, that is a finding, and the rest goes on. If the backend cannot be loaded or cannot run
    here, the findings end with the checks that say so.

    Args:
        backend: Name of an installed backend, with options as in a selection
            (``"numpy:max_loop_iterations=9"``). Or ``"module:Class"``, a backend that is not
            installed, or a ``Backend`` class that a new process can import by its name.
            ``"loopback"`` is a backend that claims everything and runs it on the fallback.
        level: The last level to be tried, from 0.
        options: Values of the backend's options, by name.
        only: A pattern that cases must match, ``*`` standing for any text; or the cases themselves.
        models: A directory of models to be tried at level 4 besides those of ONNX. A file
            ``NAME.onnx`` is compared with the NumPy backend. ``NAME/model.onnx`` has its inputs and
            expected outputs in ``NAME/test_data_set_0``, as ONNX stores them.
        timeout_seconds: How long one case may take; some are given several times as much.
        seed: Draws the random cases, and the order of levels 3 to 5. Each group of cases, such as
            an operator's, has its turn before one has its second. The same seed draws the same.
        within: Seconds after which no case of levels 3 to 5 begins. Each of them has a part of the
            time, level 5 begins with single operators, and large models come last. The rest is
            ``UNTRIED``. The other levels are always tried.

    Yields:
        One finding per case, level by level but for large models, in the order in which they come.

    Raises:
        ConfigError: There is no such level, no model in the directory, or a class no new process
            could import (SGK310). Or the selection cannot be read (SGK107).
        BackendNotFoundError: No backend of that name is installed (SGK101, SGK102).

    Thread-safety: several generators may be used at once, each by one thread.
    """
    if not 0 <= level <= LAST_LEVEL:
        raise _untestable(
            f"the conformance kit has no level {level}", hint=f"Levels: 0 to {LAST_LEVEL}."
        )
    if models and not any(Path(models).rglob("*.onnx")):
        raise _untestable(
            f"the directory {models!r} holds no models",
            hint="Models are files NAME.onnx, or NAME/model.onnx with NAME/test_data_set_0 beside.",
        )
    described = subject_of(backend, options or {})
    subject = {**described, "models": models, "seed": seed, "complete": within == inf}
    levels = [number for number in range(level + 1) if _may_match(number, only)]
    return _Run(subject, levels, only, timeout_seconds, within).findings()


@dataclass(frozen=True)
class _Run:
    """The cases of some levels, carried out in order."""

    subject: Mapping[str, Any]
    levels: Sequence[int]
    only: str | Collection[str]
    timeout_seconds: float
    within: float

    def findings(self) -> Iterator[Finding]:
        begun = time.monotonic()
        end = begun + self.within
        pool = Pool(self.subject, min(_MOST_CHILDREN, os.cpu_count() or 1))
        large: list[list[Task]] = []
        try:
            for number in self.levels:
                shut = False
                for finding in self._of_level(pool, number, end, large):
                    shut |= finding.is_wrong and finding.case in REQUIRED
                    yield finding
                if shut:
                    return
                if number == max(_SHARES.keys() & {*self.levels}, default=-1):
                    yield from pool.findings(large, begun + _BEGIN_LARGE * self.within)
        finally:
            pool.close()

    def _of_level(
        self, pool: Pool, level: int, end: float, large: list[list[Task]]
    ) -> Iterator[Finding]:
        """Carry out the cases of a level; those that are large wait, if it is a drawn one."""
        try:
            listed = pool.list_cases(level, self.timeout_seconds)
        except Stopped as stop:
            name = f"L{level}/list of cases"
            yield replace(stop.finding, case=name, level=level, offers=False)
            return
        tasks = [one for one in listed if _matches(one.case.case, self.only)]
        if level not in _SHARES:
            yield from pool.findings([task] for task in tasks)
            return
        drawn = drawn_batches(tasks, self.subject["seed"])
        most = _LARGE_FACTOR * self.timeout_seconds
        large += [batch for batch in drawn if batch[0].seconds > most]
        small = [batch for batch in drawn if batch[0].seconds <= most]
        now = time.monotonic()
        left = sum(part for number, part in _SHARES.items() if level <= number <= self.levels[-1])
        until = now + (end - now) * _SHARES[level] / left
        yield from pool.findings(small, until)


def drawn_batches(tasks: Sequence[Task], seed: int) -> list[list[Task]]:
    """Shuffle the cases of each group, as those of an operator, and take a batch of each in turn.

    Results of operators come first. The first of a group is alone in its model; the others come
    jointly where they may.
    """
    drawn = random.Random(seed)  # noqa: S311 (the same for the same seed, and no secret)
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.case.case.split("/")[1], []).append(task)
    names = list(groups)
    drawn.shuffle(names)
    found: list[list[Task]] = []
    for some in (*((one,) for one in _FIRST if one in groups), set(names).difference(_FIRST)):
        turns = [_in_turn(groups[name], drawn) for name in names if name in some]
        found += [batch for batch in chain(*zip_longest(*turns)) if batch is not None]
    return found


def _in_turn(group: list[Task], drawn: random.Random) -> list[list[Task]]:
    drawn.shuffle(group)
    return [group[:1], *batches(group[1:], attrgetter("batch_key"))]


def _matches(case: str, only: str | Collection[str]) -> bool:
    return fnmatchcase(case, only) if isinstance(only, str) else case in only


def _may_match(level: int, only: str | Collection[str]) -> bool:
    """Say whether a case of a level can match, for building the cases of some takes seconds."""
    prefix = f"L{level}/"
    if not isinstance(only, str):
        return any(case.startswith(prefix) for case in only)
    plain = re.split(r"[*?\[]", only, maxsplit=1)[0]
    return prefix.startswith(plain) or plain.startswith(prefix)


def subject_of(backend: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Subject``, as JSON has them, so that another process finds it.

    Raises ConfigError (SGK107, SGK310) if it cannot; BackendNotFoundError (SGK101, SGK102).
    """
    if isinstance(backend, type):
        return {"target": _place(backend), "options": dict(options)}
    if not isinstance(backend, str):
        raise _not_a_backend(backend)
    text = _LOOPBACK.get(backend, backend)
    module, colon, name = text.partition(":")
    if colon and "=" not in name.partition(":")[0]:
        return {"target": f"{module}:{name}", "options": dict(options)}
    choices = parse_selection(text, _ORIGIN)
    if len(choices) != 1:
        raise _not_a_backend(backend)
    choice = choices[0]
    given = {**choice.options, **options}
    record = find_record(choice, resolve())
    if record.distribution == IN_PROCESS:
        return {"target": record.entry_point, "options": given}
    return {"installed": choice.name, "distribution": choice.distribution, "options": given}


def _place(backend: type) -> str:
    """Return where a class is, if another process can import it from there."""
    module, name = backend.__module__, backend.__qualname__
    try:
        found = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError):
        found = None
    if found is not backend or module == "__main__":
        raise _untestable(
            f"the class {module}.{name} cannot be imported by a process of its own",
            hint="Each case runs in a new process. Define the class at the top level of a module.",
        )
    return f"{module}:{name}"


def _untestable(problem: str, hint: str) -> ConfigError:
    return ConfigError("SGK310", problem, hint=hint)


def _not_a_backend(backend: object) -> ConfigError:
    return _untestable(
        f"expected the name of one backend or a Backend class to be tested, got {backend!r}",
        hint='Name it as in "numpy", "numpy:max_loop_iterations=9" or "module:Class".',
    )
