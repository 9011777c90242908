"""The model TensorRT is given for a subgraph: converted, in its precision, weights beside it."""

import hashlib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx

from subgraphkit.errors import SubgraphkitWarning, UnsupportedModelError
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import outside_weights
from subgraphkit.rewriting import (
    Kind,
    Precision,
    Ranges,
    Rewriting,
    is_calibration_cache,
    read_calibration_cache,
    rewrite,
)
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.name_map import NameMap, mark_places, rename
from subgraphkit_tensorrt.lowering import lower

__all__ = ["PreparedModel", "in_precision", "prepare_model", "read_calibration"]

_NOTHING_TO_REWRITE = "SGK230"


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
    names: NameMap
    rewriting: Rewriting | None = None

    def whole(self) -> Any:
        """Return the model with its weights inside."""
        if not self.weights:
            return self.proto
        whole = onnx.ModelProto()
        whole.CopyFrom(self.proto)
        for tensor in whole.graph.initializer:
            if tensor.name in self.weights:
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = self.weights[tensor.name].tobytes()
        return whole

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

    To refit an engine, call it again with the new weights: the names are the same.

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


def in_precision(
    proto: Any, weights: Mapping[str, npt.NDArray[Any]], kind: Kind, options: Options
) -> Rewriting:
    """Write the model of a subgraph anew in the precision asked for.

    Args:
        proto: The model; not changed.
        weights: Data of initializers that are outside it.
        kind: The precision asked for.
        options: The options of the backend.

    Returns:
        The new model with its weights and an account. Where nothing in the subgraph can be
        quantized, all of it is in ``high_precision``; where nothing can be rewritten, it is the
        model as it is. A note says why, and a warning where a product might have been.

    Raises:
        CallerError: The calibration cannot be read (SGK233), or int8 or fp8 has none (SGK231).
    """
    wanted = Precision(
        kind,
        keep=options.keep_fp32,
        high_precision=options.high_precision,
        data_max=options.data_max,
        max_reduction=options.reduction_depth,
    )
    ranges = read_calibration(options.calibration)
    notes: tuple[str, ...] = ()
    steps = [wanted]
    is_quantized = wanted.kind in {"int8", "fp8"}
    if is_quantized and wanted.high_precision != "fp32":
        steps.append(replace(wanted, kind=wanted.high_precision))
    for step in steps:
        try:
            done = rewrite(proto, step, ranges, weights=weights)
        except UnsupportedModelError as error:
            if error.code != _NOTHING_TO_REWRITE:
                raise
            notes = (*notes, error.message)
            if step is wanted and is_quantized:
                _warn(wanted.kind, error.message)
        else:
            # a subgraph without products is what is left between others
            is_first = step is wanted and is_quantized
            if is_first and any(one.step == "quantize" for one in done.kept):
                _warn(wanted.kind, done.why_no_int8())
            return replace(done, notes=(*notes, *done.notes))
    return Rewriting(proto, weights, notes=notes)


def _warn(kind: str, why: str) -> None:
    if why:
        told = f"precision={kind} was asked for, and no node of a subgraph reads {kind}: {why}"
        warnings.warn(SubgraphkitWarning(told), stacklevel=3)


def read_calibration(path: Path | None) -> Ranges | None:
    """Read ranges of values from our own file or a calibration cache of TensorRT.

    Raises:
        CallerError: The file cannot be read (SGK233).
    """
    if path is None:
        return None
    return read_calibration_cache(path) if is_calibration_cache(path) else Ranges.load(path)
