"""The ONNX model that TensorRT is given for a subgraph, with large weights beside it."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx

from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.rewriting import Rewriting
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.naming import Names, mark_places, rename
from subgraphkit_tensorrt.building.precision import in_precision
from subgraphkit_tensorrt.lowering import lower

__all__ = ["PreparedModel", "prepare_model"]


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A subgraph as the parser gets it.

    Attributes:
        proto: The ``ModelProto``; inputs and outputs are named as in the subgraph, in its order.
        weights: By name in ``proto``, the data of weights that are not in it; contiguous and
            read-only. The library reads from them until a build is over.
        names: What the other names stand for.
        rewriting: What was done to reach another precision; None if none was asked for.
    """

    proto: Any
    weights: Mapping[str, npt.NDArray[Any]]
    names: Names
    rewriting: Rewriting | None = None

    def digest(self, *, without: Collection[str] = ()) -> str:
        """Return a digest of structure and weights that is free of names, in hexadecimal.

        Args:
            without: Names, in the subgraph, of constants whose data does not count.
        """
        bare = onnx.ModelProto()
        bare.CopyFrom(self.proto)
        bare.graph.name = ""
        borders = {
            value.name: f"{kind}{place}"
            for kind, values in (("in", bare.graph.input), ("out", bare.graph.output))
            for place, value in enumerate(values)
        }
        _rename_all(bare.graph, borders)
        digest = hashlib.blake2b(bare.SerializeToString(deterministic=True), digest_size=32)
        for name, array in self.weights.items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            if self.names.values.get(name, name) not in without:
                digest.update(array.reshape(-1).view("u1").data)
        return digest.hexdigest()


def prepare_model(subgraph: Subgraph, options: Options) -> PreparedModel:
    """Write a subgraph as the model that is parsed: converted, and in the precision asked for.

    Whoever refits an engine calls it again for the weights of the day: the names are the same.

    Args:
        subgraph: The subgraph.
        options: The options of the backend.

    Raises:
        SubgraphkitError: The subgraph cannot be rewritten as asked.
    """
    proto = subgraph.to_model(weights="outside")
    weights: Mapping[str, npt.NDArray[Any]] = outside_weights(proto, subgraph)
    mark_places(proto, subgraph)
    lower(proto, subgraph, options)
    account = None
    if options.precision != "keep":
        account = in_precision(proto, weights, options.precision, options)
        proto, weights = account.model, account.weights
    names = rename(proto, subgraph)
    ours = {theirs: name for name, theirs in names.values.items()}
    return PreparedModel(
        proto, {ours[name]: array for name, array in weights.items()}, names, account
    )


def _rename_all(graph: Any, names: Mapping[str, str]) -> None:
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_all(attribute.g, names)
