"""Details of one backend, or of a bundle, from metadata; no plugin is imported."""

from pathlib import Path
from typing import Any

from subgraphkit.backend.options import Option
from subgraphkit.bundling import BundleFiles, is_bundle
from subgraphkit.cli.commands.list import describe_record
from subgraphkit.cli.reporting import CommandReport, ExitCode, exit_code_of, members
from subgraphkit.cli.tables import table
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.finding import messages
from subgraphkit.finding.catalogue import BackendRecord, list_backends, usable_names
from subgraphkit.texts import in_bytes

_ORIGIN = "the command line"
_COLUMNS = "option=name type default allowed environment help"


def show_details(name: str, report: CommandReport, *, options_alone: bool) -> ExitCode:
    """Show a backend's metadata, or a bundle; BackendNotFoundError (SGK101, SGK102) if neither."""
    records = [record for record in list_backends() if record.name == name]
    if not records and is_bundle(Path(name)):
        _show_bundle(Path(name), report)
        return ExitCode.OK
    if not records:
        raise _missing_error(name)
    report.data = {"backends": [_describe(record) for record in records]}
    status = ExitCode.OK
    for record in records:
        if not options_alone:
            report.show(table("what value", _facts(record)))
        _show_options(record, report)
        if record.error is not None:
            report.fail(record.error)
            status = exit_code_of(record.error)
    return status


def _show_bundle(folder: Path, report: CommandReport) -> None:
    manifest = BundleFiles(folder, trust=True).manifest
    report.data = {"bundle": manifest.to_dict()}
    facts = [("model", manifest.name), ("size", in_bytes(sum(f.size for f in manifest.files)))]
    facts += [(f"{name} version", version) for name, version in manifest.versions.items()]
    facts += [(f"dimension {name}", str(size)) for name, size in manifest.symbols.items()]
    for backend in manifest.backends:
        if backend.origin is not None:
            facts.append((f"{backend.name} made with", backend.origin.fingerprint))
            facts.append((f"{backend.name} made by", backend.origin.implementation))
            facts.append((f"{backend.name} made on", backend.origin.system))
        facts += [(f"{backend.name} {key}", str(value)) for key, value in backend.options.items()]
    report.show(table("what value", facts))
    rows = []
    for one in manifest.subgraphs:
        engine = in_bytes(one.engine.size) if one.engine else "none, compiled when opened"
        rows.append((one.id, one.backend, len(one.nodes), engine))
    report.show(table("subgraph backend nodes: engine", rows))


def _missing_error(name: str) -> Exception:
    if name in KNOWN_BACKENDS:
        return messages.missing(name, _ORIGIN, KNOWN_BACKENDS[name], usable_names())
    return messages.unknown(name, _ORIGIN, usable_names(), KNOWN_BACKENDS)


def _describe(record: BackendRecord) -> dict[str, Any]:
    manifest = record.manifest
    facts = describe_record(record)
    if manifest is not None:
        facts |= members(manifest, "priority homepage docs license")
        facts["requires"] = [need.module or need.library for need in manifest.requires]
    options = manifest.options if manifest else ()
    return facts | {"options": [_describe_option(record.name, option) for option in options]}


def _describe_option(backend: str, option: Option) -> dict[str, Any]:
    return {
        **members(option, "name default choices minimum maximum unit scope help"),
        "type": option.kind,
        "environment": option.env_name(backend),
    }


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


def _show_options(record: BackendRecord, report: CommandReport) -> None:
    if record.manifest is None or not record.manifest.options:
        what = "the manifest lists no options" if record.manifest else "there is no manifest"
        report.show(f"{what}; any that the class of backend {record.name!r} has are in its code")
        return
    rows = [
        {
            **_describe_option(record.name, option),
            "allowed": _allowed_values(option),
            "default": "-" if option.default is None else option.default,
        }
        for option in record.manifest.options
    ]
    report.show(table(_COLUMNS, rows, give="help allowed default"))


def _allowed_values(option: Option) -> str:
    if option.choices:
        return ", ".join(map(str, option.choices))
    if option.minimum is None and option.maximum is None:
        return "any"
    low = "" if option.minimum is None else f"{option.minimum} <= "
    high = "" if option.maximum is None else f" <= {option.maximum}"
    return f"{low}value{high} {option.unit}".strip()
