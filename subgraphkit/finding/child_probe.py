"""Probe a backend in a child process, where it may crash, exit or never return.

``python -m subgraphkit.finding.child_probe NAME`` loads and probes one backend and writes JSON to
standard output, a line once it has begun and one of what it found. What the plugin itself prints,
from Python or from C, goes to standard error: the descriptor is exchanged before the import.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, Final, Literal

from subgraphkit.configuration.selection import BackendChoice, parse_selection
from subgraphkit.errors import ConfigError, SubgraphkitError
from subgraphkit.processes.child_process import Ended, how_it_ended, run_child

IS_PROBE: Final = "_SUBGRAPHKIT_TRIES_A_PLUGIN"
"""The variable of the environment that is set where plugins are tried."""

_MODULE: Final = "subgraphkit.finding.child_probe"
_LAST_OUTPUT: Final = 2000
"""How many characters of what the child printed are kept."""
_LAST_LINES: Final = 10
"""How many lines of a plugin's traceback are kept."""


@dataclass(frozen=True, slots=True)
class ChildProbe:
    """The result of probing a backend in a child process.

    Attributes:
        state: ``ok``; ``unavailable`` if it cannot run here; ``error`` if it could not be found,
            loaded or probed; ``crash`` if it took the process down; ``hang`` if it did not return;
            ``unstarted`` if the process came to an end before it turned to the backend.
        text: What happened, as the user would be told; if ``ok``, why it only builds, or nothing.
        seconds: How long it took, the start of the process included.
        trace: The end of the traceback of the plugin's own exception, if it raised one.
    """

    name: str
    state: Literal["ok", "unavailable", "error", "crash", "hang", "unstarted"]
    code: str = ""
    text: str = ""
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    output: str = ""
    trace: str = ""
    builds_only: bool = False


def probe_in_child(
    name: str, timeout_seconds: float = 30.0, *, deep: bool = False, origin: str = ""
) -> ChildProbe:
    """Load and probe an installed backend in a child process, and check the options given for it.

    A backend registered by a call is not known to the child, nor are settings made by a call.

    Returns:
        What became of it; this function does not raise because of a plugin.

    Thread-safety: may be called from any thread; several children may run at once.
    """
    return _asked(name, [name, origin, *(["--deep"] if deep else [])], timeout_seconds)


def import_in_child(plugin: EntryPoint, timeout_seconds: float) -> ChildProbe:
    """Import a plugin in a child process, and do no more with it; see ``probe_in_child``."""
    words = [plugin.name, plugin.group, "--import", plugin.value]
    return _asked(plugin.name, words, timeout_seconds, "extension")


def _asked(
    name: str, words: Sequence[str], timeout_seconds: float, kind: str = "backend"
) -> ChildProbe:
    if not sys.executable:
        problem = "this process does not know its Python interpreter"
        return ChildProbe(name, "unstarted", text=problem)
    try:
        ended = run_child(_MODULE, words, timeout_seconds, {IS_PROBE: "1"})
    except (OSError, ValueError) as error:  # too many processes, or a null in a name
        return ChildProbe(name, "unstarted", text=f"no process can be started: {error}")
    begun, *answers = ended.answer.splitlines() or [""]
    if not begun:
        text = f"the process did not get as far as {kind} {name!r}: {ended.printed[-200:]}"
        return ChildProbe(name, "unstarted", text=text, seconds=ended.seconds)
    return judged(name, ended, "".join(answers), kind)


def judged(name: str, ended: Ended, answer: str, kind: str = "backend") -> ChildProbe:
    """Make a finding of how a child ended and of the JSON document it wrote, if it wrote one."""
    seconds, output = ended.seconds, ended.printed[-_LAST_OUTPUT:]
    if ended.code is None:
        text = f"{kind} {name!r} did not return within {seconds:.0f} s"
        return ChildProbe(name, "hang", text=text, seconds=seconds, output=output)
    # a child that fails after it has answered has a library that fails when it is unloaded
    if ended.code != 0 or not answer:
        text = f"{kind} {name!r} took the process down: {how_it_ended(ended.code)}"
        return ChildProbe(name, "crash", text=text, seconds=seconds, output=output)
    facts: dict[str, Any] = json.loads(answer)
    for key in ("devices", "missing"):
        facts[key] = tuple(facts.get(key, ()))
    return ChildProbe(name, seconds=seconds, output=output, **facts)


def main(arguments: Sequence[str]) -> int:
    """Probe the backend named by the first argument and write the findings as JSON.

    The second argument, if there is one, says who named it. With ``--import`` it is the group of
    an entry point that is imported, and the last argument is where the plugin is.
    """
    name, *words = arguments
    origin = next((word for word in words if word != "--deep"), "")
    with answering() as answer:
        answer({"begun": name})
        if "--import" in words:
            answer(_imported(EntryPoint(name, words[-1], words[0])))
        else:
            answer(probe_here(name, origin or f"the argument {name!r}", deep="--deep" in words))
    return 0


def _imported(plugin: EntryPoint) -> dict[str, Any]:
    try:
        plugin.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
        return {"state": "error", "text": f"{type(error).__name__}: {error}"}
    return {"state": "ok"}


@contextmanager
def answering() -> Iterator[Callable[[Any], None]]:
    """Keep standard output for answers, a line of JSON each; other output is an error's."""
    # The duplicate is ours alone; descriptor 1, which C code writes to, becomes standard error.
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(answer, "w", encoding="utf-8") as stream:

        def tell(what: Any) -> None:
            stream.write(json.dumps(what) + "\n")
            stream.flush()

        yield tell


def probe_here(name: str, origin: str, *, deep: bool = False) -> dict[str, Any]:
    """Load and probe a backend in this process; return the findings, JSON-able, never raise."""
    try:
        return _facts(_choice(name, origin), deep=deep)
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
    from subgraphkit.finding.registry import (  # noqa: PLC0415 (see above)
        find_record,
        load_record,
        probe_record,
    )
    from subgraphkit.finding.requirements import missing_requirements  # noqa: PLC0415 (see above)

    resolved = resolve()
    record = find_record(choice, resolved)
    requires = record.manifest.requires if record.manifest is not None else ()
    missing = missing_requirements(requires, libraries=True)
    try:
        # errors are not raised as they are, whatever the setting: this is where they are explained
        schema = tuple(load_record(record).options)
        found = probe_record(record, deep=deep)
        validate_options(record.name, schema, resolved.options_for(record.name, schema))
    except SubgraphkitError as error:
        return {**_failure(error), "missing": missing}
    return {
        "state": "ok",
        "text": "; ".join(found.problems),
        "builds_only": found.builds_only,
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "missing": missing,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
