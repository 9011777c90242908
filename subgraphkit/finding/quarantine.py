"""Plugins that nobody named, tried in a process of their own before this one imports them.

What the user names is imported as it is. What is only installed, an extension or a backend that
``auto`` stands for, may abort or hang while it is imported, and would take every run of this user
with it. So it is met in a child first, and the answer is kept for as long as the plugin does not
change. Backends that ship with us are not tried: ``auto`` is as quick as if there were nobody else.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.names import BACKENDS_GROUP
from subgraphkit.finding.child_probe import IS_PROBE, ChildProbe, import_in_child, probe_in_child
from subgraphkit.storing.answers import Answers, Passing
from subgraphkit.storing.folders import kept_folder

_MOST_SECONDS: Final = 15.0
_FOLDER: Final = "plugins"
_ANSWERS: Final = Answers("imports")


class Harm(NamedTuple):
    """The way in which a plugin took down the process that it was tried in.

    Attributes:
        code: SGK320 if the process ended, SGK321 if it had to be stopped.
    """

    code: str
    text: str
    is_news: bool


def harm_of(
    plugin: EntryPoint, distribution: str, version: str, resolved: ResolvedConfig | None
) -> Harm | None:
    """Find out whether a plugin can be imported without harm to the process; the first time, try.

    ``resolved``: Says where answers are kept; None if in memory alone.

    Returns:
        What it does to a process; None if it comes back, whether it can be used or not, or if no
        child process can be started here.

    Thread-safety: may be called from any thread; two that ask at the same time may both try.
    """
    if plugin.value.partition(":")[0].strip() in sys.modules:
        return None
    if IS_PROBE in os.environ:  # or a plugin that opens a session when imported starts us for ever
        return Harm("SGK320", "a process in which a plugin is tried tries no other", is_news=False)
    tried: list[ChildProbe] = []

    def attempt() -> Sequence[str] | Passing | None:
        if plugin.group == BACKENDS_GROUP:
            found = probe_in_child(f"{plugin.name}@{distribution}", _MOST_SECONDS)
        else:
            found = import_in_child(plugin, _MOST_SECONDS)
        tried.append(found)
        if found.state == "unstarted":
            return Passing(None)
        return [found.code, found.text] if found.state in {"crash", "hang"} else None

    question = _question(plugin, distribution, version)
    said: Any = _ANSWERS.recall(question, attempt, _kept(resolved))
    return None if said is None else Harm(said[0], said[1], is_news=bool(tried))


def _question(plugin: EntryPoint, distribution: str, version: str) -> str:
    """Write down all that decides how an import goes; a plugin may change under its version."""
    facts: list[Any] = [plugin.group, plugin.name, plugin.value, distribution, version, sys.version]
    try:
        spec = find_spec(plugin.value.partition(":")[0].partition(".")[0])
        origin = spec.origin if spec is not None else None
        status = os.stat(origin) if origin else None  # noqa: PTH116 (built-in modules have words)
    except (ImportError, ValueError, OSError):
        return json.dumps(facts)
    return json.dumps([*facts, origin, status and [status.st_mtime_ns, status.st_size]])


def _kept(resolved: ResolvedConfig | None) -> Any:
    if resolved is None or not resolved.cache:
        return None
    return kept_folder(resolved.cache_dir, _FOLDER)
