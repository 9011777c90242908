"""The health of a backend, probed and tried in a process of its own.

Nothing heavy is imported in this one, so that it works where NumPy itself is broken.
"""

import json
import sys
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from subgraphkit.finding.child_probe import ChildProbe, judged
from subgraphkit.processes.child_process import Ended, how_it_ended, run_child

_CHILD: Final = "subgraphkit.comparing.trial_child"


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
    words = [name, origin, *(["--deep"] if deep else [])]
    ended = run_child(_CHILD, words, timeout_seconds)
    lines = [line for line in ended.answer.splitlines() if line.endswith("}")]
    if not lines:
        return _of_probe(judged(name, ended, ""))
    probe = judged(name, replace(ended, code=0), lines[0])
    return _tried(name, probe, ended, lines[1:]) if probe.state == "ok" else _of_probe(probe)


def _of_probe(probe: ChildProbe) -> Health:
    if probe.state in {"crash", "hang"}:
        return Health(probe, evidence=_last_lines(probe.output))
    return Health(probe, evidence=probe.trace)


def _tried(name: str, probe: ChildProbe, ended: Ended, lines: list[str]) -> Health:
    said: dict[str, Any] = {}
    for line in lines:
        said |= json.loads(line)
    operators, trial = said.get("trying", ""), said.get("trial")
    evidence = _last_lines(ended.printed)
    where = "after it was tried" if trial else f"while it compiled and ran {operators}"
    if ended.code is None:
        text = f"backend {name!r} did not return within {ended.seconds:.0f} s {where}"
        return Health(probe, "hang", operators, "SGK321", text, evidence)
    if ended.code != 0 or trial is None:
        how = how_it_ended(ended.code)
        text = f"backend {name!r} took the process down {where}: {how}"
        return Health(probe, "crash", operators, "SGK320", text, evidence)
    return Health(
        probe, trial["state"], trial["operators"], trial["code"], trial["text"], trial["trace"]
    )


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-10:])
