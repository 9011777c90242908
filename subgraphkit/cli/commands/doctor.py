"""``subgraphkit doctor``: what works here, what does not, and what to do about it.

Every backend is probed in a process of its own, which may crash or hang without harm.
"""

import importlib.metadata
import os
import platform
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from subgraphkit import __version__
from subgraphkit.backend.child_probe import ChildProbe, probe_in_child
from subgraphkit.backend.config import ResolvedConfig, resolve
from subgraphkit.backend.discovery import CATALOGUE
from subgraphkit.backend.events import Check
from subgraphkit.backend.known import KNOWN_BACKENDS
from subgraphkit.backend.selection import NONE
from subgraphkit.cli.commands.config import described_settings
from subgraphkit.cli.commands.version import package_versions
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import Report
from subgraphkit.cli.tables import Table
from subgraphkit.errors import SubgraphkitError

__all__ = ["execute"]

_EXTENSIONS_GROUP: Final = "subgraphkit.plugins"  # from its own module it would bring NumPy along
_VARIABLES: Final = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_RIVALS: Final = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
_GPU: Final = Path("/dev/nvidia0")
_MARKS: Final = {"ok": "ok", "warning": "WARN", "failure": "FAIL"}


def execute(arguments: Namespace, report: Report) -> ExitCode:
    """Make every check and end with the numbered fixes."""
    environment = _environment()
    resolved, checks = _settings()
    checks += _packages()
    names = arguments.names or sorted({record.name for record in CATALOGUE.records()})
    for name in names:
        with report.doing(f"probing {name}"):
            found = probe_in_child(name, arguments.timeout, deep=arguments.deep)
        checks.append(_judged(found))
    if resolved is not None:
        checks += _fallback(resolved)
        checks += _of_extensions(resolved)
    fixes = list(dict.fromkeys(check.fix for check in checks if check.fix))
    report.data = {
        "environment": environment,
        "settings": described_settings(resolved) if resolved else [],
        "checks": [_described(check) for check in checks],
        "fixes": fixes,
    }
    _show(report, environment, resolved, checks, fixes)
    failed = any(check.status == "failure" for check in checks)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _environment() -> dict[str, Any]:
    return {
        "subgraphkit": __version__,
        "python": sys.version.split()[0],
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": package_versions(),
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
        fix = error.hint.replace("\n", "; ") or "Correct the setting."
        return None, [Check("settings", "failure", f"[{error.code}] {error.message}", fix)]


def _packages() -> Iterator[Check]:
    installed = {
        str(distribution.name).lower() for distribution in importlib.metadata.distributions()
    }
    rivals = [name for name in _RIVALS if name in installed]
    if len(rivals) > 1:
        yield Check(
            "packages",
            "warning",
            f"{' and '.join(rivals)} are both installed and overwrite each other's files",
            f"pip uninstall {' '.join(rivals)}, then install the one you want",
        )
    if _GPU.exists() and not CATALOGUE.find("tensorrt"):
        yield Check(
            "devices",
            "warning",
            "there is an NVIDIA GPU and no backend that uses it",
            KNOWN_BACKENDS["tensorrt"],
        )


def _judged(found: ChildProbe) -> Check:
    if found.state == "ok":
        versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        devices = ", ".join(found.devices) or "no device named"
        text = f"ready on {devices}; {versions or 'no versions named'} ({found.seconds:.1f} s)"
        return Check(f"backend {found.name}", "ok", text)
    message, *hints = found.text.splitlines() or [found.state]
    return Check(f"backend {found.name}", "failure", message, _fix(found, hints))


def _fix(found: ChildProbe, hints: Sequence[str]) -> str:
    """Choose the most useful remedy the messages name."""
    if found.missing:
        return "; ".join(found.missing)
    for hint in hints:
        words, _, remedy = hint.strip().partition(":")
        if remedy and words in {"Install it", "Missing", "Upgrade core", "Upgrade plugin"}:
            return remedy.strip()
    useful = [hint.strip() for hint in hints if not hint.strip().startswith(("Diagnose", "Entry"))]
    remedy = useful[0] if useful else f"Leave it out: SUBGRAPH_BLOCK={found.name}"
    return " ".join(remedy.split())  # the hints of messages are aligned in columns


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
    if not entry_points(group=_EXTENSIONS_GROUP):
        return []
    extensions = import_module("subgraphkit.backend.extensions")
    manager = extensions.ExtensionManager.from_config(resolved)
    answers: list[list[Check]] = manager.notify("subgraphkit_doctor")
    return [check for answer in answers for check in answer]


def _described(check: Check) -> dict[str, str]:
    return {"name": check.name, "status": check.status, "text": check.text, "fix": check.fix}


def _show(
    report: Report,
    environment: dict[str, Any],
    resolved: ResolvedConfig | None,
    checks: Sequence[Check],
    fixes: Sequence[str],
) -> None:
    facts = [(name, environment[name]) for name in ("subgraphkit", "python", "platform", "cpus")]
    facts += [*environment["packages"].items(), *environment["variables"].items()]
    report.show(Table.of("environment value", facts))
    if resolved is not None:
        said = [row for row in resolved.as_table() if row[2] != "default"]
        if said:
            report.show(Table.of("setting value layer location", said))
    rows = [(_MARKS[check.status], check.name, check.text) for check in checks]
    report.show(Table.of("result check finding", rows))
    if fixes:
        lines = [f"{number}. {fix}" for number, fix in enumerate(fixes, 1)]
        report.show("\n".join(["What to do:", *lines]))
