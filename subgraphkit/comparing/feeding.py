"""Arrays for the inputs of a model: from files where they are given, random where not."""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.sizing import choose_sizes, filled
from subgraphkit.errors import CallerError
from subgraphkit.ir import BoundGraph
from subgraphkit.types import DataType, TensorType, slot

__all__ = ["Feed", "make_feeds"]

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """One input.

    Attributes:
        array: What is fed.
        source: The file, or ``"random"``.
        assumed: Sizes of dimensions that nobody gave; by name, or as ``x[2]``.
    """

    array: _Array
    source: str
    assumed: Mapping[str, int] = field(default_factory=dict)


def make_feeds(bound: BoundModel, files: Mapping[str, str], seed: int) -> dict[str, Feed]:
    """Read or make up an array for every input.

    Floating point inputs are standard normal; whole numbers are 0 or 1, which are right for masks,
    indices and counts alike. A named dimension takes the size it has in a file; sizes that nobody
    gave are chosen (see ``sizing``).

    Args:
        bound: The bound graph.
        files: Paths of ``.npy`` files by input name; under ``""`` that of an ``.npz`` file, which
            has arrays by input name.
        seed: Seed of the random numbers.

    Raises:
        CallerError: There is no such input, a file cannot be read, or an input is of a kind that
            cannot be made up (SGK301).
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
    learned = _sizes(bound, given)
    sizes = choose_sizes(bound, {name: array.shape for name, array in given.items()}, learned)
    rng = np.random.default_rng(seed)
    feeds = {name: Feed(array, files.get(name, files.get("", ""))) for name, array in given.items()}
    for name in bound.inputs:
        if name not in feeds:
            feeds[name] = _made_up(name, bound.types.get(name), (learned, sizes), rng)
    return {name: feeds[name] for name in known if name in feeds}


def _read(name: str, path: Path) -> _Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CallerError(
            "SGK301",
            f"the file {str(path)!r} for input {name!r} cannot be read: {error}",
            hint="Store an array with numpy.save(path, array).",
        ) from error
    if not isinstance(array, np.ndarray):
        raise CallerError(
            "SGK301",
            f"the file {str(path)!r} for input {name!r} holds several arrays, expected one",
            hint="Store an array with numpy.save(path, array).",
        )
    return array


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


def _sizes(bound: BoundGraph, given: Mapping[str, _Array]) -> dict[str, int]:
    """Learn the sizes of named dimensions from the arrays given."""
    sizes: dict[str, int] = {}
    for name, array in given.items():
        for dim, size in zip(bound.shape(name) or (), array.shape, strict=False):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)
    return sizes


def _made_up(
    name: str,
    type_: Any,
    sizes: tuple[Mapping[str, int], Mapping[str, int]],
    rng: np.random.Generator,
) -> Feed:
    maker = _maker(type_.dtype) if isinstance(type_, TensorType) else None
    if maker is None or type_.shape is None:
        raise CallerError(
            "SGK301",
            f"input {name!r} is {type_}, which cannot be made up",
            hint=f"Give it: --input {name}=FILE.npy",
        )
    learned, chosen = sizes
    shape = filled(name, type_.shape, {**chosen, **learned})
    assumed = {
        one: chosen[one]
        for axis, dim in enumerate(type_.shape)
        if (one := slot(name, axis, dim)) in chosen and not isinstance(dim, int)
    }
    try:
        made = np.asarray(maker(rng, shape), dtype=type_.dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise CallerError(
            "SGK301",
            f"input {name!r} of shape {shape} cannot be made up: {error}",
            hint="Give smaller sizes, such as --symbol N=1.",
        ) from error
    return Feed(made, "random", assumed)


_Maker = Callable[[np.random.Generator, tuple[int, ...]], _Array]


def _maker(dtype: DataType) -> _Maker | None:
    if dtype in {DataType.UNDEFINED, DataType.STRING}:
        return None
    name = dtype.label
    if name.startswith(("int", "uint", "bool")):
        return lambda rng, shape: rng.integers(0, 2, shape)
    if dtype is DataType.DOUBLE:
        return lambda rng, shape: rng.standard_normal(shape)
    return lambda rng, shape: rng.standard_normal(shape, np.float32)
