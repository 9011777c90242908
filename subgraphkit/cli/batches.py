"""Batches from files: what a model is calibrated with, or its accuracy measured on."""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError

_KINDS = {".npz", ".npy"}


@dataclass(frozen=True, slots=True)
class Batches:
    """Files with a batch each, read when their turn comes."""

    files: tuple[Path, ...]
    inputs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        return (self._read(file) for file in self.files)

    def _read(self, file: Path) -> dict[str, npt.NDArray[Any]]:
        try:
            with file.open("rb") as opened:  # NumPy leaves it open if it is damaged
                stored = np.load(opened, allow_pickle=False)
                is_array = isinstance(stored, np.ndarray)
                batch = dict(zip(self.inputs, [stored], strict=False)) if is_array else dict(stored)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            problem = f"the batch {str(file)!r} cannot be read: {error}"
            raise CallerError("SGK301", problem) from error
        if is_array and len(self.inputs) != 1:
            names = ", ".join(self.inputs)
            raise _unfit(
                f"the batch {str(file)!r} holds one array, but the model has inputs {names}"
            )
        missing = [name for name in self.inputs if name not in batch]
        if missing:
            has = f"no array {missing[0]!r}; it has {sorted(batch)}"
            raise _unfit(f"the batch {str(file)!r} has {has}")
        return {name: batch[name] for name in self.inputs}


def _unfit(problem: str) -> CallerError:
    hint = "Store batches with numpy.savez(path, **feeds), by input name."
    return CallerError("SGK301", problem, hint=hint)


def batches_in(places: Sequence[str], inputs: Sequence[str]) -> Batches:
    """Find the batches in files and folders.

    Raises:
        CallerError: A place does not exist or holds no batch (SGK301).
    """
    files: list[Path] = []
    for place in map(Path, places):
        found = [place]
        if os.path.isdir(place):  # noqa: PTH112 (no name makes it raise)
            found = sorted(file for file in place.iterdir() if file.suffix in _KINDS)
        if not found or not all(
            os.path.isfile(file) and file.suffix in _KINDS  # noqa: PTH113 (as above)
            for file in found
        ):
            raise _unfit(f"{str(place)!r} is no .npz or .npy file and no folder with any")
        files += found
    return Batches(tuple(files), tuple(inputs))
