"""``author manifest``: the declaration of a backend's options, and the types made of it."""

import ast
from argparse import Namespace
from pathlib import Path

from subgraphkit.backend.manifest import (
    MANIFEST_FILE,
    OPTIONS_FILE,
    Manifest,
    find_manifest,
    read_manifest,
)
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.scaffolding.typed_options import WRITTEN, render_options
from subgraphkit.cli.words import Parser
from subgraphkit.errors import CallerError
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.texts import count_of


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    states, lines = {}, []
    for word in arguments.packages:
        folder = _folder_of(word)
        manifest, path = read_manifest(folder / MANIFEST_FILE), folder / OPTIONS_FILE
        states[word] = _state(manifest, path)
        if states[word] == "outdated" and arguments.action == "write":
            _write(path, render_options(manifest))
            states[word] = "written"
        options = count_of(len(manifest.options), "option")
        state = f"{options}, {OPTIONS_FILE} {states[word]}"
        lines.append(f"{folder}: backend {manifest.name!r}, {state}")
    report.data = {"packages": states}
    report.show("\n".join(lines))
    return ExitCode.CHECK_FAILED if "outdated" in states.values() else ExitCode.OK


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
    """Return the parts of a text that a formatter does not change."""
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
    text = f"options cannot be written to {str(path)!r}: {problem}"
    hint = "The name belongs to what is written from the manifest; move a file of yours away."
    return CallerError("SGK332", text, hint=hint, path=str(path))


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = ("author manifest write acme", "author manifest check src/subgraphkit_acme")
    purpose = "see whether the options were written from the manifest, or write them"
    parser.word("action ACTION", purpose, choices=("check", "write"))
    purpose = "an installed backend, or the folder of a package with a subgraphkit-backend.toml"
    parser.word("packages PACKAGE", purpose, nargs="+")


def _folder_of(word: str) -> Path:
    """Find the folder of a package; CallerError (SGK242) if it has no manifest."""
    folder = Path(word)
    records = CATALOGUE.find(word)
    if (folder / MANIFEST_FILE).exists() or not records:
        return folder
    if (found := find_manifest(records[0].entry_point.partition(":")[0])) is None:
        hint = f"Put a {MANIFEST_FILE} beside the __init__.py of its package."
        raise CallerError("SGK242", f"backend {word!r} has no manifest", hint=hint, backend=word)
    return found.parent
