"""Write a new backend package from the template.

The template is a tree of text files. In them ``$word`` stands for what ``Names`` knows; the folder
``package`` becomes the package, and every file loses its last suffix, which keeps tools from taking
the template for Python.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Final, Self

from subgraphkit import __version__
from subgraphkit.backend.plugin_api import BACKEND_NAME, PLUGIN_API, RESERVED_NAMES
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.errors import CallerError

__all__ = ["Names", "write_package"]

_TEMPLATE: Final = Path(__file__).parent / "template"
_PACKAGE: Final = "package"


@dataclass(frozen=True, slots=True)
class Names:
    """The words that the template has gaps for.

    Attributes:
        name: The backend's name.
        distribution: Name of the distribution.
        package: Name of the package.
        backend_class: Name of the backend's class.
        property_class: Name of the property's class.
        selector_class: Name of the selector's class.
        operator_class: Name of the operator's class.
        api: Version of the plugin API.
        bounds: Versions of subgraphkit it works with.
    """

    name: str
    distribution: str
    package: str
    backend_class: str
    property_class: str
    selector_class: str
    operator_class: str
    api: str
    bounds: str

    @classmethod
    def of(cls, name: str) -> Self:
        """Derive all from the backend's name.

        Raises:
            CallerError: No new backend may be called that (SGK330).
        """
        problem = _objection(name)
        if problem:
            raise CallerError(
                "SGK330",
                f"a new backend cannot be called {name!r}: {problem}",
                hint="A name has up to 32 lower-case letters, digits and underscores, such as "
                "'acme_npu'.",
                name=name,
            )
        stem = "".join(part.capitalize() for part in name.split("_"))
        major, minor = (int(part) for part in __version__.split(".")[:2])
        return cls(
            name=name,
            distribution=f"subgraphkit-{name.replace('_', '-')}",
            package=f"subgraphkit_{name}",
            backend_class=f"{stem}Backend",
            property_class=f"{stem}Property",
            selector_class=f"{stem}Selector",
            operator_class=f"{stem}Operator",
            api=".".join(map(str, PLUGIN_API)),
            bounds=f">={major}.{minor},<{major}.{minor + 1}",
        )


def write_package(names: Names, folder: Path) -> list[Path]:
    """Write the package.

    Args:
        names: What to call everything.
        folder: Where; made if it does not exist.

    Returns:
        The files written, relative to ``folder``, sorted.

    Raises:
        CallerError: The folder holds something already, or cannot be written to (SGK331).
    """
    files = dict(_rendered(names))
    try:
        if folder.exists() and any(folder.iterdir()):
            raise _no_place(folder, "it is not empty")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _no_place(folder, error.strerror or str(error)) from error
    return sorted(files)


def _rendered(names: Names) -> Iterator[tuple[Path, str]]:
    words = asdict(names)
    for source in sorted(_TEMPLATE.rglob("*.txt")):
        path = source.relative_to(_TEMPLATE).with_suffix("")
        if path.parts[0] == _PACKAGE:
            path = Path(names.package, *path.parts[1:])
        yield path, Template(source.read_text(encoding="utf-8")).substitute(words)


def _objection(name: str) -> str:
    if BACKEND_NAME.fullmatch(name) is None:
        return "that is not the form of a backend's name"
    if name in RESERVED_NAMES:
        return "that word has a meaning of its own in a selection"
    if name in KNOWN_BACKENDS:
        return "subgraphkit publishes a backend of that name"
    return ""


def _no_place(folder: Path, problem: str) -> CallerError:
    return CallerError(
        "SGK331",
        f"a new backend cannot be written to {str(folder)!r}: {problem}",
        hint="Name another folder: subgraphkit new-backend NAME DIR.",
        folder=str(folder),
    )
