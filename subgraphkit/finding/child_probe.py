"""Probe a plugin in a child process, where it may crash, exit or never return.

A plugin that you name is imported directly. An extension, or a backend that ``auto`` stands for, is
only installed. Its import may abort or hang, and would take every run with it. So a child process
imports it first, and the answer is kept until the plugin changes. Our own backends are not probed
this way, so they do not slow ``auto``.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.names import BACKENDS_GROUP
from subgraphkit.configuration.selection import BackendChoice, parse_selection
from subgraphkit.errors import ConfigError, SubgraphkitError
from subgraphkit.processes.calling import Child, NoAnswer
from subgraphkit.processes.child_process import how_it_ended
from subgraphkit.storing.folders import kept_folder
from subgraphkit.storing.kept_files import Answers, Passing

IS_PROBE: Final = "_SUBGRAPHKIT_TRIES_A_PLUGIN"
"""The variable of the environment that is set where plugins are tried."""

_TRIED: Final = MappingProxyType({IS_PROBE: "1"})
# How many lines of a plugin's traceback are kept.
_LAST_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class ChildProbe:
    """The result of probing a backend in a child process, and perhaps of trying it.

    Attributes:
        state: ``ok``. ``unavailable``: it cannot run here. ``error``: it could not be found, loaded
            or probed. ``crash``: it ended the process. ``hang``: it did not return. ``unstarted``:
            the process ended before it. ``idle``, ``wrong``: see ``trial``.
        text: The event, in words for the user; nothing if ``ok``.
        problems: Why it only builds, if it does.
        seconds: How long it took, the start of the process included.
        trace: The end of the traceback of the plugin's own exception, or of its output before it
            ended the process.
        operators: The operators that it was tried on, if it was.
    """

    name: str
    state: Literal["ok", "unavailable", "error", "crash", "hang", "unstarted", "idle", "wrong"]
    code: str = ""
    text: str = ""
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    trace: str = ""
    builds_only: bool = False
    problems: str = ""
    operators: str = ""


def probe_in_child(name: str, timeout_seconds: float = 30.0) -> ChildProbe:
    """Load and probe an installed backend in a child process, and check the options given for it.

    A backend registered by a call is not known to the child, nor are settings made by a call.
    Nothing is raised because of a plugin.

    Thread-safety: may be called from any thread; several children may run at once.
    """
    return ask_child("backend", name, timeout_seconds, _find_facts_of)


def import_in_child(plugin: EntryPoint, timeout_seconds: float) -> ChildProbe:
    """Import a plugin in a child process, and do no more with it; see ``probe_in_child``."""
    where = plugin.group, plugin.value
    return ask_child("extension", plugin.name, timeout_seconds, _import_plugin, *where)


def ask_child(
    kind: str,
    name: str,
    timeout: float,
    function: Callable[..., Any],
    *plain: Any,
    variables: Mapping[str, str] = _TRIED,
) -> ChildProbe:
    """Have a function look at a plugin in a child process, where it may crash or never return.

    ``timeout``: How long it may keep silent.
    ``function``: It gets a function, the name, and ``plain``, and returns fields of the result. The
    function sends the name first, then the operators under trial, and nothing once they are done.
    ``variables``: The variables to set in the child's environment.
    """
    if not sys.executable:
        problem = "this process does not know its Python interpreter"
        return ChildProbe(name, "unstarted", text=problem)
    started, events = time.monotonic(), list[str]()
    try:
        with Child(variables) as child:
            facts = child.call(function, name, *plain, timeout=timeout, event=events.append)
            child.finish(timeout)
    except NoAnswer as gone:
        if not events:
            text = f"the process did not get as far as {kind} {name!r}: {gone.printed[-200:]}"
            return ChildProbe(name, "unstarted", text=text)
        where = f" while it compiled and ran {events[-1]}" if events[-1] else " after it was tried"
        where = where if len(events) > 1 else ""
        end: tuple[Literal["hang", "crash"], str, str]
        end = "hang", "SGK321", f"did not return within {timeout:.0f} s{where}"
        if gone.code is not None:
            how = how_it_ended(gone.code)
            end = "crash", "SGK320", f"took the process down{where}: {how}"
        state, code, text = end
        return ChildProbe(
            name,
            state,
            code,
            f"{kind} {name!r} {text}",
            seconds=time.monotonic() - started,
            trace="\n".join(gone.printed.splitlines()[-_LAST_LINES:]),
        )
    except (OSError, ValueError) as error:  # too many processes, or a null in a name
        return ChildProbe(name, "unstarted", text=f"no process can be started: {error}")
    facts |= {key: tuple(facts.get(key, ())) for key in ("devices", "missing")}
    return ChildProbe(name, **facts, seconds=time.monotonic() - started)


def _import_plugin(begin: Callable[[Any], None], name: str, group: str, value: str) -> Any:
    begin(name)
    try:
        EntryPoint(name, value, group).load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
        return {"state": "error", "text": f"{type(error).__name__}: {error}"}
    return {"state": "ok"}


def _find_facts_of(begin: Callable[[Any], None], name: str) -> Any:
    begin(name)
    return find_facts(name)


def find_facts(name: str, origin: str = "", deep: Any = None) -> dict[str, Any]:
    """Load and probe a backend in this process; return the findings, JSON-able, never raise."""
    try:
        return _facts(_choice(name, origin or f"the argument {name!r}"), deep=deep)
    except SubgraphkitError as error:
        return _failure(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
        # nothing that we know how to word, such as an attribute of a plugin that raises when read
        text = f"{type(error).__name__}: {error}"
        return {"state": "error", "text": text, "trace": end_of_traceback(error)}


def _choice(name: str, origin: str) -> BackendChoice:
    choices = parse_selection(name, origin)
    if len(choices) == 1 and not choices[0].options:
        return choices[0]
    raise ConfigError(
        "SGK107",
        f"{name!r} ({origin}) is not the name of one backend",
        hint="Give each name by itself, and options in SUBGRAPH_BACKEND.",
    )


def _failure(error: SubgraphkitError) -> dict[str, Any]:
    state = "unavailable" if error.code == "SGK104" else "error"
    trace = end_of_traceback(error.__cause__) if error.__cause__ is not None else ""
    return {"state": state, "code": error.code, "text": str(error), "trace": trace}


def end_of_traceback(error: BaseException) -> str:
    """Return the last lines of an exception's traceback."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(lines[-_LAST_LINES:])


