"""Rules that say of every node whether it may compute in a short float, and why not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import defs

from subgraphkit.onnx_io.attribute_rules import body_protos
from subgraphkit.onnx_io.protos import normal_domain
from subgraphkit.rewriting.draft import Draft, attribute, label_of
from subgraphkit.rewriting.ranges import Ranges
from subgraphkit.rewriting.records import Kept, Precision
from subgraphkit.rewriting.sensitivity import (
    angle_nodes,
    axis_length,
    rounded_nodes,
    terms,
    variance_nodes,
)
from subgraphkit.types import DataType


@dataclass(frozen=True, slots=True)
class Formals:
    """The types a node's operator takes: per input, a type or the name of a type variable."""

    inputs: list[str]
    outputs: list[str]
    allowed: dict[str, list[str]]
    version: int


def formals_of(node: onnx.NodeProto, draft: Draft) -> Formals | None:
    """Return the formal types of a node; None if ONNX does not define its operator."""
    domain, opset = normal_domain(node.domain), draft.opset(node.domain)
    if not opset or not defs.has(node.op_type, opset, domain):
        return None
    schema = defs.get_schema(node.op_type, opset, domain)
    outputs = _types_per_value(schema.outputs, len(node.output))
    if node.op_type == "DequantizeLinear" and not attribute(node, "output_dtype", 0):
        outputs = [schema.inputs[1].type_str]  # later versions give it a variable of its own
    return Formals(
        _types_per_value(schema.inputs, len(node.input)),
        outputs,
        {one.type_param_str: list(one.allowed_type_strs) for one in schema.type_constraints},
        schema.since_version,
    )


def _types_per_value(formals: Sequence[Any], count: int) -> list[str]:
    """Return one type per actual value; the last formal may stand for many."""
    return [formals[min(i, len(formals) - 1)].type_str for i in range(count)] if formals else []


MOVING: Final = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Split",
     "Squeeze", "Tile", "Transpose", "Unsqueeze", "Equal", "Greater", "GreaterOrEqual", "Less",
     "LessOrEqual"}
)  # fmt: skip
"""Operators that compute nothing: they move elements or compare them."""

FREE: Final = frozenset({"Shape", "Size"})
"""Operators that read no element, so any type will do."""

# Operators that never do. BitCast reads bits, not numbers. MeanVarianceNormalization's body in ONNX
# has constants of float32.
_NEVER: Final = frozenset(
    {"Bernoulli", "BitCast", "Celu", "CumProd", "CumSum", "EyeLike", "MeanVarianceNormalization",
     "Multinomial", "NegativeLogLikelihoodLoss", "NonMaxSuppression", "RandomNormal",
     "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range", "RoiAlign", "Scan",
     "SoftmaxCrossEntropyLoss", "Upsample"}
)  # fmt: skip

