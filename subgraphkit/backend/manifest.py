"""The manifest of a backend: the facts on a plugin without an import of it.

``subgraphkit-backend.toml`` lies beside the ``__init__.py`` of the plugin's top-level package.
``importlib.util.find_spec`` finds it by the name of that package and imports nothing. It works for
editable installs too, whose ``Distribution.files`` does not list it.

Source: npe2 and spatch for static manifests; the JAX plugin crashes (jax#24901) for comparing
versions before importing.
"""

import importlib.util
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import messages
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.backend.options import Option
from subgraphkit.backend.plugin_api import BACKEND_NAME, parse_api
from subgraphkit.errors import OptionError, describe_exception

MANIFEST_FILE: Final = "subgraphkit-backend.toml"

OPTIONS_FILE: Final = "backend_options.py"
"""Name of the module beside it whose class ``Options`` is written from it."""

_TEXTS: Final = frozenset({"summary", "homepage", "docs", "license"})
_KEYS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("name", "api", *_TEXTS), str),
    "priority": int,
    "devices": list,
    "requires": list,
    "options": dict,
}
"""The keys of a manifest with the types of their values; those of its tables are below."""

_REQUIREMENT_KEYS: Final[Mapping[str, type]] = dict.fromkeys(
    ("module", "min", "pip", "library", "hint"), str
)
_OPTION_KEYS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("type", "help", "unit", "expected"), str),
    **dict.fromkeys(("cache", "needs_trust"), bool),
    **dict.fromkeys(("default", "min", "max", "scope"), object),  # which Option checks
    "choices": list,
    "elsewhere": dict,
}
_ATTRIBUTES: Final = {"min": "minimum", "max": "maximum"}
"""Attributes of an option or a requirement that are not called as their keys are."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something a backend needs besides Python packages that pip installs with it.

    Attributes:
        module: Top-level Python module, or an empty string.
        minimum: Smallest version of the module's distribution, or an empty string.
        pip: What to give to ``pip install`` to get the module.
        library: Shared library, by the name the loader knows, or an empty string.
        hint: What to do if it is missing.
    """

    module: str = ""
    minimum: str = ""
    pip: str = ""
    library: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The declaration of a plugin about its backend.

    Attributes:
        name: Name of the backend.
        api: The newest plugin API it uses, as (major, minor).
        summary: One sentence.
        priority: Used by ``auto`` only; larger is earlier, ties break by name.
        devices: Kinds of devices it runs on.
        homepage: Address of the project.
        docs: Address of the documentation.
        license: SPDX expression.
        requires: What it needs besides its Python dependencies.
        options: The options it understands.
    """

    name: str
    api: tuple[int, int]
    summary: str = ""
    priority: int = 0
    devices: tuple[str, ...] = ()
    homepage: str = ""
    docs: str = ""
    license: str = ""
    requires: tuple[Requirement, ...] = ()
    options: tuple[Option, ...] = ()


def find_manifest(module: str) -> Path | None:
    """Find the manifest of the package of a module, importing nothing; None if there is none."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None or spec.submodule_search_locations is None:
        return None
    for folder in spec.submodule_search_locations:
        path = Path(folder) / MANIFEST_FILE
        if path.is_file():
            return path
    return None


def read_manifest(path: Path, backend: str = "") -> Manifest:
    """Read the manifest of a backend; a file that has not changed since is not read again.

    Args:
        path: The file.
        backend: The name under which the backend is registered; any if not given.

    Raises:
        BackendLoadError: If the file cannot be read, is malformed, or names another backend
            (SGK116).
    """

    def read() -> Manifest:
        state = path.stat()
        return _parse_file(path, state.st_mtime_ns, state.st_size)

    return _read(read, backend, str(path))


@lru_cache(maxsize=64)
def _parse_file(path: Path, *_state: int) -> Manifest:
    return _parse(path.read_text(encoding="utf-8"))


