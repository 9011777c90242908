"""The health of a backend, probed and tried in a process of its own.

Nothing heavy is imported in this one, so that it works where NumPy itself is broken.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from subgraphkit.finding.child_probe import ChildProbe, ask_child, find_facts


def look_after(name: str, timeout_seconds: float, *, deep: bool, origin: str) -> ChildProbe:
    """Probe a backend and let it compile and run a small model, in a child process."""
    return ask_child("backend", name, timeout_seconds, find_health, origin, deep, variables={})


def find_health(begin: Callable[[str], None], name: str, origin: str, deep: Any) -> dict[str, Any]:
    """Probe a backend in this process, which it may take down, and try it if it can be tried."""
    begin(name)
    facts = find_facts(name, origin, deep)
    if facts["state"] == "ok":  # without NumPy, it would not be found what is wrong
        trial = import_module("subgraphkit.testing.trial")
        facts |= trial.try_installed(begin, name, facts["builds_only"])
        begin("")
    return facts
