"""``author manifest``: the declaration of a backend's options, and the types made of it."""

import ast
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.contract import option_class_of
from subgraphkit.backend.manifest import MANIFEST_FILE, OPTIONS_FILE, Manifest, read_manifest
from subgraphkit.backend.options import PlainOptions
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.scaffolding.typed_options import (
    WRITTEN,
    manifest_text,
    option_table,
    render_options,
)
from subgraphkit.errors import CallerError, SubgraphkitError
from subgraphkit.finding.catalogue import CATALOGUE, BackendRecord
from subgraphkit.finding.registry import load_record
from subgraphkit.texts import counted


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    states, lines = {}, []
    for word in arguments.packages:
        folder = folder_of(word)
        # A folder whose options are typed is not imported: nobody asked about the class.
        is_typed = (folder / OPTIONS_FILE).exists() and Path(word) == folder
        lacking, to_do = ("", []) if is_typed else _beside(folder)
        if lacking and arguments.action == "write":
            _append(folder / MANIFEST_FILE, lacking)
        if lacking and arguments.action == "check":
            to_do = [f"These are missing in {folder / MANIFEST_FILE}:\n\n{lacking}", *to_do]
            states[word] = "outdated"
        else:
            manifest, path = read_manifest(folder / MANIFEST_FILE), folder / OPTIONS_FILE
            states[word] = _state(manifest, path)
            if states[word] == "outdated" and arguments.action == "write":
                _write(path, render_options(manifest))
                states[word] = "written"
            options = counted(len(manifest.options), "option")
            state = f"{options}, {OPTIONS_FILE} {states[word]}"
            lines.append(f"{folder}: backend {manifest.name!r}, {state}")
        lines += to_do
    report.data = {"packages": states}
    report.show("\n".join(lines))
    return ExitCode.CHECK_FAILED if "outdated" in states.values() else ExitCode.OK


def _beside(folder: Path) -> tuple[str, list[str]]:
    """Look for what a class declares and its manifest does not."""
    record = record_of(folder)
    backend: Any = None
    if record is not None:
        with suppress(SubgraphkitError):  # it has to say so itself where it is used
            backend = load_record(record)
    if backend is None:
        return "", []
    path = folder / MANIFEST_FILE
    manifest = read_manifest(path) if path.exists() else None
    listed = {option.name for option in manifest.options} if manifest else set()
    tables = [option_table(one) for one in backend.options if one.name not in listed]
    head = [] if manifest else [manifest_text(backend)]
    return "\n".join([*head, *tables]), list(_to_change(backend, folder))


def _to_change(backend: Any, folder: Path) -> Iterator[str]:
    name = getattr(backend, "__qualname__", "")  # a namespace of hooks has none
    if name and backend.options and option_class_of(backend) is PlainOptions:
        yield (
            f"In class {name}, replace `options = ...` by the types of those of the manifest:\n"
            f"  from {folder.name}.{OPTIONS_FILE.removesuffix('.py')} import Options\n"
            f"  class {name}(sk.Backend[Options]):"
        )


def _append(path: Path, text: str) -> None:
    before = _text_of(path).rstrip() if path.exists() else ""
    try:
        path.write_text(f"{before}\n\n{text}".lstrip(), encoding="utf-8")
    except OSError as error:
        raise _no_place(path, error.strerror or str(error)) from error


def _state(manifest: Manifest, path: Path) -> str:
    if not manifest.options and not path.exists():
        return "not needed"
    if not path.exists():
        return "outdated"
    return "current" if _gist(_text_of(path)) == _gist(render_options(manifest)) else "outdated"


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _no_place(path, str(error)) from error


def _gist(text: str) -> str:
    """Return what a formatter leaves alone."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return text


def _write(path: Path, text: str) -> None:
    if path.exists() and not _text_of(path).startswith(WRITTEN):
        raise _no_place(path, "this command did not write the file that is there")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _no_place(path, error.strerror or str(error)) from error


def _no_place(path: Path, problem: str) -> CallerError:
    return CallerError(
        "SGK332",
        f"options cannot be written to {str(path)!r}: {problem}",
        hint="The name belongs to what is written from the manifest; move a file of yours away.",
        path=str(path),
    )


def _arguments(parser: Parser) -> None:
    parser.examples = ("author manifest write acme", "author manifest check src/subgraphkit_acme")
    parser.word(
        "action ACTION",
        "check: read the manifest, and see whether the options were written from it; write: "
        "write them, and add to the manifest what the class alone declares",
        choices=("check", "write"),
    )
    parser.word(
        "packages PACKAGE",
        "a backend that is installed, or a folder with an __init__.py and a "
        "subgraphkit-backend.toml",
        nargs="+",
    )


def folder_of(word: str) -> Path:
    """Find the folder of a package.

    Raises:
        CallerError: The backend of that name is in no folder (SGK242).
    """
    folder = Path(word)
    if (folder / MANIFEST_FILE).exists() or (folder / "__init__.py").exists():
        return folder
    records = CATALOGUE.find(word)
    found = next(filter(None, map(_folder, records)), None)
    if records and found is None:
        raise CallerError(
            "SGK242",
            f"the package of backend {word!r} is in no folder",
            hint="A backend has files of its own where it is installed as a package, such as by "
            "pip install -e.",
            backend=word,
        )
    return found or folder


def record_of(folder: Path) -> BackendRecord | None:
    """Find the installed backend whose package is in a folder, if there is one."""
    here = folder.resolve()
    return next((one for one in CATALOGUE.records() if _folder(one) == here), None)


def _folder(record: BackendRecord) -> Path | None:
    package = record.entry_point.partition(":")[0].partition(".")[0]
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]).resolve() if places else None


COMMAND: Final = Command(_arguments, _execute)
