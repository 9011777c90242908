"""A bundle is written beside its place and put there whole."""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from subgraphkit import __version__
from subgraphkit.binding.shapes import shapes_of_inputs
from subgraphkit.bundling import messages
from subgraphkit.bundling.collecting import BundleContents, CollectedSubgraph
from subgraphkit.bundling.reading import (
    MANIFEST,
    BundleManifest,
    FileEntry,
    SubgraphEntry,
    is_bundle,
    write_manifest,
)
from subgraphkit.errors import describe_exception
from subgraphkit.ir.structure import data_digest
from subgraphkit.onnx_io import write_bundled_model
from subgraphkit.storing.files import claim_path, flush_folder, new_file
from subgraphkit.storing.folders import ownership_problem

_MODEL: Final = "model.onnx"
_UNNAMED: Final = "weights.part"
_PRIVATE: Final = 0o600
# Others may read it, where that was asked for; nobody else may change it.
_SHARED: Final = 0o644

_ROOM: Final = "Make room there, or let yourself write there."
_INSIDE: Final = "Name a new folder inside it."
# The files of any bundle.
_OWN: Final = re.compile(r"manifest\.json|model\.onnx|weights\.[0-9a-f]+\.bin|.+\.engine")
# The ends of folders' names while a bundle is written, and before it is removed.
_HIDDEN: Final = r"\.[0-9a-f]{16}\.(part|old)"


def write_bundle(
    contents: BundleContents, target: Path, *, overwrite: bool = False, shared: bool = False
) -> None:
    """Write a bundle: it is there whole, or its predecessor stays.

    This removes the leftovers of processes that died while they wrote to that place.

    Args:
        contents: Its contents.
        target: Its folder, which must not exist or be empty.
        overwrite: Whether a bundle that is there is replaced; anything else never is.
        shared: Whether others may read it, as far as the user's mask allows.

    Raises:
        BundleError: There is something else, or the system does not let us write (SGK180).
        InvalidModelError: The data of a weight cannot be read (SGK184, SGK208, SGK211).
    """
    target = check_target(target, overwrite=overwrite)
    mode = _SHARED if shared else _PRIVATE
    part = target.parent / f".{target.name}.{os.urandom(8).hex()}.part"
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_left_overs(target, ".part")
            with _claimed_folder(part, mode):
                _fill(part, contents, mode)
                flush_folder(part)
                check_target(target, overwrite=overwrite)  # somebody else may have been faster
                _put_in_place(part, target)
            _remove_left_overs(target, ".old")  # not before there is a bundle again
        except (OSError, ValueError) as error:
            fix = "Every option has to have a form in JSON."
            if isinstance(error, OSError):
                fix = _INSIDE if error.errno == errno.EBUSY else _ROOM
            raise messages.unwritable(target, describe_exception(error), fix) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    flush_folder(target.parent)


@contextmanager
def _claimed_folder(part: Path, mode: int) -> Iterator[None]:
    """Make a folder that is claimed for as long as the block lasts."""
    while True:
        part.mkdir(mode=mode | (mode & 0o444) >> 2)  # readers may enter
        with claim_path(part):
            if part.exists():  # or it was taken for left over, before it was claimed
                yield
                return


def _remove_left_overs(target: Path, kind: str) -> None:
    """Remove folders beside a bundle that a process wrote before it died."""
    name = re.compile(re.escape(f".{target.name}") + _HIDDEN)
    for path in [one for one in target.parent.iterdir() if one.suffix == kind]:
        if not name.fullmatch(path.name):
            continue
        with claim_path(path, wait=False) as is_left_over, suppress(OSError):
            if is_left_over and not ownership_problem(path, path.lstat()):
                names = [one.name for one in path.iterdir()]
                if all(_OWN.fullmatch(one) or one == _UNNAMED for one in names):
                    shutil.rmtree(path, ignore_errors=True)


def versions_here() -> dict[str, str]:
    """Return the versions that decide how a bundle is read."""
    return {"subgraphkit": __version__, "onnx": version("onnx"), "numpy": np.__version__}


