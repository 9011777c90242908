"""The health of a backend, probed and tried in a process of its own.

Nothing heavy is imported in this one, so that it works where NumPy itself is broken.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from subgraphkit.finding.child_probe import ChildProbe, find_facts, probe_from, probe_without_answer
from subgraphkit.processes.calling import Child, NoAnswer
from subgraphkit.processes.child_process import how_it_ended

_TRIAL: Final = "subgraphkit.testing.trial:try_installed"


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a backend: the results of its probe and of its trial.

    Attributes:
        state: How the trial ended, which is made if the probe is ``ok``: as ``Trial.state``, or
            ``crash`` or ``hang`` of the process; ``untried`` if there was none.
        code: Code of the error of the trial, or an empty string.
        evidence: The end of the backend's traceback, or of what it printed.
    """

    probe: ChildProbe
    state: Literal["ok", "idle", "wrong", "error", "crash", "hang", "untried"] = "untried"
    operators: str = ""
    code: str = ""
    text: str = ""
    evidence: str = ""


def look_after(name: str, timeout_seconds: float, *, deep: bool, origin: str) -> Health:
    """Probe a backend and let it compile and run a small model, in a child process."""
    if not sys.executable:
        text = "this process does not know its Python interpreter"
        return Health(ChildProbe(name, "error", text=text))
    tried: list[str] = []
    started, gone, printed = time.monotonic(), None, ""
    facts: dict[str, Any] = {}
    trial: dict[str, Any] = {}
    try:
        with Child() as child:
            facts |= child.call(find_facts, name, origin, deep, timeout=timeout_seconds)
            if facts["state"] == "ok":  # without NumPy, it would not be found what is wrong
                given = name, facts["builds_only"]
                trial |= child.call(_TRIAL, *given, timeout=timeout_seconds, event=tried.append)
            child.finish(timeout_seconds)
            printed = child.printed()
    except NoAnswer as ended:
        gone, printed = ended, ended.printed
    seconds = time.monotonic() - started
    if not facts:
        return _of_probe(probe_without_answer("backend", name, gone or NoAnswer(0), seconds))
    probe = probe_from(name, facts, seconds=seconds, output=printed)
    if probe.state != "ok":
        return _of_probe(probe)
    if gone is None:
        told = ("state", "operators", "code", "text", "trace")
        return Health(probe, *(trial[fact] for fact in told))
    where = "after it was tried" if trial else ""
    return _ended(probe, gone, timeout_seconds, tried, where)


def _of_probe(probe: ChildProbe) -> Health:
    if probe.state in {"crash", "hang"}:
        return Health(probe, evidence=_last_lines(probe.output))
    return Health(probe, evidence=probe.trace)


def _ended(
    probe: ChildProbe, gone: NoAnswer, limit: float, tried: Sequence[str], where: str
) -> Health:
    operators, evidence = "".join(tried[-1:]), _last_lines(gone.printed)
    where = where or f"while it compiled and ran {operators}"
    if gone.code is None:
        text = f"backend {probe.name!r} did not return within {limit:.0f} s {where}"
        return Health(probe, "hang", operators, "SGK321", text, evidence)
    how = how_it_ended(gone.code)
    text = f"backend {probe.name!r} took the process down {where}: {how}"
    return Health(probe, "crash", operators, "SGK320", text, evidence)


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-10:])
