"""``subgraphkit info``: what a backend says about itself in its manifest; it is not imported."""

from argparse import Namespace
from typing import Any

from subgraphkit.backend import messages
from subgraphkit.backend.discovery import BackendRecord
from subgraphkit.backend.known import KNOWN_BACKENDS
from subgraphkit.backend.listing import list_backends, usable_names
from subgraphkit.backend.options import Option
from subgraphkit.cli.commands.list import describe_record
from subgraphkit.cli.exits import ExitCode, exit_code_of
from subgraphkit.cli.reporting import Report
from subgraphkit.cli.tables import Table

__all__ = ["execute"]

_ORIGIN = "the command line"


def execute(arguments: Namespace, report: Report) -> ExitCode:
    """Show the facts and the options of a backend, and what stands in its way."""
    records = [record for record in list_backends() if record.name == arguments.name]
    if not records:
        raise _not_installed(arguments.name)
    report.data = {"backends": [_described(record) for record in records]}
    status = ExitCode.OK
    for record in records:
        if not arguments.options:
            report.show(Table.of("what value", _facts(record)))
        _show_options(record, report)
        if record.error is not None:
            report.fail(record.error)
            status = exit_code_of(record.error)
    return status


def _not_installed(name: str) -> Exception:
    if name in KNOWN_BACKENDS:
        return messages.missing(name, _ORIGIN, KNOWN_BACKENDS[name], usable_names())
    return messages.unknown(name, _ORIGIN, usable_names(), KNOWN_BACKENDS)


def _described(record: BackendRecord) -> dict[str, Any]:
    manifest = record.manifest
    facts = describe_record(record)
    if manifest is not None:
        facts |= {
            "priority": manifest.priority,
            "homepage": manifest.homepage,
            "docs": manifest.docs,
            "license": manifest.license,
            "requires": [
                requirement.module or requirement.library for requirement in manifest.requires
            ],
        }
    options = manifest.options if manifest else ()
    return facts | {"options": [_described_option(record.name, option) for option in options]}


def _described_option(backend: str, option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.kind,
        "default": _plain(option.default),
        "choices": [_plain(choice) for choice in option.choices],
        "minimum": option.minimum,
        "maximum": option.maximum,
        "unit": option.unit,
        "scope": option.scope,
        "environment": option.env_name(backend),
        "help": option.help,
    }


def _plain(value: object) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _facts(record: BackendRecord) -> list[tuple[str, str]]:
    facts = describe_record(record)
    rows = [(name, facts[name]) for name in ("name", "state", "version", "distribution")]
    if record.manifest is None:
        return [*rows, ("manifest", "none; 'subgraphkit doctor' loads the backend and asks it")]
    manifest = record.manifest
    rows += [
        ("plugin API", facts["api"]),
        ("devices", ", ".join(manifest.devices)),
        ("needs", ", ".join(need.module or need.library for need in manifest.requires)),
        ("summary", manifest.summary),
        ("licence", manifest.license),
        ("documentation", manifest.docs or manifest.homepage),
    ]
    return [(name, value) for name, value in rows if value]


def _show_options(record: BackendRecord, report: Report) -> None:
    if record.manifest is None:
        return
    if not record.manifest.options:
        report.show(f"backend {record.name!r} has no options")
        return
    rows = [
        (
            option.name,
            option.kind,
            "-" if option.default is None else option.default,
            _allowed(option),
            option.env_name(record.name),
            option.help,
        )
        for option in record.manifest.options
    ]
    report.show(Table.of("option type default allowed environment help", rows))


def _allowed(option: Option) -> str:
    if option.choices:
        return ", ".join(map(str, option.choices))
    if option.minimum is None and option.maximum is None:
        return "any"
    low = "" if option.minimum is None else f"{option.minimum} <= "
    high = "" if option.maximum is None else f" <= {option.maximum}"
    return f"{low}value{high} {option.unit}".strip()
