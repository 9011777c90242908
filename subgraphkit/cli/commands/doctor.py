"""``subgraphkit doctor``: a check of every backend on this machine, with a fix for every fault.

Every backend is probed, and compiles and runs a small model. It does so in a process of its own,
which may crash or hang without harm. The backends of a bind here and now are always tried, with the
options given for them.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final

from subgraphkit import __version__
from subgraphkit.backend.checks import Check
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, seconds, writable
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.files import config_paths
from subgraphkit.configuration.names import BACKEND_NAMES, EXTENSIONS_GROUP, KNOWN_BACKENDS
from subgraphkit.configuration.selection import AUTO, NONE, BackendChoice
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.catalogue import CATALOGUE, version_of
from subgraphkit.finding.child_probe import ChildProbe, ask_child, find_facts
from subgraphkit.texts import paragraph


def find_health(begin: Callable[[str], None], name: str, origin: str, deep: Any) -> dict[str, Any]:
    """Probe a backend in this process, which it may take down, and try it if it can be tried."""
    begin(name)
    facts = find_facts(name, origin, deep)
    if facts["state"] == "ok":  # without NumPy, the fault would not be found
        trial = import_module("subgraphkit.testing.trial")
        facts |= trial.try_installed(begin, name, facts["builds_only"])
        begin("")
    return facts


_VARIABLES: Final = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_SHARED: Final = "onnxruntime"
_RIVALS: Final = ("onnxruntime", "ort-nightly", "ort_nightly")
_GPU: Final = Path("/dev/nvidia0")
_WRONG: Final = re.compile(
    r"(?:unknown backend|no option|no distribution|setting in .*:) '([^']*)'"
)
_GUESS: Final = re.compile(r"did you mean '([^']+)'\?")
_NO_MODULE: Final = re.compile(r"No module named '([^']+)'")
_BROKEN: Final = frozenset({"SGK103", "SGK115", "SGK116", "SGK191", "SGK320", "SGK321"})
_ABSENT: Final = frozenset({"SGK101", "SGK102", "SGK104", "SGK117"})
_FALLBACK: Final = "the fallback"
MARKS: Final = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}
_PACKAGES: Final = (
    *("numpy", "onnx", "ml_dtypes", "networkx", "filelock", "platformdirs", "pluggy", "protobuf"),
    "onnxruntime",
)
"""Distributions whose versions help to reproduce a result."""


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
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
            name = f"{choice.name}@{choice.distribution}" if choice.distribution else choice.name
            with report.doing(f"trying {name}"):
                given = choice.origin, arguments.deep
                found = ask_child(
                    "backend", name, arguments.timeout, find_health, *given, variables={}
                )
            checks.append(_check_of_backend(found, choice, resolved))
            states[name] = _state(found)
            if found.trace:
                traces[name] = found.trace
        checks += _fallback(resolved)
        checks += _of_extensions(resolved)
    fixes = list(dict.fromkeys(check.fix for check in checks if check.fix))
    report.data = {
        "environment": environment,
        "settings": _setting_rows(resolved) if resolved else [],
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
    report.data = {"settings": _setting_rows(resolved), "files": files}
    report.show(table("setting value layer location", resolved.as_table()))
    for file in files:
        report.note(f"read {file}")
    return ExitCode.OK


def _setting_rows(resolved: ResolvedConfig) -> list[dict[str, Any]]:
    names = ("key", "value", "layer", "location")
    return [dict(zip(names, row, strict=True)) for row in resolved.as_table()]


def _environment() -> dict[str, Any]:
    return {
        "subgraphkit": __version__,
        "python": sys.version.split()[0],
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: v for name in _PACKAGES if (v := version_of(name))},
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
    if (named := distribution.read_text("top_level.txt")) is not None:
        return package in named.split()
    return any(path.parts[:1] == (package,) for path in distribution.files or ())


def _to_probe(names: Sequence[str], resolved: ResolvedConfig) -> list[BackendChoice]:
    """Return the named backends, or else the installed ones, and those that a bind would use."""
    choices = {choice.name: choice for choice in resolved.backends if choice.name != AUTO}
    installed = {record.name for record in CATALOGUE.records()}
    if resolved.fallback in installed:
        origin = f"{_FALLBACK}, {resolved.sources['fallback'][1]}"
        choices.setdefault(resolved.fallback, BackendChoice(resolved.fallback, origin=origin))
    used = {str(choice).partition(":")[0].rstrip("?"): choice for choice in choices.values()}
    beside = names or sorted(installed - resolved.block - choices.keys())
    chosen = {name: used.pop(name, BackendChoice(name, origin="")) for name in beside}
    return sorted((chosen | used).values(), key=lambda choice: choice.name)


def _state(found: ChildProbe) -> str:
    """Return the abilities of a backend here in one word, for programs."""
    if found.builds_only and (found.state == "ok" or found.code in _ABSENT):
        return "build_only"
    return "ready" if found.state == "ok" else found.state


def _check_of_backend(found: ChildProbe, choice: BackendChoice, resolved: ResolvedConfig) -> Check:
    name, is_absent = f"backend {found.name}", found.code in _ABSENT
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    text, did = f"ready on {', '.join(found.devices) or 'no device named'}", "ran {} correctly"
    if found.builds_only:
        text, did = f"builds only, {found.problems}", "compiled {}"
    text = f"{text}; {versions or 'no versions named'}"
    if found.state == "ok":
        return Check(name, "ok", f"{text}; {did.format(found.operators)} ({found.seconds:.1f} s)")
    if found.state == "idle":
        fix = f"See why: subgraphkit plan MODEL --backend {found.name} --details"
        return Check(name, "warning", f"{text}; {found.text}", fix)
    message, *hints = found.text.splitlines() or [found.state]
    fix = _fix(found, "; ".join(" ".join(hint.split()) for hint in hints), choice)
    if found.builds_only and not choice.origin and is_absent:
        return Check(name, "warning", text, fix)  # nobody asked it to run
    code = f"[{found.code}] " if found.code and not message.startswith("[") else ""
    is_dispensable = choice.optional or (choice.origin and resolved.on_missing == "warn")
    if is_dispensable and is_absent:
        return Check(name, "warning", code + message, fix)
    return Check(name, "failure", code + message, fix)


def _fix(found: ChildProbe, hint: str, choice: BackendChoice) -> str:
    """Choose the remedy: that of the message, or else that of a broken package."""
    if found.missing:
        return "; ".join(dict.fromkeys(found.missing))
    failed = found.state == "error" and found.operators and found.code not in _ABSENT
    if not failed and found.code not in _BROKEN:
        return _suggestion(found.text) or hint or "Correct the value, or unset it."
    name, _, distribution = found.name.partition("@")
    providers = [record.provider for record in CATALOGUE.find(name, distribution)]
    module = _NO_MODULE.search(found.text)
    package = " and ".join(providers) or f"the package of {name!r}"
    mend = f"Install the module {module[1]!r}" if module else f"Mend or reinstall {package}"
    block = f"SUBGRAPH_BLOCK={choice.name}"  # blocking a backend asked for would be the next error
    way_round = f"leave it out of {choice.origin}" if choice.origin else block
    return f"{mend}; to do without it: {way_round}"


def _suggestion(message: str) -> str:
    """Turn a guess in a message into an instruction."""
    wrong, guess = _WRONG.search(message), _GUESS.search(message)
    if guess is None:
        return ""
    return f"Write {guess[1]!r}" + (f" in place of {wrong[1]!r}" if wrong else "")


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
    manager = extensions.ExtensionManager(resolved)
    answers: list[Any] = manager.notify("subgraphkit_doctor")
    several = (answer if isinstance(answer, list | tuple) else [answer] for answer in answers)
    return [_check_of_extension(one) for one in chain.from_iterable(several)]


def _check_of_extension(one: object) -> Check:
    """Return a finding of an extension; a wrong answer is a finding too, and stops nothing."""
    if isinstance(one, Check) and one.status in MARKS:
        return one
    text = f"an extension found {one!r:.60}, expected a Check that is ok, a warning or a failure"
    return Check("extensions", "warning", text)


def _show(
    report: CommandReport, resolved: ResolvedConfig | None, traces: Mapping[str, str]
) -> None:
    environment, checks = report.data["environment"], report.data["checks"]
    facts = [(name, environment[name]) for name in ("subgraphkit", "python", "platform", "cpus")]
    facts += [*environment["packages"].items(), *environment["variables"].items()]
    report.show(table("environment value", facts))
    if resolved is not None:
        said = [row for row in resolved.as_table() if row[2] != "default"]
        if said:
            report.show(table("setting value layer location", said))
    marked = [{**check, "result": MARKS[check["status"]]} for check in checks]
    report.show(table("result check=name finding=text", marked))
    for name, trace in traces.items():
        report.show(paragraph(f"The last that was heard of backend {name}:\n{trace}"))
    if report.data["fixes"]:
        fixes = enumerate(map(paragraph, report.data["fixes"]), 1)
        report.show("\n".join(["What to do:", *(f"{number}. {fix}" for number, fix in fixes)]))


def add_words(parser: Parser) -> None:
    """Add its words."""
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
    purpose = "let one backend try what only its device can show, and nothing else"
    parser.word("--selftest", purpose, within=own)
    parser.word("-o --output FILE.json", "write the report after every check", writable, within=own)
    parser.word("--only CHECK", "make this check; repeatable", several=True, within=own)
    parser.word("--here", "in this process and without limits, for a debugger", within=own)
