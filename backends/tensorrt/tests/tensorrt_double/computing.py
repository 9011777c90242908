"""What an engine of the double computes: its ONNX model, by the NumPy backend."""

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

import subgraphkit as sk
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.building.network import TYPES

_NAMES = {ours: name for name, ours in TYPES.items()} | {DataType.DOUBLE: "FLOAT"}
"""What TensorRT makes of element types at the border."""

_SHAPE_INPUTS = {("Reshape", 1), ("Expand", 1), ("Tile", 1), ("ConstantOfShape", 0)}

Array = npt.NDArray[Any]


class Computation:
    """A model that is run, and asked for shapes.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, model: bytes) -> None:
        self.proto = onnx.load_from_string(model)
        self._lock = threading.RLock()
        self._renew()

    def _renew(self) -> None:
        self._session: Any = None
        self._shapes: dict[Any, dict[str, tuple[int, ...]]] = {}
        self._bound = sk.bind(sk.load(self.proto))

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return list(self._bound.inputs)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return list(self._bound.outputs)

    def type_of(self, name: str) -> TensorType:
        """Return the type of a value."""
        type_ = self._bound.types[name]
        assert isinstance(type_, TensorType)
        return type_

    def dtype_of(self, name: str, trt: Any) -> Any:
        """Return the element type of a value as a release has it."""
        members = trt.DataType.__members__
        return members.get(_NAMES[self.type_of(name).dtype], members["INT32"])

    def is_shape(self, name: str) -> bool:
        """Say whether shapes are computed from an input directly."""
        return any(
            (node.op_type, place) in _SHAPE_INPUTS
            for node in self.proto.graph.node
            for place, one in enumerate(node.input)
            if one == name
        )

    def shapes(
        self, given: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]
    ) -> dict[str, tuple[int, ...]]:
        """Infer the shapes of the outputs; -1 where they depend on data."""
        key = (tuple(given.items()), tuple((k, v.tobytes()) for k, v in values.items()))
        with self._lock:
            if key not in self._shapes:
                bound = sk.bind(
                    sk.load(self._with(values)),
                    shapes={name: shape for name, shape in given.items() if name not in values},
                )
                self._shapes[key] = {
                    name: tuple(d if isinstance(d, int) else -1 for d in bound.shape(name) or ())
                    for name in bound.outputs
                }
            return self._shapes[key]

    def open(self) -> None:
        """Make ready to run: a stream that gets on must not start threads."""
        with self._lock:
            if self._session is None:
                self._session = _opened(self.proto.SerializeToString())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Compute the outputs; wide types come and go as those of the engine."""
        session = self._session
        wanted = {name: self.type_of(name).dtype.numpy for name in self.inputs}
        results = session.run(None, {name: feeds[name].astype(wanted[name]) for name in wanted})
        return dict(zip(self.outputs, results, strict=True))

    def refit(self, model: bytes) -> None:
        """Take the initializers of another model, by name."""
        new = {one.name: one for one in onnx.load_from_string(model).graph.initializer}
        with self._lock:
            proto = onnx.ModelProto()
            proto.CopyFrom(self.proto)
            self.proto = proto
            for one in self.proto.graph.initializer:
                if one.name in new:
                    one.CopyFrom(new[one.name])
            self._renew()
            self.open()

    def _with(self, values: Mapping[str, Array]) -> onnx.ModelProto:
        """Return the model with some of its inputs as constants."""
        if not values:
            return self.proto
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        left = [one for one in proto.graph.input if one.name not in values]
        del proto.graph.input[:]
        proto.graph.input.extend(left)
        for name, array in values.items():
            wide = np.asarray(array).astype(self.type_of(name).dtype.numpy)
            proto.graph.initializer.append(numpy_helper.from_array(wide, name))
        return proto


@lru_cache(maxsize=32)
def _opened(model: bytes) -> sk.InferenceSession:
    """Open a session, which any number of engines may run at once."""
    return sk.InferenceSession(model, backend="numpy")
