"""Write a new backend package from the template.

The template is a tree of text files. In them ``_words`` gives the text for ``$word``, and the
folder ``package`` becomes the package. Every file loses its last suffix, so that tools do not take
the template for Python.
"""

from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Final

from subgraphkit import __version__
from subgraphkit.backend.manifest import MANIFEST_FILE, OPTIONS_FILE, parse_manifest
from subgraphkit.backend.plugin_api import BACKEND_NAME, PLUGIN_API, RESERVED_NAMES
from subgraphkit.cli.scaffolding.typed_options import render_options
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.errors import CallerError

_TEMPLATE: Final = Path(__file__).parent / "template"
_PACKAGE: Final = "package"


def distribution_of(name: str) -> str:
    """Return the name of a backend's distribution."""
    return f"subgraphkit-{name.replace('_', '-')}"


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a new backend's package; CallerError for its name (SGK330) or folder (SGK331)."""
    if problem := _objection(name):
        text = f"a new backend cannot be called {name!r}: {problem}"
        letters = "lower-case letters, digits and underscores, such as 'acme_npu'"
        raise CallerError("SGK330", text, hint=f"A name has up to 32 {letters}.", name=name)
    files = dict(_render_files(name))
    try:
        if folder.exists() and any(folder.iterdir()):
            raise _no_place(folder, "it is not empty")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _no_place(folder, error.strerror or str(error)) from error
    return sorted(files)


def _words(name: str) -> dict[str, str]:
    """Return the texts for the gaps of the template, by word."""
    stem = "".join(part.capitalize() for part in name.split("_"))
    major, minor = (int(part) for part in __version__.split(".")[:2])
    return {
        "name": name,
        "upper": name.upper(),
        "stem": stem,
        "distribution": distribution_of(name),
        "package": f"subgraphkit_{name}",
        "api": ".".join(map(str, PLUGIN_API)),
        "bounds": f">={major}.{minor},<{major}.{minor + 1}",
    }


def _render_files(name: str) -> Iterator[tuple[Path, str]]:
    words = _words(name)
    for source in sorted(_TEMPLATE.rglob("*.txt")):
        path = source.relative_to(_TEMPLATE).with_suffix("")
        if path.parts[0] == _PACKAGE:
            path = Path(words["package"], *path.parts[1:])
        text = Template(source.read_text(encoding="utf-8")).substitute(words)
        yield path, text
        if path.name == MANIFEST_FILE:
            yield path.with_name(OPTIONS_FILE), render_options(parse_manifest(text))


def _objection(name: str) -> str:
    if BACKEND_NAME.fullmatch(name) is None:
        return "that is not the form of a backend's name"
    if name in RESERVED_NAMES:
        return "that word has a meaning of its own in a selection"
    if name in KNOWN_BACKENDS:
        return "subgraphkit publishes a backend of that name"
    return ""


def _no_place(folder: Path, problem: str) -> CallerError:
    text = f"a new backend cannot be written to {str(folder)!r}: {problem}"
    hint = "Name another folder: subgraphkit author new-backend NAME DIR."
    return CallerError("SGK331", text, hint=hint, folder=str(folder))
