"""``subgraphkit doctor``: a check of every backend on this machine, with a fix for every fault.

Every backend is probed, and compiles and runs a small model, in a process of its own, which may
crash or hang without harm. What a bind made here and now would use is tried in any case, with the
options given for it.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

from subgraphkit import __version__
from subgraphkit.backend.events import Check
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.health import Health, look_after
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.words import seconds, writable
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.files import config_paths
from subgraphkit.configuration.names import BACKEND_NAMES, EXTENSIONS_GROUP, KNOWN_BACKENDS
from subgraphkit.configuration.selection import AUTO, NONE, BackendChoice
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.finding.child_probe import ChildProbe
from subgraphkit.texts import paragraph
from subgraphkit.viewing.sections import Table

_VARIABLES: Final = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_SHARED: Final = "onnxruntime"
_RIVALS: Final = ("onnxruntime", "ort-nightly", "ort_nightly")
_GPU: Final = Path("/dev/nvidia0")
_WRONG: Final = re.compile(
    r"(?:unknown backend|no option|no distribution|setting in .*:) '([^']*)'"
)
_GUESS: Final = re.compile(r"did you mean '([^']+)'\?")
_NO_MODULE: Final = re.compile(r"No module named '([^']+)'")
_BROKEN: Final = frozenset({"SGK103", "SGK115", "SGK116", "SGK191"})
_ABSENT: Final = frozenset({"SGK101", "SGK102", "SGK104", "SGK117"})
_ENDS: Final = {"crash": "SGK320", "hang": "SGK321"}
"""How the process of a probe ended, and the code of it."""
_FALLBACK: Final = "the fallback"
_MARKS: Final = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}
_PACKAGES: Final = (
    *("numpy", "onnx", "ml_dtypes", "networkx", "filelock", "platformdirs", "pluggy", "protobuf"),
    "onnxruntime",
)
"""Distributions whose versions help to reproduce a result."""


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    if arguments.settings:
        return _show_settings(report)
    if arguments.selftest:
        run = import_module("subgraphkit.cli.selftest").run_selftest
        return ExitCode(run(arguments, report))
    environment = _environment()
    resolved, checks = _settings()
    checks += _packages()
    traces: dict[str, str] = {}
    states: dict[str, str] = {}
    if resolved is not None:
        for choice in _to_probe(arguments.names, resolved):
            health = _looked_after(choice, arguments, report)
            checks.append(_judged(health, choice, resolved))
            states[health.probe.name] = _state(health)
            if health.evidence:
                traces[health.probe.name] = health.evidence
        checks += _fallback(resolved)
        checks += _of_extensions(resolved)
    fixes = list(dict.fromkeys(check.fix for check in checks if check.fix))
    report.data = {
        "environment": environment,
        "settings": _described(resolved) if resolved else [],
        "checks": [asdict(check) for check in checks],
        "backends": states,
        "fixes": fixes,
        "traces": traces,
    }
    _show(report, resolved, traces)
    failed = any(check.status == "failure" for check in checks)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _show_settings(report: CommandReport) -> ExitCode:
    resolved = resolve()
    files = [str(path) for _, path in config_paths(os.environ, Path.cwd())]
    report.data = {"settings": _described(resolved), "files": files}
    report.show(Table.of("setting value layer location", resolved.as_table()))
    for file in files:
        report.note(f"read {file}")
    return ExitCode.OK


def _described(resolved: ResolvedConfig) -> list[dict[str, Any]]:
    names = ("key", "value", "layer", "location")
    return [dict(zip(names, row, strict=True)) for row in resolved.as_table()]


def _package_versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _environment() -> dict[str, Any]:
    return {
        "subgraphkit": __version__,
        "python": sys.version.split()[0],
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": _package_versions(),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith("SUBGRAPH_") or name in _VARIABLES
        },
    }


def _settings() -> tuple[ResolvedConfig | None, list[Check]]:
    try:
        return resolve(), [Check("settings", "ok", "the configuration can be read")]
    except SubgraphkitError as error:
        hint = " ".join(error.hint.replace("\n", "; ").split())
        fix = _suggestion(error.message) or hint or "Correct the value, or unset it."
        unread = Check("settings", "failure", f"[{error.code}] {error.message}", fix)
        # each backend would only repeat it
        return None, [unread, Check("backends", "warning", "not tried, for want of settings")]


def _packages() -> Iterator[Check]:
    rivals = _rivals()
    if len(rivals) > 1:
        yield Check(
            "packages",
            "warning",
            f"{' and '.join(rivals)} are installed together and overwrite each other's files",
            f"pip uninstall -y {' '.join(rivals)}; then pip install the one you want",
        )
    command = KNOWN_BACKENDS.get("tensorrt")
    if command and _GPU.exists() and not CATALOGUE.find("tensorrt"):
        yield Check(
            "devices", "warning", "there is an NVIDIA GPU and no backend that uses it", command
        )
    told = [one.error for one in CATALOGUE.records() if one.error is not None]
    for error in (*BACKEND_NAMES.unreadable(), *(one for one in told if one.code == "SGK129")):
        yield Check("packages", "warning", f"[{error.code}] {error.message}", error.hint)


def _rivals() -> list[str]:
    """Return the distributions that all put a package ``onnxruntime`` into the same place."""
    found = set()
    for one in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # whose metadata cannot be read is told apart
            if str(one.name).lower().startswith(_RIVALS) and _provides(one, _SHARED):
                found.add(str(one.name))
    return sorted(found)


def _provides(distribution: importlib.metadata.Distribution, package: str) -> bool:
    named = distribution.read_text("top_level.txt")
    if named is not None:
        return package in named.split()
    return any(path.parts[:1] == (package,) for path in distribution.files or ())


def _to_probe(names: Sequence[str], resolved: ResolvedConfig) -> list[BackendChoice]:
    """Return what was named, or else what is installed, and whatever a bind would use."""
    choices = {choice.name: choice for choice in resolved.backends if choice.name != AUTO}
    installed = {record.name for record in CATALOGUE.records()}
    if resolved.fallback in installed:
        origin = f"{_FALLBACK}, {resolved.sources['fallback'][1]}"
        choices.setdefault(resolved.fallback, BackendChoice(resolved.fallback, origin=origin))
    used = {str(choice).partition(":")[0].rstrip("?"): choice for choice in choices.values()}
    beside = names or sorted(installed - resolved.block - choices.keys())
    chosen = {name: used.pop(name, BackendChoice(name, origin="")) for name in beside}
    return sorted((chosen | used).values(), key=lambda choice: choice.name)


def _looked_after(choice: BackendChoice, arguments: Namespace, report: CommandReport) -> Health:
    name = f"{choice.name}@{choice.distribution}" if choice.distribution else choice.name
    with report.doing(f"trying {name}"):
        return look_after(name, arguments.timeout, deep=arguments.deep, origin=choice.origin)


def _judged(health: Health, choice: BackendChoice, resolved: ResolvedConfig) -> Check:
    found = health.probe
    if found.state == "ok":
        return _judged_trial(health, choice, resolved)
    message, *hints = found.text.splitlines() or [found.state]
    if found.state in _ENDS:
        message = f"[{_ENDS[found.state]}] {message}"
    status = _gravity(found.code, choice, resolved)
    return Check(f"backend {found.name}", status, message, _fix(found, hints, choice))


def _state(health: Health) -> str:
    """Return in one word what a backend can do here, for programs."""
    if health.probe.state != "ok":
        return health.probe.state
    if health.probe.builds_only and (health.state == "ok" or health.code in _ABSENT):
        return "build_only"
    return "ready" if health.state == "ok" else health.state


def _gravity(
    code: str, choice: BackendChoice, resolved: ResolvedConfig
) -> Literal["warning", "failure"]:
    dispensable = choice.optional or (choice.origin and resolved.on_missing == "warn")
    return "warning" if dispensable and code in _ABSENT else "failure"


def _judged_trial(health: Health, choice: BackendChoice, resolved: ResolvedConfig) -> Check:
    found = health.probe
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    devices = ", ".join(found.devices) or "no device named"
    text, did = f"ready on {devices}", f"ran {health.operators} correctly"
    if found.builds_only:
        text, did = f"builds only, {found.text}", f"compiled {health.operators}"
    text = f"{text}; {versions or 'no versions named'}"
    name = f"backend {found.name}"
    if health.state == "ok":
        return Check(name, "ok", f"{text}; {did} ({found.seconds:.1f} s)")
    if health.state == "idle":
        fix = f"See why: subgraphkit plan MODEL --backend {found.name} --details"
        return Check(name, "warning", f"{text}; {health.text}", fix)
    message, *hints = health.text.splitlines()
    code = f"[{health.code}] " if health.code and not message.startswith("[") else ""
    if health.state == "wrong":
        remedy = " ".join(hint.strip() for hint in hints)
    else:  # what the machine lacks is not mended in the package
        remedy = hints[0].strip() if hints and health.code in _ABSENT else ""
    status = _gravity(health.code, choice, resolved)
    if found.builds_only and not choice.origin and health.code in _ABSENT:
        status, code, message = "warning", "", text  # nobody asked it to run
    return Check(name, status, code + message, remedy or _mend(found, choice))


def _fix(found: ChildProbe, hints: Sequence[str], choice: BackendChoice) -> str:
    """Choose the most useful remedy the messages name."""
    if found.missing:
        return "; ".join(dict.fromkeys(found.missing))
    for hint in hints:
        words, _, remedy = hint.strip().partition(":")
        if remedy and words in {"Install it", "Missing", "Upgrade core", "Upgrade plugin"}:
            return remedy.strip()
    if found.code in _BROKEN or found.state in {"crash", "hang"}:
        return _mend(found, choice)
    if found.code == "SGK102":
        aside = f", or {_way_round(choice)}" if choice.origin else ""
        return _suggestion(found.text) or f"Look it up: subgraphkit list --all{aside}"
    remedy = _suggestion(found.text) or (hints[0] if hints else "Correct the value, or unset it.")
    return " ".join(remedy.split())  # the hints of messages are aligned in columns


def _suggestion(message: str) -> str:
    """Turn a guess in a message into an instruction."""
    wrong, guess = _WRONG.search(message), _GUESS.search(message)
    if guess is None:
        return ""
    return f"Write {guess[1]!r}" + (f" in place of {wrong[1]!r}" if wrong else "")


def _mend(found: ChildProbe, choice: BackendChoice) -> str:
    """Say what to do about a package that is installed and fails."""
    name, _, distribution = found.name.partition("@")
    providers = [record.provider for record in CATALOGUE.find(name, distribution)]
    module = _NO_MODULE.search(found.text)
    package = " and ".join(providers) or f"the package of {name!r}"
    mend = f"Install the module {module[1]!r}" if module else f"Mend or reinstall {package}"
    return f"{mend}; to do without it: {_way_round(choice)}"


def _way_round(choice: BackendChoice) -> str:
    if not choice.origin:
        return f"SUBGRAPH_BLOCK={choice.name}"
    # to block what a bind asks for would only be the next error
    if choice.origin.startswith(_FALLBACK):
        return "name another in SUBGRAPH_FALLBACK"
    return f"take {choice.name!r} out of the selection"


def _fallback(resolved: ResolvedConfig) -> Iterator[Check]:
    name = resolved.fallback
    if name == NONE or CATALOGUE.find(name):
        return
    yield Check(
        "fallback",
        "failure",
        f"backend {name!r}, which runs what no other backend claims, is not installed",
        KNOWN_BACKENDS.get(name, f"Install backend {name!r}, or set SUBGRAPH_FALLBACK."),
    )


def _of_extensions(resolved: ResolvedConfig) -> list[Check]:
    """Ask the extensions; where none is installed, the hooks and NumPy are not imported."""
    if not BACKEND_NAMES.entry_points(EXTENSIONS_GROUP):
        return []
    extensions = import_module("subgraphkit.finding.extensions")
    manager = extensions.ExtensionManager.from_config(resolved)
    answers: list[Any] = manager.notify("subgraphkit_doctor")
    several = (answer if isinstance(answer, list | tuple) else [answer] for answer in answers)
    return [_checked(one) for one in chain.from_iterable(several)]


def _checked(one: object) -> Check:
    """Return a finding of an extension; what is none is a finding too, and stops nothing."""
    if isinstance(one, Check) and one.status in _MARKS:
        return one
    text = f"an extension found {one!r:.60}, expected a Check that is ok, a warning or a failure"
    return Check("extensions", "warning", text)


def _show(
    report: CommandReport, resolved: ResolvedConfig | None, traces: Mapping[str, str]
) -> None:
    environment, checks = report.data["environment"], report.data["checks"]
    facts = [(name, environment[name]) for name in ("subgraphkit", "python", "platform", "cpus")]
    facts += [*environment["packages"].items(), *environment["variables"].items()]
    report.show(Table.of("environment value", facts))
    if resolved is not None:
        said = [row for row in resolved.as_table() if row[2] != "default"]
        if said:
            report.show(Table.of("setting value layer location", said))
    marked = [{**check, "result": _MARKS[check["status"]]} for check in checks]
    report.show(Table.of("result check=name finding=text", marked))
    for name, trace in traces.items():
        report.show(paragraph(f"The last that was heard of backend {name}:\n{trace}"))
    if report.data["fixes"]:
        fixes = enumerate(map(paragraph, report.data["fixes"]), 1)
        report.show("\n".join(["What to do:", *(f"{number}. {fix}" for number, fix in fixes)]))


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "doctor",
        "doctor tensorrt --timeout 120",
        "doctor --settings",
        "doctor tensorrt --selftest --output report.json",
    )
    parser.word("names NAME", "backends beside the selected ones; all if none is named", nargs="*")
    parser.word("--timeout SECONDS", "how long a backend may take to answer", seconds, 60.0)
    parser.word("--deep", "let backends probe thoroughly as well")
    parser.word("--settings", "show every setting and where it comes from, and try nothing")
    own = parser.add_argument_group("self-test")
    parser.word(
        "--selftest",
        "let one backend try what only its device can show, and nothing else",
        within=own,
    )
    parser.word(
        "-o --output FILE.json",
        "where to keep the report, which is written anew after every check",
        writable,
        within=own,
    )
    parser.word("--only CHECK", "make this check; repeatable", several=True, within=own)
    parser.word("--here", "in this process and without limits, for a debugger", within=own)


COMMAND: Final = Command(_arguments, _execute)
