"""``subgraphkit list``: the backends, or one of them, from metadata; no plugin is imported."""

from argparse import Namespace
from importlib import import_module
from typing import Any

from subgraphkit.backend.plugin_api import api_text
from subgraphkit.cli.reporting import CommandReport, ExitCode, members
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser
from subgraphkit.configuration.names import BACKEND_NAMES, KNOWN_BACKENDS
from subgraphkit.finding.catalogue import BackendRecord, list_backends
from subgraphkit.texts import cut_word, printable


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    if arguments.name is not None:
        show = import_module("subgraphkit.cli.details").show_details
        return ExitCode(show(arguments.name, report, options_alone=arguments.options))
    records = list_backends(all=arguments.all)
    unreadable = BACKEND_NAMES.unreadable()
    report.data = {
        "backends": [describe_record(record) for record in records],
        "unreadable": [{"code": one.code, "problem": one.message} for one in unreadable],
    }
    for one in unreadable:
        report.note(f"warning: {one}")
    if records:
        report.show(table("name state version devices summary", map(_row, records)))
    else:
        report.note("No backend is installed. 'subgraphkit list --all' shows where to get some.")
    return ExitCode.OK


def describe_record(record: BackendRecord) -> dict[str, Any]:
    """Return the facts on a backend, for programs."""
    manifest = record.manifest
    return {
        **members(record, "name state distribution version entry_point"),
        "api": api_text(manifest.api) if manifest else None,
        "devices": list(manifest.devices) if manifest else [],
        "summary": manifest.summary if manifest else "",
        "problem": record.error.message if record.error else "",
        "code": record.error.code if record.error else "",
        "install": KNOWN_BACKENDS.get(record.name, "") if record.state == "missing" else "",
    }


def _row(record: BackendRecord) -> tuple[str, ...]:
    devices = ",".join(record.manifest.devices) if record.manifest else ""
    return _name(record), record.state, record.version or "-", devices or "-", _remark(record)


def _name(record: BackendRecord) -> str:
    return cut_word(printable(record.name), 64)  # an entry point may be called anything


def _remark(record: BackendRecord) -> str:
    if record.state == "missing":
        return KNOWN_BACKENDS[record.name]
    if record.error is not None:
        place = f"@{record.distribution}" if record.state == "conflict" else ""
        return f"{record.error.message}  ->  subgraphkit doctor {_name(record)}{place}"
    return record.manifest.summary if record.manifest else ""


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = ("list", "list --all --json", "list tensorrt --options")
    parser.word("name NAME", "a backend, or a bundle, to show all of", nargs="?")
    parser.word("--all", "list backends that are not installed, too")
    parser.word("--options", "of a backend, show its options only")