def parse_manifest(text: str, backend: str = "", *, source: str = MANIFEST_FILE) -> Manifest:
    """Read the text of a manifest.

    Args:
        text: TOML.
        backend: The name under which the backend is registered; any if not given.
        source: Where the text comes from, for messages.

    Raises:
        BackendLoadError: If the text is malformed, or names another backend (SGK116).
    """
    return _read(lambda: _parse(text), backend, source)


def _parse(text: str) -> Manifest:
    found = _check_table(tomllib.loads(text), _KEYS, required=("name", "api"))
    name, api = found["name"], found["api"]
    if BACKEND_NAME.fullmatch(name) is None:
        raise _MalformedError(f"name = {name!r} is not a lower-case identifier of 1 to 32 letters")
    try:
        version = parse_api(api)
    except ValueError:
        raise _MalformedError(f'api = {api!r}, expected "MAJOR.MINOR"') from None
    requires = [
        Requirement(**_check_table(one, _REQUIREMENT_KEYS, f"requires[{at}]."))
        for at, one in enumerate(found.get("requires", ()))
    ]
    for at, one in enumerate(requires):
        if bool(one.module) == bool(one.library):
            raise _MalformedError(f"requires[{at}] needs either a module or a library")
    options = [
        Option(one, **_check_table(given, _OPTION_KEYS, f"options.{one}.", required=("type",)))
        for one, given in found.get("options", {}).items()
    ]
    lists = {"devices": found.get("devices", ()), "requires": requires, "options": options}
    tuples = {key: tuple(values) for key, values in lists.items()}
    return Manifest(**{**found, "api": version, **tuples})


def _check_table(
    table: Any, keys: Mapping[str, Any], where: str = "", required: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a table, with attributes for keys, whose values are of the types of the keys."""
    if not isinstance(table, dict):
        raise _MalformedError(f"{where.rstrip('.')} = {table!r}, expected a table")
    for key in required:
        if key not in table:
            raise _MalformedError(f"{where}{key} is missing")
    for key, value in table.items():
        if (kind := keys.get(key)) is None:
            guess = did_you_mean(key, keys)
            raise _MalformedError(f"{where}{key} is not a key of a manifest{guess}")
        # TOML has booleans, and Python counts them as integers
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise _MalformedError(f"{where}{key} = {value!r} has the wrong type")
        texts = value.values() if key == "elsewhere" else value if key == "devices" else ()
        if not all(isinstance(one, str) for one in texts):
            raise _MalformedError(f"{where}{key} = {value!r}, expected texts")
    return {str(_ATTRIBUTES.get(key, key)): value for key, value in table.items()}


def _read(read: Callable[[], Manifest], backend: str, source: str) -> Manifest:
    try:
        manifest = read()
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise messages.bad_manifest(backend, source, describe_exception(error)) from error
    except (tomllib.TOMLDecodeError, _MalformedError, OptionError) as error:
        problem = error.message if isinstance(error, OptionError) else str(error)
        raise messages.bad_manifest(backend, source, problem) from error
    if backend and manifest.name != backend:
        problem = f"it names backend {manifest.name!r}, but the entry point is called {backend!r}"
        raise messages.bad_manifest(backend, source, problem)
    return manifest


@cache
def options_of(declared: type) -> tuple[Option, ...]:
    """Return the options in the manifest that a class ``Options`` was written from.

    Args:
        declared: The class, of the package that the manifest lies in.

    Raises:
        BackendLoadError: The package has no manifest that can be read, or one with other options
            than the class has (SGK116).
    """
    package = declared.__module__.partition(".")[0]
    if (path := find_manifest(declared.__module__)) is None:
        raise messages.bad_manifest(package, f"{package}/{MANIFEST_FILE}", "there is no such file")
    manifest = read_manifest(path)
    held = [one.name for one in fields(declared)] if is_dataclass(declared) else []
    if set(held) != {option.name for option in manifest.options}:
        problem = (
            f"{declared.__module__}.{declared.__qualname__} was not written from it as it is: "
            f"subgraphkit author manifest write {path.parent}"
        )
        raise messages.bad_manifest(manifest.name, str(path), problem)
    return manifest.options


class _MalformedError(ValueError):
    """The manifest breaks its schema; the text says where."""
