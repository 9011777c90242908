"""``subgraphkit manifest``: the typed options of a backend, written from its manifest."""

import ast
import json
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.manifest import MANIFEST_FILE, OPTIONS_FILE, Manifest, read_manifest
from subgraphkit.backend.options import Option
from subgraphkit.cli.command import Command
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.errors import CallerError
from subgraphkit.texts import counted

__all__ = ["COMMAND", "render_options"]

_WIDTH: Final = 100
_HEAD: Final = '"""Options of the backend as types'
"""Every file that this command has written begins so."""
_TYPES: Final = {
    "bytes": "int",
    "path": "Path",
    "list": "tuple[str, ...]",
    "shapes": "OptionShapes",
}
"""By kind of option, the type of its values where it is not called the same."""
_IMPORTS: Final = {
    "Path": "from pathlib import Path\n",
    "MappingProxyType(": "from types import MappingProxyType\n",
    "Literal[": "from typing import Literal\n",
    "OptionShapes": "\nfrom subgraphkit.backend import OptionShapes\n",
}
"""By a word in the types and defaults, what it needs."""


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Check manifests and what was written from them, or write that anew.

    Raises:
        BackendLoadError: A manifest is missing or malformed (SGK116).
        CallerError: A file cannot be written, or is somebody else's (SGK332).
    """
    states, lines = {}, []
    for folder in arguments.packages:
        manifest, path = read_manifest(folder / MANIFEST_FILE), folder / OPTIONS_FILE
        state = _state(manifest, path)
        if state == "outdated" and arguments.action == "write":
            _write(path, render_options(manifest))
            state = "written"
        states[str(folder)] = state
        options = counted(len(manifest.options), "option")
        lines.append(f"{folder}: backend {manifest.name!r}, {options}, {OPTIONS_FILE} {state}")
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
    """Return what a formatter leaves alone."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return text


def _write(path: Path, text: str) -> None:
    if path.exists() and not _text_of(path).startswith(_HEAD):
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


def render_options(manifest: Manifest) -> str:
    """Write the options of a manifest as a module with a frozen, typed class ``Options``."""
    name, options = manifest.name, manifest.options
    code = "".join(map(_declaration, options))
    factory = ", field" if "= field(" in code else ""
    imports = "".join(line for word, line in _IMPORTS.items() if word in code)
    title = f"{_HEAD}; `subgraphkit manifest write` writes them from the manifest."
    about = f"Options of backend {name!r}; `subgraphkit info {name} --options` says more."
    fields = "".join(_declaration(option) + _docstring(option) for option in options)
    text = (
        f'{title}"""\n\nfrom dataclasses import dataclass{factory}\n{imports}\n'
        '__all__ = ["Options"]\n\n\n@dataclass(frozen=True, slots=True, kw_only=True)\n'
        f'class Options:\n    """{about}"""\n\n{fields}'
    )
    return f"{text.rstrip()}\n"


def _declaration(option: Option) -> str:
    words = [_literal(choice) for choice in option.choices]
    has_words = bool(words) and not any(isinstance(one, float | Path) for one in option.choices)
    kind = f"Literal[{', '.join(words)}]" if has_words else _TYPES.get(option.kind, option.kind)
    if option.default is None:
        kind += " | None"
    default = _literal(option.default)
    if option.kind in {"path", "shapes"} and option.default is not None:
        default = f"field(default_factory=lambda: {default})"
    start = f"    {option.name}: "
    if len(f"{start}{kind} = {default}") <= _WIDTH:
        return f"{start}{kind} = {default}\n"
    if len(f"{start}{kind} = (") <= _WIDTH:
        return f"{start}{kind} = (\n        {default}\n    )\n"
    several = "".join(f"        {word},\n" for word in words)
    return f"{start}Literal[\n{several}    ]{' | None' * (option.default is None)} = {default}\n"


def _docstring(option: Option) -> str:
    unit = f"Unit: {option.unit}." if option.unit else "In bytes." * (option.kind == "bytes")
    text = f"{option.help} {unit}".strip().replace("\\", "\\\\").replace('"', '\\"')
    lines = textwrap.wrap(f'"""{text}', _WIDTH - 7, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines) + '"""\n', "    ") if text else ""


def _literal(value: Any) -> str:
    """Write a value as Python has it."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Path():
            own = value.relative_to(Path.home()) if value.is_relative_to(Path.home()) else None
            # what was ~ is the home of whoever reads it, not of whoever wrote it
            return f"Path({_literal(str(value))})" if own is None else f'Path.home() / "{own}"'
        case Mapping():
            items = (f"{_literal(key)}: {_literal(one)}" for key, one in value.items())
            return f"MappingProxyType({{{', '.join(items)}}})"
        case tuple():
            return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
        case _:
            return repr(value)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("check", "write"),
        help="check: read the manifest, and see whether the options were written from it; write: "
        "write them",
    )
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="+",
        type=Path,
        help="a folder with an __init__.py and a subgraphkit-backend.toml",
    )


COMMAND: Final = Command(
    examples=("manifest write src/acme", "manifest check src/acme"),
    add_arguments=_arguments,
    execute=_execute,
)
