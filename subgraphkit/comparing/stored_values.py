"""Values in a folder, so that one process can hand them to another.

Tensors are ``.npy`` files; text, kinds and element types that NumPy cannot name are in an index.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError
from subgraphkit.types import DataType

_INDEX: Final = "index.json"
_Array = npt.NDArray[Any]


def store_values(values: Mapping[str, Any], folder: Path) -> None:
    """Store values by name in a new folder.

    Raises:
        CallerError: A value has an element type that ONNX does not have (SGK141).
    """
    folder.mkdir()
    numbers = count()
    entries = [(name, _entry(name, value, folder, numbers)) for name, value in values.items()]
    (folder / _INDEX).write_text(json.dumps(entries), encoding="utf-8")


def restore_values(folder: Path) -> dict[str, Any]:
    """Read what ``store_values`` stored."""
    entries = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    return {name: _value(entry, folder) for name, entry in entries}


def store_npz(values: Mapping[str, Any], path: Path) -> None:
    """Store the tensors among values in one ``.npz``; names may be anything, also ``file``.

    An element of the sequence ``y`` is stored as ``y[0]``.

    Raises:
        OSError: The file cannot be written.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in _flattened(values):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _flattened(values: Mapping[str, Any]) -> Iterator[tuple[str, _Array]]:
    for name, value in values.items():
        if isinstance(value, list):
            yield from _flattened({f"{name}[{at}]": element for at, element in enumerate(value)})
        elif value is not None:
            array = np.asarray(value)
            yield name, array.astype(np.str_) if array.dtype == object else array


def _entry(name: str, value: Any, folder: Path, numbers: Iterator[int]) -> dict[str, Any]:
    """Store what NumPy can store of a value; return what is to be written of it beside."""
    if value is None:
        return {"kind": "nothing"}
    if isinstance(value, list | tuple) and (not value or any(map(_is_part, value))):
        parts = ((f"{name}[{at}]", item) for at, item in enumerate(value))
        return {"kind": "sequence", "items": [_entry(*one, folder, numbers) for one in parts]}
    if isinstance(value, Mapping):
        parts = ((f"{name}[{key!r}]", item) for key, item in value.items())
        entries = [_entry(*one, folder, numbers) for one in parts]
        return {"kind": "map", "items": list(zip(value, entries, strict=True))}
    array = np.asarray(value)
    try:
        dtype = DataType.of(array.dtype)
    except KeyError:
        raise CallerError(
            "SGK141", f"value {name!r} has dtype {array.dtype}, which ONNX does not have"
        ) from None
    if dtype is DataType.STRING:
        texts = [_text(one) for one in array.reshape(-1).tolist()]
        return {"kind": "text", "items": texts, "shape": array.shape}
    file = f"{next(numbers)}.npy"
    np.save(folder / file, array, allow_pickle=False)
    return {"kind": "tensor", "file": file, "dtype": dtype.name}


def _is_part(item: Any) -> bool:
    """Tell an element of a sequence from a number of a list that means a tensor."""
    return item is None or isinstance(item, np.ndarray | Mapping)


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _value(entry: Mapping[str, Any], folder: Path) -> Any:
    kind = entry["kind"]
    if kind == "nothing":
        return None
    if kind == "sequence":
        return [_value(item, folder) for item in entry["items"]]
    if kind == "map":
        return {key: _value(item, folder) for key, item in entry["items"]}
    if kind == "text":
        texts = np.empty(len(entry["items"]), object)
        texts[:] = entry["items"]
        return texts.reshape(entry["shape"])
    array = np.load(folder / entry["file"], allow_pickle=False)
    dtype = DataType[entry["dtype"]].numpy
    # NumPy stores the types of ml_dtypes as raw bytes
    return array if array.dtype == dtype else array.view(dtype)
