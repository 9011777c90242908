"""Weights handed to ONNX Runtime: as files that it maps itself, or as arrays that it reads.

ONNX Runtime maps a mapped file once more, which takes no memory. Where it packs a copy of its own,
it ends its mapping. It copies arrays. A version that does not copy them reads them where they are,
so they must be held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.types import DataType
from subgraphkit_onnxruntime.library import onnxruntime

_FOLDER: Final = "session.model_external_initializers_file_folder_path"


_SIDE: Final = 64
_NAMES: Final = ("table", "factor", "term")
_TRIAL: Final = f"""<ir_version: 8, opset_import: ["": 17]>
trial (float[1, {_SIDE}] x, int64[1] i)
  => (float[1, {_SIDE}] row, float[1, {_SIDE}] product, float[{_SIDE}, {_SIDE}] sum)
{{
  row = Gather(table, i)
  product = MatMul(x, factor)
  sum = Add(x, term)
}}"""
"""A model that reads weights as they are, packs them, and computes with them."""


@dataclass(slots=True)
class HandedWeights:
    """The weights that a model leaves out.

    Attributes:
        arrays: Those that are read where they are, by name.
        files: Those that ONNX Runtime maps from files of one folder.
        values: What ONNX Runtime has of the arrays; both are to be held as long as the session.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    files: frozenset[Path] = frozenset()
    values: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, model: onnx.ModelProto, subgraph: Subgraph) -> "HandedWeights":
        """Take the weights of a subgraph, and have its model name the files of those in files.

        ``model``: What ``to_model(weights="outside")`` returned, changed in place.
        """
        arrays = outside_weights(model, subgraph)
        files: set[Path] = set()
        for tensor in model.graph.initializer:
            mapped = subgraph.constants[tensor.name].mapped if tensor.name in arrays else None
            if mapped is None or any(mapped[0].parent != one.parent for one in files):
                continue
            files.add(mapped[0])
            length = arrays.pop(tensor.name).nbytes
            del tensor.external_data[:]
            _place(tensor, location=mapped[0].name, offset=mapped[1], length=length)
        return cls(arrays, frozenset(files))

    @property
    def are_there(self) -> bool:
        """Whether all files are still where they were."""
        return all(map(Path.exists, self.files))

    def hand_to(self, options: Any, *, shared: bool) -> None:
        """Enter the weights into the options of one session."""
        for file in self.files:
            options.add_session_config_entry(_FOLDER, str(file.parent))
        if not self.arrays:
            return
        make = onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type
        self.values = [make(array, int(DataType.of(array.dtype))) for array in self.arrays.values()]
        options.add_external_initializers(list(self.arrays), self.values)
        if shared and not are_copied():
            for name, value in zip(self.arrays, self.values, strict=True):
                options.add_initializer(name, value)

    def to_hold(self) -> "HandedWeights":
        """Return what is to be held once the session is open: nothing, where it has copies."""
        return HandedWeights({}) if are_copied() else self


def _place(tensor: onnx.TensorProto, **facts: str | int) -> None:
    for key, value in facts.items():
        tensor.external_data.add(key=key, value=str(value))


@cache
def are_copied() -> bool:
    """Say whether sessions copy the arrays they are handed; one is asked, since versions differ."""
    array = np.ones((_SIDE, _SIDE), np.float32)
    model = onnx.parser.parse_model(_TRIAL)
    for name in _NAMES:
        tensor = model.graph.initializer.add(name=name, dims=array.shape, data_type=DataType.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        _place(tensor, location="nowhere", length=array.nbytes)
    library = onnxruntime()
    weights, options = HandedWeights(dict.fromkeys(_NAMES, array)), library.SessionOptions()
    options.intra_op_num_threads = 1
    make = library.OrtValue.ortvalue_from_numpy_with_onnx_type
    weights.values = [make(array, int(DataType.FLOAT)) for _ in _NAMES]
    options.add_external_initializers(list(_NAMES), weights.values)
    data, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    session = library.InferenceSession(data, options, providers=providers)
    array[...] = 0
    x, i = np.ones((1, _SIDE), np.float32), np.zeros(1, np.int64)
    return all(bool(made.all()) for made in session.run(None, {"x": x, "i": i}))
