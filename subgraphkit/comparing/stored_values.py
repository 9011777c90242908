"""Values in a folder, so that one process can hand them to another.

Tensors are ``.npy`` files; text, kinds and element types that NumPy cannot name are in an index.
Inputs of a command are read from files, or made up.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.binding import BoundModel
from subgraphkit.binding.samples import Feed, samples
from subgraphkit.errors import CallerError
from subgraphkit.processes.shared_area import describe_value, rebuild_value
from subgraphkit.types import DataType, TensorType

_INDEX: Final = "index.json"
_Array = npt.NDArray[Any]


def store_values(values: Mapping[str, Any], folder: Path) -> None:
    """Store values by name in a new folder; CallerError (SGK141) for a type ONNX does not have."""
    folder.mkdir()
    numbers = count()

    def keep(name: str, array: _Array) -> list[str]:
        try:
            dtype = DataType.of(array.dtype)
        except KeyError:
            raise CallerError(
                "SGK141", f"value {name!r} has dtype {array.dtype}, which ONNX does not have"
            ) from None
        file = f"{next(numbers)}.npy"
        np.save(folder / file, array, allow_pickle=False)
        return [file, dtype.name]

    entries = {name: describe_value(value, partial(keep, name)) for name, value in values.items()}
    (folder / _INDEX).write_text(json.dumps(entries), encoding="utf-8")


def restore_values(folder: Path) -> dict[str, Any]:
    """Read the files of ``store_values``."""

    def restore(file: str, kind: str) -> Any:
        array, dtype = np.load(folder / file, allow_pickle=False), DataType[kind].numpy
        # NumPy stores the types of ml_dtypes as raw bytes
        return array if array.dtype == dtype else array.view(dtype)

    entries = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    return {name: rebuild_value(entry, restore) for name, entry in entries.items()}


def store_npz(values: Mapping[str, Any], path: Path) -> None:
    """Store the tensors among values in one ``.npz``; names may be anything, also ``file``.

    An element of the sequence ``y`` is stored as ``y[0]``.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in _flatten(values):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, _Array]]:
    for name, value in values.items():
        if isinstance(value, list):
            yield from _flatten({f"{name}[{at}]": element for at, element in enumerate(value)})
        elif value is not None:
            array = np.asarray(value)
            yield name, array.astype(np.str_) if array.dtype == object else array


__all__ = ["Feed", "make_feeds"]


def random_feeds(bound: BoundModel) -> dict[str, Any]:
    """Return seeded random arrays for every input, by name.

    Raises:
        CallerError: An input cannot be made up (SGK197).
    """
    return {name: feed.array for name, feed in make_feeds(bound, {}, 0).items()}


def make_feeds(bound: BoundModel, files: Mapping[str, str], seed: int) -> dict[str, Feed]:
    """Read or make up an array for every input.

    A named dimension takes the size it has in a file; ``samples`` makes up the others.

    Args:
        bound: The bound graph.
        files: Paths of ``.npy`` files by input name; under ``""`` that of an ``.npz`` file, which
            has arrays by input name.
        seed: Seed of the random numbers.

    Raises:
        CallerError: There is no such input, or a file cannot be read (SGK301); an input cannot be
            made up (SGK197).
    """
    known = (*bound.inputs, *bound.defaults)
    given: dict[str, _Array] = _read(files[""], "") if "" in files else {}
    given |= {name: _read(path, name) for name, path in files.items() if name}
    for name in given:
        if name not in known:
            guess = did_you_mean(name, known)
            raise CallerError(
                "SGK301",
                f"--input names {name!r}, which is not an input of the model{guess}",
                hint=f"Inputs: {', '.join(known) or 'none'}",
            )
    given = {name: _as_typed(array, bound.types.get(name)) for name, array in given.items()}
    shapes = {name: array.shape for name, array in given.items()}
    feeds = samples(bound, shapes, {}, {}, seed)
    for name, array in given.items():
        feeds[name] = Feed(array, files.get(name, files.get("", "")))
    return {name: feeds[name] for name in known if name in feeds}


def load_arrays(path: Path) -> _Array | dict[str, _Array]:
    """Read an array, or several by name; OSError or ValueError if the file cannot be read."""
    try:
        with path.open("rb") as opened:  # NumPy leaves it open if it is damaged
            stored = np.load(opened, allow_pickle=False)
            return stored if isinstance(stored, np.ndarray) else dict(stored)
    except (EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


def _read(path: str, name: str) -> Any:
    """Read the array of an input, or where it has no name, those of several."""
    trouble = "it holds several arrays, expected one" if name else "it holds one array"
    try:
        found = load_arrays(Path(path))
        if isinstance(found, np.ndarray if name else dict):
            return found
    except (OSError, ValueError) as error:
        trouble = str(error)
    what = f"for input {name!r}" if name else "with inputs"
    one, several = "an array with numpy.save(path, array)", "arrays with numpy.savez(path, **feeds)"
    hint = f"Store {one}." if name else f"Store {several}, by input name."
    problem = f"the file {path!r} {what} cannot be read: {trouble}"
    raise CallerError("SGK301", problem, hint=hint)


def _as_typed(array: _Array, type_: Any) -> _Array:
    """Name the element type again, where NumPy stores it as raw bytes."""
    named = array.dtype.kind == "V" and isinstance(type_, TensorType)
    return array.view(type_.dtype.numpy) if named else array
