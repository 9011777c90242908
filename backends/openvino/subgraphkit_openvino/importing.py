"""From a subgraph to an ``openvino.Model``, without a copy of its large weights."""

import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy.typing as npt
import onnx
from onnx.helper import make_tensor_value_info

from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.types import DataType
from subgraphkit_openvino import library
from subgraphkit_openvino.memory import shared_constant

_LARGE: Final = 1 << 20
"""Weights of this many bytes become constants that share memory. The importer copies smaller ones,
since it may look into them."""

_BY_ADDRESS: Final = "*/_ORT_MEM_ADDR_/*"
"""The file name by which ONNX Runtime and OpenVINO know that an offset is an address."""


class IgnoredInputsError(ValueError):
    """The importer left inputs out.

    Attributes:
        names: Those that may have been left out: at least one of them was.
    """

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"input {', '.join(map(repr, names))} is ignored")
        self.names = frozenset(names)


class Written:
    """A subgraph as an ONNX model that refers to memory of this process.

    Attributes:
        proto: The model; every input is a graph input, the large weights after the others.
        large: The large weights by name, in the order of their inputs.
        held: Everything the model refers to; it must outlive what is made from it.
    """

    def __init__(self, proto: onnx.ModelProto, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        self.proto = proto
        self.held = tuple(weights.values())
        self.large = {name: array for name, array in weights.items() if array.nbytes >= _LARGE}
        self._let_in(weights)

    def _let_in(self, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        graph = self.proto.graph
        for place in reversed(range(len(graph.initializer))):
            tensor = graph.initializer[place]
            if tensor.name in self.large:
                del graph.initializer[place]
            elif tensor.name in weights:
                _refer_to(tensor, weights[tensor.name])
        for name, array in self.large.items():
            dtype = DataType.of(array.dtype)
            graph.input.append(make_tensor_value_info(name, dtype, array.shape))


def write_model(subgraph: Subgraph) -> Written:
    """Write a subgraph as ONNX, its weights left where they are."""
    proto = subgraph.to_model(weights="outside", notes=False)
    return Written(proto, outside_weights(proto, subgraph))


def number_nodes(graph: onnx.GraphProto, subgraph: Subgraph) -> None:
    """Name nodes by their numbers in the model, ``#12``, which names of layers will contain."""
    makers = subgraph.graph.producers
    for proto in graph.node:
        proto.name = next((f"#{makers[name]}" for name in proto.output if name), "")


def import_model(written: Written, *, partially: bool = False) -> Any:
    """Convert a written subgraph; IgnoredInputsError if not all inputs are read then."""
    importer = library.frontend()
    source = importer.load(io.BytesIO(written.proto.SerializeToString()))
    model = importer.convert_partially(source) if partially else importer.convert(source)
    parameters = model.get_parameters()
    _require_all(parameters, written.proto.graph)
    places = {value.name: place for place, value in enumerate(written.proto.graph.input)}
    for name, array in written.large.items():
        parameter = parameters[places[name]]
        parameter.output(0).replace(shared_constant(array))
        model.remove_parameter(parameter)
    if written.large:
        model.validate_nodes_and_infer_types()
    return model


def _refer_to(tensor: onnx.TensorProto, array: npt.NDArray[Any]) -> None:
    del tensor.external_data[:]
    entries = {"location": _BY_ADDRESS, "offset": array.ctypes.data, "length": array.nbytes}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def _require_all(parameters: Sequence[Any], graph: onnx.GraphProto) -> None:
    """Make sure that no input was left out, so that inputs can be told by their place."""
    if len(parameters) == len(graph.input):
        return
    known = {name for one in parameters for name in one.output(0).get_names()}
    raise IgnoredInputsError([value.name for value in graph.input if value.name not in known])
