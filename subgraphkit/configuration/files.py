"""Configuration files: which are read, and how a mistake in one is located.

The project's file is the nearest ``subgraphkit.toml``, or ``pyproject.toml`` with a table
``[tool.subgraphkit]``, from the working directory upward. The user's file is
``$XDG_CONFIG_HOME/subgraphkit/config.toml``; the project's file wins. ``SUBGRAPH_CONFIG`` names one
file to read instead of both, or is ``none``.

Your working directory may hold a ``subgraphkit.toml`` of anybody. It may choose backends and how
they work. It may not name code to load, nor trust more, unless ``trusted_folders`` has its folder.
Only your own file, the environment and the program set that list.
"""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from subgraphkit.configuration import messages
from subgraphkit.configuration.layers import Layer, make_layer
from subgraphkit.configuration.settings import SETTINGS, read_folders
from subgraphkit.errors import ConfigError, describe_exception

PROJECT_FILE: Final = "subgraphkit.toml"
_PYPROJECT: Final = "pyproject.toml"
_TABLE: Final = "tool.subgraphkit"
_LINE: Final = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")
_PLACE: Final = re.compile(r"\s*(?:\[\s*([\w\-.\"' ]+?)\s*\]|([\w\-.\"' ]+?)\s*=)")


def config_paths(environ: Mapping[str, str], working_directory: Path) -> list[tuple[str, Path]]:
    """Return files and layers, the winning first; ConfigError (SGK109) if one named is missing."""
    chosen = environ.get("SUBGRAPH_CONFIG", "").strip()
    if chosen.lower() == "none":
        return []
    if chosen:
        path = Path(chosen).expanduser()
        if not os.path.isfile(path):  # noqa: PTH113 (no name makes it raise)
            problem = "it does not exist (named by environment variable SUBGRAPH_CONFIG)"
            raise messages.bad_file(str(path), None, problem)
        return [("file", path)]
    paths = [("file", path) for path in _project_file(working_directory)]
    own = user_file(environ)
    return [*paths, ("user file", own)] if os.path.isfile(own) else paths  # noqa: PTH113 (as above)


def read_config_files(environ: Mapping[str, str], working_directory: Path) -> list[Layer]:
    """Read the files of ``config_paths``; a ConfigError names file and line."""
    paths = config_paths(environ, working_directory)
    layers = [read_config_file(path, layer) for layer, path in paths]
    if environ.get("SUBGRAPH_CONFIG", "").strip():  # then somebody has named it
        return layers
    return [
        replace(one, found_in=path.parent) if layer == "file" else one
        for one, (layer, path) in zip(layers, paths, strict=True)
    ]


def read_config_file(path: Path, layer: str = "file") -> Layer:
    """Read one configuration file, as ``read_config_files``."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise messages.bad_file(str(path), None, describe_exception(error)) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = f"byte 0x{error.object[error.start]:02x} is not UTF-8, which TOML is written in"
        raise messages.bad_file(str(path), line, problem) from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from error
    if path.name == _PYPROJECT:
        table = _tool_table(table) or {}
    _anchor(table, path.parent)

    def locate(key: str, value: object) -> str:
        line = _line_of(text, _path_to(key, value))
        where = f"{path}, line {line}" if line is not None else str(path)
        return f"{key}={value!r} in {where}" if key else f"the file {where}"

    return make_layer(layer, table, locate)


def _anchor(table: dict[str, Any], folder: Path) -> None:
    """Make the paths in a file relative to it, wherever the program was started."""
    for key in ("cache_dir", "model_root"):
        if isinstance(table.get(key), str):
            table[key] = str(folder / Path(table[key]).expanduser())
    selection = table.get("backend")
    if isinstance(selection, str) and (plan := selection.strip().partition("@"))[2] and not plan[0]:
        table["backend"] = f"@{folder / Path(plan[2].strip()).expanduser()}"
    for key in ("data_roots", "trusted_folders"):
        with contextlib.suppress(ValueError):  # raised again below, with the line
            table[key] = [str(folder / one) for one in read_folders(table.get(key))]


def _project_file(working_directory: Path) -> Iterator[Path]:
    folder = working_directory.resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            yield candidate / PROJECT_FILE
            return
        if _mentions_us(candidate / _PYPROJECT):
            yield candidate / _PYPROJECT
            return


def _mentions_us(path: Path) -> bool:
    # Looking at the text first keeps somebody else's malformed pyproject.toml from stopping a bind.
    try:
        content = path.read_bytes()
    except OSError:
        return False
    if _TABLE.encode() not in content:
        return False
    try:
        return _tool_table(tomllib.loads(content.decode("utf-8"))) is not None
    except UnicodeDecodeError:
        return False
    except tomllib.TOMLDecodeError:
        return True


def _tool_table(pyproject: Mapping[str, Any]) -> dict[str, Any] | None:
    tool = pyproject.get("tool")
    table = tool.get("subgraphkit") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the place of the user's own file, which need not be there."""
    return _user_folder(environ) / "subgraphkit" / "config.toml"