def _facts(choice: BackendChoice, *, deep: bool) -> dict[str, Any]:
    # Imported here: the parent, which only starts children, has no use for the registry and NumPy.
    from subgraphkit.backend.options import validate_options  # noqa: PLC0415 (see above)
    from subgraphkit.configuration.config import resolve  # noqa: PLC0415 (see above)
    from subgraphkit.finding.catalogue import missing_requirements  # noqa: PLC0415 (see above)
    from subgraphkit.finding.registry import (  # noqa: PLC0415 (see above)
        find_record,
        load_record,
        probe_record,
    )

    resolved = resolve()
    record = find_record(choice, resolved)
    requires = record.manifest.requires if record.manifest is not None else ()
    missing = missing_requirements(requires, libraries=True)
    try:
        # errors are never raised directly, with any setting: this is where they are explained
        schema = tuple(load_record(record).options)
        found = probe_record(record, deep=deep)
        validate_options(record.name, schema, resolved.options_for(record.name, schema))
    except SubgraphkitError as error:
        return {**_failure(error), "missing": missing}
    return {
        "state": "ok",
        "problems": "; ".join(found.problems),
        "builds_only": found.builds_only,
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "missing": missing,
    }


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
    """Return the harm that a plugin does to a process that imports it; the first time, try.

    It is None if the process survives, with a usable plugin or not, or if none can start.

    ``resolved``: Says where answers are kept; None if in memory alone.

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
    said: Any = _ANSWERS.recall(question, attempt, _cache_folder(resolved))
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


def _cache_folder(resolved: ResolvedConfig | None) -> Any:
    if resolved is None or not resolved.cache:
        return None
    return kept_folder(resolved.cache_dir, _FOLDER)
