"""Maps and categories of traditional machine learning.

Source: ONNX operators ``CastMap``, ``CategoryMapper``, ``LabelEncoder`` and ``ZipMap`` of domain
``ai.onnx.ml``.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART, part_by_part

_DTYPES: Final[dict[str, Any]] = {"FLOAT": np.float32, "INT64": np.int64, "STRING": object}


@kernel("CastMap", domain="ai.onnx.ml")
def cast_map(site: Site) -> Made:
    """Write the values of a map into one row, in order of key or at the place of the key."""
    dtype = np.dtype(_DTYPES[site.attribute("cast_to", "TO_FLOAT").removeprefix("TO_")])
    sparse = site.attribute("map_form", "DENSE") == "SPARSE"
    length = site.attribute("max_map", 1)

    def compute(values: dict[int, Any]) -> Array:
        given = {key: str(v) if dtype.kind == "O" else v for key, v in values.items()}
        if not sparse:
            return np.array([[given[key] for key in sorted(given)]], dtype=dtype)
        row = np.full((1, length), "" if dtype.kind == "O" else 0, dtype=dtype)
        for key, value in given.items():
            row[0, key] = value
        return row

    return compute


@kernel("CategoryMapper", domain="ai.onnx.ml")
def category_mapper(site: Site) -> Made:
    """Turn strings into numbers, or numbers into strings; what is unknown becomes the default."""
    return _map_labels(site, site.attribute("cats_strings", ()), site.ints("cats_int64s") or ())


@kernel("LabelEncoder", until=1, domain="ai.onnx.ml")
def label_encoder(site: Site) -> Made:
    """Turn strings into their places in a list, or places into strings."""
    strings = site.attribute("classes_strings", ())
    return _map_labels(site, strings, range(len(strings)))


def _map_labels(site: Site, strings: Sequence[str], numbers: Sequence[int]) -> Made:
    default: Any = site.attribute("default_string", "_Unused")
    table: dict[Any, Any] = dict(zip(numbers, strings, strict=True))
    dtype = np.dtype(object)
    if site.output_dtype() == np.int64:
        default = site.attribute("default_int64", -1)
        table, dtype = dict(zip(strings, numbers, strict=True)), np.dtype(np.int64)
    return _table_kernel(table, default, dtype)


@kernel("LabelEncoder", since=2, domain="ai.onnx.ml")
def label_encoder_by_lists(site: Site) -> Made:
    """Turn what is among the keys into what is at its place among the values."""
    keys, values = (_read_list(site, word) for word in ("keys", "values"))
    name, otherwise = _DEFAULTS[values.dtype.kind]
    default = site.attribute("default_tensor")
    if default is None or site.attribute("values_tensor") is None:
        default = np.array(site.attribute(name, otherwise))
    table = dict(zip(keys.tolist(), values.tolist(), strict=False))
    return _table_kernel(table, default.item(), values.dtype)


def _read_list(site: Site, word: str) -> Array:
    """Return the list that is given in one of the attributes for it."""
    for kind, dtype in _LISTS.items():
        if found := site.attribute(f"{word}_{kind}"):
            return np.array(found, dtype)
    return np.asarray(site.attribute(f"{word}_tensor")).reshape(-1)


_LISTS: Final[dict[str, Any]] = {"strings": object, "int64s": np.int64, "floats": np.float32}
_DEFAULTS: Final = {
    "O": ("default_string", "_Unused"),
    "f": ("default_float", -0.0),
    "i": ("default_int64", -1),
}
"""By kind of the values, what stands for those without a key: an attribute, or else this."""


def _table_kernel(table: dict[Any, Any], default: Any, dtype: np.dtype[Any]) -> Made:
    def compute(x: Array) -> Array:
        found = [table.get(key, default) for key in x.reshape(-1).tolist()]
        return np.array(found, dtype=dtype).reshape(x.shape)

    return part_by_part(compute)


@kernel("ZipMap", domain="ai.onnx.ml")
def zip_map(site: Site) -> Made:
    """Turn every row into a map from the given keys to its elements."""
    keys = site.attribute("classlabels_strings") or site.ints("classlabels_int64s") or ()

    def compute(x: Array) -> list[dict[Any, Any]]:
        # Numbers of Python, as ONNX Runtime returns them.
        rows = x.reshape(-1, len(keys))
        found: list[dict[Any, Any]] = []
        for at in range(0, len(rows), PART):
            part = rows[at : at + PART].tolist()
            found += [dict(zip(keys, row, strict=True)) for row in part]
        return found

    return compute
