"""Models for queries: whole, with zeros for the data of large weights.

The parser wants every weight to have data. It maps a large weight from its file and never looks at
the data. So all large weights lie in one file with a hole, which takes neither time nor room.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from subgraphkit.ir import Initializer

_SMALL: Final = 1 << 16
"""Weights of this many bytes and fewer are asked with their data: scales and zero points count."""
_PAGE: Final = 4096
_FILE: Final = "weights"


def put_small_weights_in(proto: Any, constants: dict[str, Initializer]) -> None:
    """Put the data of small weights into a model that has none of it, in place."""
    for tensor in proto.graph.initializer:
        if _is_outside(tensor) and (constants[tensor.name].type.nbytes or 0) <= _SMALL:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = constants[tensor.name].array().tobytes()


def stand_in(proto: Any) -> int:
    """Let the weights that have no data point into one file, each to a place of its own.

    Two weights at one place would be one to the parser, and they may differ in size.
    """
    end = 0
    for tensor in filter(_is_outside, proto.graph.initializer):
        entries = {entry.key: entry for entry in tensor.external_data}
        entries["location"].value = _FILE
        entries["offset"].value = str(end)
        end += -(-int(entries["length"].value) // _PAGE) * _PAGE
    return end


@contextmanager
def model_file(nbytes: int) -> Iterator[str | None]:
    """Make the file of stand-ins, and yield the path of a model beside it."""
    if nbytes == 0:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="subgraphkit-", ignore_cleanup_errors=True) as folder:
        with Path(folder, _FILE).open("wb") as file:
            file.truncate(nbytes)
        yield str(Path(folder, "model.onnx"))


def _is_outside(tensor: Any) -> bool:
    return bool(tensor.data_location == type(tensor).EXTERNAL)