def check_target(target: Path, *, overwrite: bool = False) -> Path:
    """Return a place as an absolute path; BundleError (SGK180) if no bundle may be written there.

    There may be nothing, or a bundle that is to be replaced.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 (a link at its end is not followed)
    names = _names_in(target)
    if not target.name:
        raise messages.unwritable(target, "it has no name", "Name a folder of its own.")
    if _is_here(target):
        # It would be taken away under the feet of this process and of the shell it came from.
        raise messages.unwritable(target, "it is the folder you are in", _INSIDE)
    others = [name for name in names if not _OWN.fullmatch(name)]
    if others or (names and not is_bundle(target)):
        problem = f"there is something else in it, such as {[*others, *names][0]!r}"
        fix = "Name another folder; only a bundle is ever replaced."
        raise messages.unwritable(target, problem, fix)
    if names and not overwrite:
        fix = "Name another folder, or replace it with overwrite=True (--overwrite)."
        raise messages.unwritable(target, "there is a bundle already", fix)
    return target


def _is_here(target: Path) -> bool:
    try:
        return target.samefile(os.curdir)
    except FileNotFoundError:  # or gone by now, because somebody else is replacing it
        return False


def _names_in(target: Path) -> list[str]:
    """Return the names in a folder that may not exist yet; names of folders end in a slash."""
    another = "Name another folder."
    if "\0" in str(target):
        raise messages.unwritable(target, "no name has a null in it", another)
    try:
        if target.is_symlink():
            fix = "Name the folder it leads to."
            raise messages.unwritable(target, "it is a symbolic link", fix)
        with suppress(FileNotFoundError, NotADirectoryError):
            target.stat()  # a name may be too long, for which ``exists`` has no word from 3.14 on
        if target.exists():
            return sorted(one.name + "/" * one.is_dir() for one in target.iterdir())
        above = next(one for one in target.parents if os.path.lexists(one))
        if not above.is_dir():
            raise messages.unwritable(target, f"{str(above)!r} is a file", another)
        if not os.access(above, os.W_OK | os.X_OK):
            raise messages.unwritable(target, f"{str(above)!r} cannot be written to", _ROOM)
    except NotADirectoryError as error:
        raise messages.unwritable(target, "it is a file", another) from error
    except OSError as error:
        raise messages.unwritable(target, str(error), another) from error
    return []


def _fill(folder: Path, contents: BundleContents, mode: int) -> None:
    graph = contents.graph
    with new_file(folder / _UNNAMED, mode) as file:
        weights = _Hashed(file)
        stored = contents.constants, contents.kept
        place = weights.write, lambda: weights.name
        model = write_bundled_model(graph, *stored, *place, contents.settled)
    if weights.size:
        (folder / _UNNAMED).rename(folder / weights.name)
    else:
        (folder / _UNNAMED).unlink()
    manifest = BundleManifest(
        name=graph.name,
        versions=versions_here(),
        model=_write(folder, _MODEL, model, mode),
        weights=weights.entry() if weights.size else None,
        symbols=dict(graph.symbols),
        shapes=shapes_of_inputs(graph),
        backends=contents.backends,
        subgraphs=tuple(_entry(folder, one, mode) for one in contents.subgraphs),
    )
    _write(folder, MANIFEST, write_manifest(manifest), mode)


def _entry(folder: Path, one: CollectedSubgraph, mode: int) -> SubgraphEntry:
    subgraph, name = one.subgraph, f"{one.subgraph.id}.engine"
    engine = None if one.engine is None else _write(folder, name, one.engine, mode)
    return SubgraphEntry(
        id=subgraph.id,
        backend=subgraph.backend,
        property=subgraph.property_name,
        nodes=subgraph.nodes,
        inputs=subgraph.inputs,
        outputs=subgraph.outputs,
        constants=tuple(subgraph.constants),
        structure=one.structure,
        engine=engine,
    )


class _Hashed:
    """A file whose digest grows with it; its name has the digest.

    So a session that still reads the weights of a replaced bundle finds none under the old name,
    and no others.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hasher = hashlib.sha256()
        self.size = 0

    @property
    def name(self) -> str:
        """The name of the file with this content."""
        return f"weights.{self._hasher.hexdigest()[:16]}.bin"

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._hasher.update(data)
        self.size += len(data)

    def entry(self) -> FileEntry:
        return FileEntry(self.name, self.size, self._hasher.hexdigest())


def _write(folder: Path, name: str, data: bytes, mode: int) -> FileEntry:
    with new_file(folder / name, mode) as file:
        file.write(data)
    return FileEntry(name, len(data), data_digest(data))


def _put_in_place(part: Path, target: Path) -> None:
    if not os.path.lexists(target):
        part.rename(target)
        return
    if not is_bundle(target):
        target.rmdir()  # it is empty, or this fails
        part.rename(target)
        return
    old = part.with_suffix(".old")
    target.rename(old)
    try:
        part.rename(target)
    except BaseException:
        try:
            old.rename(target)
        except OSError:
            # Somebody else has put a bundle there meanwhile, and this one is of the past.
            if is_bundle(target):
                shutil.rmtree(old, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
