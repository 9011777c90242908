"""``subgraphkit deploy cache``: list, check and remove the compiled engines that are kept."""

import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.option_values import read_bytes
from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, tolerance
from subgraphkit.compiling.caching.store import EngineStore, StoredEngine
from subgraphkit.configuration.config import resolve
from subgraphkit.storing.kept_files import forget_answers
from subgraphkit.texts import count_of, in_bytes

_SHOWN_OF_KEY: Final = 8
_SECONDS_PER_DAY: Final = 86_400
_BEING_WRITTEN: Final = 60.0
"""Seconds since its last change before which a file may belong to a process that writes it."""
_COLUMNS: Final = "key backend nodes: size:B last-used model"


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    given = (arguments.size, arguments.older_than, arguments.backend)
    if arguments.action != "prune" and any(value is not None for value in given):
        raise usage_error(
            f"--size, --older-than and --backend say what to prune, not what to {arguments.action}",
            hint="Help: subgraphkit deploy cache --help",
        )
    settings = resolve()
    store = EngineStore.open(settings.cache_dir)
    report.data = {"folder": str(store.folder), "limit": settings.cache_size}
    match arguments.action:
        case "ls":
            return _list(store, report)
        case "verify":
            return _verify(store, report)
        case "prune":
            return _prune(store, report, arguments)
        case _:
            return _clear(store, report, settings.cache_dir)


def _list(store: EngineStore, report: CommandReport) -> ExitCode:
    entries = store.entries()
    report.data["engines"] = [_describe(entry) for entry in entries]
    if entries:
        report.show(table(_COLUMNS, map(_row, reversed(entries)), give="model"))
    report.note(
        f"{_count_and_size(entries)} in {store.folder}, of {in_bytes(report.data['limit'])} at most"
    )
    return ExitCode.OK


def _verify(store: EngineStore, report: CommandReport) -> ExitCode:
    entries = store.entries(deep=True)
    damaged = [entry for entry in entries if entry.problem]
    report.data["checked"] = len(entries)
    report.data["damaged"] = [_describe(entry) for entry in damaged]
    if damaged:
        report.show(table("key problem", [(entry.digest, entry.problem) for entry in damaged]))
        report.note("A damaged engine is never used; it is compiled again when it is needed.")
    report.note(f"{count_of(len(damaged), 'damaged engine')} of {len(entries)} in {store.folder}")
    return ExitCode.CHECK_FAILED if damaged else ExitCode.OK


def _prune(store: EngineStore, report: CommandReport, arguments: Namespace) -> ExitCode:
    backend, days, size = arguments.backend, arguments.older_than, arguments.size
    store.remove_left_overs()
    entries = [one for one in store.entries() if backend is None or one.backend == backend]
    if backend is not None and days is None and size is None:
        size = 0
    elif days is None and size is None:
        size = report.data["limit"]
    unused_since = time.time() - days * _SECONDS_PER_DAY if days is not None else float("-inf")
    total = sum(entry.size for entry in entries)
    unwanted = []
    for entry in entries:
        if entry.last_used < unused_since or (size is not None and total > size):
            total -= entry.size
            unwanted.append(entry)
    return _remove(unwanted, store, report)


def _clear(store: EngineStore, report: CommandReport, cache_dir: Path | None) -> ExitCode:
    entries = store.entries()
    forgotten = forget_answers(cache_dir)
    report.data["facts_removed"] = forgotten
    if forgotten:
        report.note(f"removed {count_of(forgotten, 'stored measurement')}")
    status = _remove(entries, store, report)
    store.remove_left_overs(age=_BEING_WRITTEN)
    return status


def _remove(entries: Sequence[StoredEngine], store: EngineStore, report: CommandReport) -> ExitCode:
    for entry in entries:
        store.remove(entry.digest)
    report.data["removed"] = [_describe(entry) for entry in entries]
    report.note(f"removed {_count_and_size(entries)} from {store.folder}")
    return ExitCode.OK


def _count_and_size(entries: Sequence[StoredEngine]) -> str:
    return f"{count_of(len(entries), 'engine')}, {in_bytes(sum(entry.size for entry in entries))},"


def _describe(entry: StoredEngine) -> dict[str, Any]:
    """Return an entry for programs; a damaged one's own facts are not believed."""
    known = entry.description
    return {
        "key": entry.digest,
        "backend": entry.backend,
        "model": known.about.model if known else "",
        "nodes": known.about.node_count if known else None,
        "compile_seconds": known.about.seconds if known else None,
        "size": entry.size,
        "created": _iso(known.about.created) if known else None,
        "last_used": _iso(entry.last_used),
        "problem": entry.problem,
    }


def _row(entry: StoredEngine) -> tuple[object, ...]:
    used = datetime.fromtimestamp(entry.last_used).astimezone().strftime("%Y-%m-%d %H:%M")
    backend, nodes, about = "damaged", "", entry.problem
    if entry.description is not None:
        known = entry.description.about
        backend, nodes, about = entry.backend, str(known.node_count), known.model
    return entry.digest[:_SHOWN_OF_KEY], backend, nodes, entry.size, used, about


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = ("deploy cache ls", "deploy cache prune --size 4GiB --older-than 30")
    purpose = "list the engines, check every one, remove those least recently used, or all"
    parser.word("action ACTION", purpose, choices=("ls", "verify", "prune", "clear"))
    title = "what prune removes (default: down to the setting cache_size)"
    prune = parser.add_argument_group(title)
    purpose = "engines least recently used, until no more than this is left, such as 4GiB"
    parser.word("--size SIZE", purpose, _size, within=prune)
    parser.word("--older-than DAYS", "engines not used for so many days", tolerance, within=prune)
    parser.word("--backend NAME", "engines of this backend and no others", within=prune)


def _size(text: str) -> int:
    try:
        return read_bytes(text)
    except ValueError as error:
        raise ArgumentTypeError(f"expected {error}, got {text!r}") from None
