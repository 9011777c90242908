"""Arrays for the inputs of a model: from files where they are given, random where not."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.binding import BoundModel
from subgraphkit.binding.samples import Feed, samples
from subgraphkit.errors import CallerError
from subgraphkit.types import TensorType

__all__ = ["Feed", "make_feeds"]

_Array = npt.NDArray[Any]


def make_feeds(bound: BoundModel, files: Mapping[str, str], seed: int) -> dict[str, Feed]:
    """Read or make up an array for every input.

    A named dimension takes the size it has in a file; see ``samples`` for what is made up.

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
    given = {name: _read(name, Path(path)) for name, path in files.items() if name}
    given |= _archive(Path(files[""])) if "" in files else {}
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


def _read(name: str, path: Path) -> _Array:
    trouble = "it holds several arrays, expected one"
    try:
        array = np.load(path, allow_pickle=False)
        if isinstance(array, np.ndarray):
            return array
    except (OSError, ValueError, EOFError) as error:
        trouble = str(error)
    raise CallerError(
        "SGK301",
        f"the file {str(path)!r} for input {name!r} cannot be read: {trouble}",
        hint="Store an array with numpy.save(path, array).",
    )


def _archive(path: Path) -> dict[str, _Array]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise CallerError(
            "SGK301",
            f"the file {str(path)!r} with inputs cannot be read: {error}",
            hint="Store arrays with numpy.savez(path, **feeds), by input name.",
        ) from error


def _as_typed(array: _Array, type_: Any) -> _Array:
    """Name the element type again, where NumPy stores it as raw bytes."""
    named = array.dtype.kind == "V" and isinstance(type_, TensorType)
    return array.view(type_.dtype.numpy) if named else array
