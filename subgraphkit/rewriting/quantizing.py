"""QuantizeLinear and DequantizeLinear put where ``placing`` says, with the scales that fit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.rewriting.draft import Draft, label_of
from subgraphkit.rewriting.placing import Place
from subgraphkit.rewriting.ranges import Ranges
from subgraphkit.types import DataType, TensorType

__all__ = ["quantize", "quantized_weight"]

_LEVELS = 127.0

_Array = npt.NDArray[Any]


def quantize(draft: Draft, found: Sequence[Place], ranges: Ranges) -> tuple[str, ...]:
    """Let nodes read int8, in place.

    A value is quantized once for all its readers, right where it is made. Values that a Concat
    joins share the scale of the whole, so that it can join int8.

    Returns:
        Labels of the nodes.
    """
    wanted = {place.node.input[place.data] for place in found}
    work = _Quantizing(draft, _shared(draft, wanted, ranges))
    for place in found:
        node = place.node
        if place.weight is not None:
            node.input[place.weight] = work.weight(node.input[place.weight], place.axis)
    for place in found:
        place.node.input[place.data] = work.value(place.node.input[place.data])
    draft.nodes[:] = work.arranged()
    return tuple(label_of(place.node) for place in found)


def quantized_weight(weight: _Array, axis: int) -> tuple[_Array, _Array]:
    """Return a weight as int8 from -127 to 127, and the scale of each channel.

    A channel of zeros has the scale 1.

    Source: ``scale = max|w| / 127``, as TensorRT defines it for symmetric quantisation.
    """
    others = tuple(i for i in range(weight.ndim) if i != axis)
    most = np.abs(weight.astype(np.float64)).max(axis=others, initial=0.0)
    scale = np.where(most > 0, most / _LEVELS, 1.0).astype(np.float32)
    # a channel of the smallest numbers has a scale that float32 cannot tell from 0
    scale[scale == 0] = np.finfo(np.float32).tiny
    along = [1] * weight.ndim
    along[axis] = -1
    steps = np.rint(weight / scale.astype(np.float64).reshape(along))
    return np.clip(steps, -_LEVELS, _LEVELS).astype(np.int8), scale


def _shared(draft: Draft, wanted: set[str], ranges: Ranges) -> dict[str, float]:
    """Return the threshold of each value, the same for all that one Concat joins."""
    groups = {value: {value} for value in wanted}
    for node in draft.nodes:
        joined = [value for value in (*node.input, *node.output) if value in wanted]
        if node.op_type == "Concat" and len(joined) > 1:
            merged = set().union(*(groups[value] for value in joined))
            groups.update(dict.fromkeys(merged, merged))
    most = {value: ranges.values[value].threshold for value in wanted}
    return {value: max(most[other] for other in groups[value]) for value in wanted}


@dataclass(eq=False)
class _Quantizing:
    """The pairs of nodes that are added, by the value they stand behind."""

    draft: Draft
    thresholds: dict[str, float]
    _behind: dict[str, list[onnx.NodeProto]] = field(default_factory=dict)
    _done: dict[tuple[str, int], str] = field(default_factory=dict)

    def value(self, value: str) -> str:
        """Quantize a computed value; return what to read in its place."""
        if (value, -1) not in self._done:
            draft = self.draft
            scale = np.array(self.thresholds[value] / _LEVELS, np.float32)
            names = (
                draft.store(f"{value}_scale", scale, ""),
                draft.store(f"{value}_zero_point", np.zeros((), np.int8), ""),
            )
            short = draft.fresh(f"{value}_int8")
            draft.retype(short, DataType.INT8, value)
            node = helper.make_node("QuantizeLinear", [value, *names], [short])
            node.name = draft.fresh(f"quantize_{value}")
            self._done[value, -1] = self._back(value, short, names, [node])
        return self._done[value, -1]

    def weight(self, value: str, axis: int) -> str:
        """Quantize a weight; return what to read in its place."""
        if (value, axis) not in self._done:
            draft = self.draft
            array, scale = quantized_weight(draft.array(value), axis)
            short = draft.store(f"{value}_int8", array, value)
            names = (
                draft.store(f"{value}_scale", scale, ""),
                draft.store(f"{value}_zero_point", np.zeros(scale.shape, np.int8), ""),
            )
            self._done[value, axis] = self._back("", short, names, [], axis=axis)
        return self._done[value, axis]

    def _back(
        self,
        place: str,
        short: str,
        names: tuple[str, str],
        nodes: list[onnx.NodeProto],
        axis: int | None = None,
    ) -> str:
        long = self.draft.fresh(f"{short.removesuffix('_int8')}_dequantized")
        shape = self.draft.shape(short)
        self.draft.types[long] = TensorType(DataType.FLOAT, shape)
        node = helper.make_node("DequantizeLinear", [short, *names], [long])
        if axis is not None:
            node.attribute.append(helper.make_attribute("axis", axis))
        node.name = self.draft.fresh(f"dequantize_{short}")
        self._behind.setdefault(place, []).extend([*nodes, node])
        return long

    def arranged(self) -> list[onnx.NodeProto]:
        """Return all nodes, each pair behind what makes its value."""
        behind = dict(self._behind)
        arranged = behind.pop("", [])  # weights come first
        made = {value for node in self.draft.nodes for value in node.output}
        for value in [value for value in behind if value not in made]:
            arranged += behind.pop(value)
        for node in self.draft.nodes:
            arranged.append(node)
            for value in node.output:
                arranged += behind.pop(value, [])
        return arranged