_STATED: Final = frozenset({"Cast"})
_NORMALISING: Final = frozenset(
    {"GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization",
     "RMSNormalization", "ReduceL2", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare"}
)  # fmt: skip
# Operators whose result may be as large as their input.
_CARRYING: Final = frozenset(
    [
        *("Abs", "Add", "Div", "Max", "Min", "Mul", "Neg", "ReduceMax", "ReduceMin", "Sub"),
        *("CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather"),
        *("GatherElements", "GatherND", "Identity", "MaxPool", "Pad", "Reshape"),
        *("ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split"),
        *("Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where"),
    ]
)

# A float16 sum that has reached 2,048 takes no more ones.
_LONG_AXIS: Final = 2048

# A smaller float16 scale is off by more than int8 itself.
_COARSEST_SCALE: Final = 2.0**-17

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a node.

    Attributes:
        inputs: Places of the inputs to be given in the short float; empty if the node is kept.
        outputs: Places of the outputs that will come in it.
        kept: Why the node is kept; None if it is not, or has nothing to do with float32.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    kept: Kept | None = None


@dataclass(eq=False)
class Judge:
    """Judges the nodes of a draft, each after those that make its inputs."""

    draft: Draft
    precision: Precision
    low: DataType
    ranges: Ranges
    _beyond: set[str] = field(default_factory=set)
    _extremes: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rounded = set(rounded_nodes(self.draft))
        self._angles = set(angle_nodes(self.draft))
        halves = self.low is DataType.FLOAT16
        self._variances = set(variance_nodes(self.draft) if halves else ())

    def judge(self, node: onnx.NodeProto) -> Verdict:
        """Decide on a node."""
        draft = self.draft
        if node.op_type in FREE or not any(map(draft.is_float, (*node.input, *node.output))):
            return Verdict()
        self._spread(node)
        formals = formals_of(node, draft)
        found = self._by_name(node, formals)
        if found is not None or formals is None:
            return self._keep(node, *(found or ("unknown", "")))
        inputs, outputs, obstacle = self._places_by_type(node, formals)
        if obstacle or not inputs:
            return self._keep(node, "type", obstacle)
        found = self._by_constants(node, inputs) or self._by_values(node)
        if found is None and self.low is DataType.FLOAT16:
            found = self._by_length(node)
        if found is None and self.precision.max_reduction is not None:
            found = self._by_depth(node, self.precision.max_reduction)
        return self._keep(node, *found) if found else Verdict(inputs, outputs)

    def _keep(self, node: onnx.NodeProto, code: str, text: str) -> Verdict:
        return Verdict(kept=Kept(label_of(node), node.op_type, code, text))

    # -- by what the node is -----------------------------------------------------------------

    def _by_name(self, node: onnx.NodeProto, formals: Formals | None) -> tuple[str, str] | None:
        draft = self.draft
        unwanted = self.precision.why_unwanted(node.op_type, draft.names_of(node))
        reasons = (
            ("user", bool(unwanted), unwanted),
            ("body", bool(body_protos(node)), ""),
            ("unknown", formals is None, f"operator {node.domain}::{node.op_type}"),
            ("never", node.op_type in _NEVER, node.op_type),
            ("rounding", id(node) in self._rounded, node.op_type),
            ("angle", id(node) in self._angles, node.op_type),
            ("stated", node.op_type in _STATED, node.op_type),
            ("stated", not any(map(draft.is_float, node.input)), node.op_type),
            ("stated", _holds_float(node), node.op_type),
        )
        for code, holds, text in reasons:
            if holds:
                return code, text
        values = (*node.input, *filter(lambda made: not draft.is_idle(made), node.output))
        if not all(draft.is_tensor(value) for value in values if value):
            return "type", "it has a value that is no tensor, or of no known type"
        return None

    def _places_by_type(
        self, node: onnx.NodeProto, formals: Formals
    ) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Return the indices of inputs and outputs that change, or the reason why none can.

        ``formals``: The variables of the operator's types.

        An input that takes float32 alone and has a type variable of its own, such as the scales of
        Resize, stays as it is.
        """
        draft, word = self.draft, f"tensor({self.low.onnx_name})"
        floats = [i for i, value in enumerate(node.input) if draft.is_float(value)]
        variables = {formals.inputs[i] for i in floats if formals.inputs[i] in formals.allowed}
        able = {name for name in variables if word in formals.allowed[name]}
        inputs = tuple(i for i in floats if formals.inputs[i] in able)
        stuck = variables - able
        if stuck & set(formals.outputs) or (0 in floats and 0 not in inputs):
            return (), (), f"{node.op_type} {formals.version} takes no {self.low.label}"
        made = [i for i, value in enumerate(node.output) if draft.is_float(value)]
        # a variable that no input given fixes: only inference knows the type
        loose = formals.allowed.keys() - {
            kind for kind, value in zip(formals.inputs, node.input, strict=True) if value
        }
        if any(formals.outputs[i] in loose for i in made):
            return (), (), f"{node.op_type} {formals.version} makes a type that no input states"
        return inputs, tuple(i for i in made if formals.outputs[i] in able), ""

    # -- by what it computes with ------------------------------------------------------------

    def _by_constants(self, node: onnx.NodeProto, inputs: Sequence[int]) -> tuple[str, str] | None:
        limits: Any = ml_dtypes.finfo(self.low.numpy)  # type: ignore[no-untyped-call]  # ships without types
        most, least = float(limits.max), float(limits.smallest_subnormal)
        for value in (node.input[i] for i in inputs if node.input[i] in self.draft.constants):
            smallest, largest = self._magnitudes(value)
            if largest > most:
                if node.op_type != "Clip":  # a limit that nothing reaches is no value
                    self._beyond.update(filter(None, node.output))
                return "weights", f"{value!r} reaches {largest:.4g}; {self.low.label} {most:.4g}"
            if 0 < largest < least:
                return "tiny", f"{value!r} is at most {largest:.4g}"
            is_half = self.low is DataType.FLOAT16
            if is_half and smallest < _COARSEST_SCALE and _is_scale(node, value):
                return "scale", f"{value!r} is {smallest:.4g}"
        beyond = [value for value in node.input if value in self._beyond]
        return ("reaches", f"{beyond[0]!r}") if beyond else None

    def _spread(self, node: onnx.NodeProto) -> None:
        """Note values that hold something beyond the range of the type, such as masks."""
        carries = node.op_type in _CARRYING and any(v in self._beyond for v in node.input)
        if node.op_type == "ConstantOfShape":
            limits: Any = ml_dtypes.finfo(self.low.numpy)  # type: ignore[no-untyped-call]  # ships without types
            filler = [onnx.numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"]
            carries = any(_extremes(one)[1] > float(limits.max) for one in filler)
        if carries:
            self._beyond.update(filter(None, node.output))

    def _magnitudes(self, value: str) -> tuple[float, float]:
        if value not in self._extremes:
            self._extremes[value] = _extremes(self.draft.array(value))
        return self._extremes[value]

    def _by_values(self, node: onnx.NodeProto) -> tuple[str, str] | None:
        if self.low is not DataType.FLOAT16:
            return None
        for value in (*node.input, *node.output):
            seen = self.ranges.values.get(value)
            if seen is None or value in self.draft.constants:
                continue
            magnitude = seen.threshold if seen.magnitude is None else seen.magnitude
            if magnitude > self.precision.data_max:
                return "activation", f"{value!r} reached {magnitude:.4g}"
        return None

    def _by_length(self, node: onnx.NodeProto) -> tuple[str, str] | None:
        """Say why a node stays as it is: it normalises, or its axis is long."""
        if node.op_type in _NORMALISING or id(node) in self._variances:
            return "normalisation", node.op_type
        if node.op_type in {"Softmax", "LogSoftmax", "TopK", "ArgMax", "ArgMin"}:
            length = axis_length(node, self.draft)
            if length is not None and length > _LONG_AXIS:
                code = "softmax" if node.op_type.endswith("Softmax") else "never"
                return code, f"an axis of {length}"
        return None

    def _by_depth(self, node: onnx.NodeProto, most: int) -> tuple[str, str] | None:
        count = terms(node, self.draft)
        return ("reduction", f"{count} terms") if count is not None and count > most else None


def _extremes(array: _Array) -> tuple[float, float]:
    """Return the smallest magnitude that is not 0 and the largest that is finite."""
    if array.dtype.kind not in "fV" or not array.size:
        return math.inf, 0.0
    # ml_dtypes reduce slowly; all others are looked at in their own type, since weights are large
    sizes = np.abs(array.astype(np.float32) if array.dtype.kind == "V" else array)
    known = np.isfinite(sizes) & (sizes > 0)
    smallest = sizes.min(where=known, initial=np.inf)
    return float(smallest), float(sizes.max(where=known, initial=0))


def _holds_float(node: onnx.NodeProto) -> bool:
    """Say whether an attribute is a tensor of float32, whose type an input has to have as well."""
    return any(a.t.data_type == onnx.TensorProto.FLOAT for a in node.attribute if a.HasField("t"))


def _is_scale(node: onnx.NodeProto, value: str) -> bool:
    quantizing = node.op_type in {"QuantizeLinear", "DequantizeLinear"}
    return quantizing and len(node.input) > 1 and node.input[1] == value