def _user_folder(environ: Mapping[str, str]) -> Path:
    for variable in ("XDG_CONFIG_HOME", "APPDATA"):
        if environ.get(variable):
            return Path(environ[variable])
    return Path(environ["HOME"]) / ".config" if environ.get("HOME") else Path.home() / ".config"


def _syntax_error(path: Path, text: str, problem: str) -> ConfigError:
    match = _LINE.search(problem)
    line = int(match[1]) if match is not None and match[1] else text.count("\n") + 1
    return messages.bad_file(str(path), line, _LINE.sub("", problem))


def _path_to(key: str, value: object) -> tuple[str, ...]:
    """Return the keys that lead to a setting, to one option, or to the unknown key ``value``."""
    path = [key or str(value)]
    while isinstance(value, Mapping) and len(value) == 1:
        ((inner, value),) = value.items()
        path.append(str(inner))
    return tuple(path)


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Find the line that sets ``path``, or comes nearest to it; the parser keeps no positions."""
    best: tuple[int, int | None] = (0, None)
    for number, place in _places(text):
        shared = len(path) if place[: len(path)] == path else 0
        if path[: len(place)] == place:  # an inline table, or the heading of a table
            shared = len(place)
        if shared > best[0]:
            best = shared, number
    return best[1]


def _places(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines that open a table or set a key, each with all the keys that lead there."""
    prefix = tuple(_TABLE.split("."))
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _PLACE.match(line)) is None:
            continue
        keys = tuple(key.strip().strip("\"'") for key in (match[1] or match[2]).split("."))
        table, place = (keys, keys) if match[1] else (table, (*table, *keys))
        yield number, place[len(prefix) :] if place[: len(prefix)] == prefix else place


def unvouched_folder(layers: Sequence[Layer], trusted: Sequence[Path]) -> Path | None:
    """Return the folder of the file that was found, if nobody vouches for it."""
    for layer in layers:
        if layer.found_in is not None:
            parts = Path(os.path.realpath(layer.found_in)).parts
            known = [Path(os.path.realpath(folder)).parts for folder in trusted]
            return None if any(parts[: len(one)] == one for one in known) else layer.found_in
    return None


def require_trust(layers: Sequence[Layer], values: Mapping[str, Any]) -> Path | None:
    """Refuse a found file whose value holds and widens trust (ConfigError, SGK126)."""
    others = [one for one in layers if one.found_in is None]
    said = next(one for one in others if "trusted_folders" in one.values)
    folder = unvouched_folder(layers, said.values["trusted_folders"].value)
    if folder is None:
        return None
    for name, setting in SETTINGS.items():
        first, *below = [one for one in layers if name in one.values]
        if first.found_in is None or setting.widens is None:
            continue
        if setting.widens(values[name], below[0].values[name].value):
            raise untrusted_setting(first.values[name].location, folder)
    return folder


def untrusted_setting(location: str, folder: Path) -> ConfigError:
    """Word that a file that nobody vouches for has a forbidden setting (SGK126)."""
    return messages.untrusted_file(location, str(folder), str(user_file(os.environ)))
