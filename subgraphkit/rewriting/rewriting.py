"""The rewriting as a whole: operator set, folding, int8, and short floats node by node."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.errors import CallerError, UnsupportedModelError
from subgraphkit.ir.adjacency import unite_groups
from subgraphkit.onnx_io.model import Model, load
from subgraphkit.onnx_io.sources import ModelSource
from subgraphkit.rewriting.draft import Draft, draft_of, label_of, skeleton_of
from subgraphkit.rewriting.preparing import (
    convert_opset,
    fold_normalisations,
    is_quantized,
    make_symmetric,
    opset_wanted,
    quantizing_opset,
)
from subgraphkit.rewriting.quantizing import places, quantize
from subgraphkit.rewriting.ranges import Ranges
from subgraphkit.rewriting.records import QUANTIZED, Kept, Precision, Rewriting, precision_of
from subgraphkit.rewriting.rules import FREE, MOVING, Judge, Verdict
from subgraphkit.types import DataType

# Operators that give the same for a short float as for the float32 it is widened to.
_INDIFFERENT: Final = FREE | {"Cast"}


def _lower(draft: Draft, judge: Judge, account: Rewriting) -> Rewriting:
    """Let nodes compute in a short float, in place.

    Inputs and outputs of the model, and inputs of bodies, keep names and types. A value is cast
    once to each type, a constant converted once.
    """
    verdicts = [judge.judge(node) for node in draft.nodes]
    _keep_between(draft, verdicts)
    work = _Lowering(draft, judge.low)
    changed = dict.fromkeys(account.changed)  # a set would forget the order
    for node, verdict in zip(draft.nodes, verdicts, strict=True):
        if verdict.inputs:
            changed[next(filter(None, node.output))] = None
        work.add(node, verdict)
    draft.nodes[:] = work.nodes
    kept = (*account.kept, *(verdict.kept for verdict in verdicts if verdict.kept is not None))
    lowered = tuple(work.lowered)
    return replace(account, lowered=lowered, changed=tuple(changed), kept=kept, casts=work.casts)


def _keep_between(draft: Draft, verdicts: list[Verdict]) -> None:
    """Keep those that only move values from kept nodes to kept nodes: they would cost two Casts."""
    low = {
        value
        for node, verdict in zip(draft.nodes, verdicts, strict=True)
        for place, value in enumerate(node.output)
        if place in verdict.outputs
    }

    def read(places: Iterable[int]) -> Counter[str]:
        return Counter(draft.nodes[i].input[at] for i in places for at in verdicts[i].inputs)

    wanted = read(range(len(draft.nodes)))
    for group in _moving_groups(draft, verdicts):
        moved = {value for i in group for value in draft.nodes[i].output if value in low}
        inner = read(group)
        from_low = any(value in low and value not in moved for value in inner)
        if from_low or any(wanted[value] > inner[value] for value in moved):
            continue
        for i in group:
            node = draft.nodes[i]
            verdicts[i] = Verdict(kept=Kept(label_of(node), node.op_type, "between", ""))


def _moving_groups(draft: Draft, verdicts: list[Verdict]) -> list[list[int]]:
    """Return the connected groups of nodes that only move values."""
    makers: dict[str, int] = {}
    joined = []
    for i, node in enumerate(draft.nodes):
        if node.op_type in MOVING and verdicts[i].inputs:
            read = [node.input[place] for place in verdicts[i].inputs]
            joined.append([i, *(makers[value] for value in read if value in makers)])
            makers.update((value, i) for value in node.output if value)
    return unite_groups(joined)


@dataclass(eq=False)
class _Lowering:
    """The new list of nodes while it grows."""

    draft: Draft
    low: DataType
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)
    casts: int = 0
    _short: dict[str, str] = field(default_factory=dict)  # float32 value -> its short twin
    _long: dict[str, str] = field(default_factory=dict)  # short value -> its float32 twin

    def __post_init__(self) -> None:
        for node in self.draft.nodes:
            # widened values need not be cast back
            is_cast = node.op_type == "Cast" and self.draft.is_float(node.output[0])
            if is_cast and self.draft.is_of(node.input[0], self.low):
                self._short[node.output[0]] = node.input[0]

    def add(self, node: onnx.NodeProto, verdict: Verdict) -> None:
        """Add a node, and the Casts it needs before and behind it."""
        for place, value in enumerate(node.input):
            if place in verdict.inputs:
                node.input[place] = self._shorten(value)
            elif value in self._long and node.op_type not in _INDIFFERENT:
                node.input[place] = self._widen(value)
        self.nodes.append(node)
        self.lowered += [label_of(node)] if verdict.inputs else []
        for place in verdict.outputs:
            self._make_short(node, place)

    def _make_short(self, node: onnx.NodeProto, place: int) -> None:
        value = node.output[place]
        if value not in self.draft.pinned:
            self.draft.retype(value, self.low, value)
            self._long[value] = ""
            return
        short = self.draft.fresh(f"{value}_{self.low.label}")
        self.draft.retype(short, self.low, value)
        node.output[place] = short
        self._short[value] = short
        self._cast(short, value, DataType.FLOAT)

    def _shorten(self, value: str) -> str:
        if value in self._long:
            return value
        if value not in self._short:
            name = f"{value}_{self.low.label}"
            if value in self.draft.constants and value not in self.draft.pinned:
                with np.errstate(over="ignore"):
                    array = self.draft.array(value).astype(self.low.numpy)
                self._short[value] = self.draft.store(name, array, value)
            else:
                self._short[value] = self.draft.fresh(name)
                self.draft.retype(self._short[value], self.low, value)
                self._cast(value, self._short[value], self.low)
        return self._short[value]

    def _widen(self, value: str) -> str:
        if not self._long[value]:
            self._long[value] = self.draft.fresh(f"{value}_float32")
            self.draft.retype(self._long[value], DataType.FLOAT, value)
            self._cast(value, self._long[value], DataType.FLOAT)
        return self._long[value]

    def _cast(self, source: str, target: str, to: DataType) -> None:
        name = self.draft.fresh(f"cast_{target}")
        self.nodes.append(helper.make_node("Cast", [source], [target], name=name, to=int(to)))
        self.casts += 1


def rewrite(
    source: ModelSource | Model,
    precision: Precision | str,
    ranges: Ranges | None = None,
    *,
    weights: Mapping[str, npt.NDArray[Any]] | None = None,
) -> Rewriting:
    """Write a model anew in another precision; any backend can run the result.

    Inputs and outputs keep names, types and shapes; bodies of If, Loop and Scan keep float32.
    Rewriting again changes nothing. Only float32 is rewritten: double stays.

    Args:
        source: The model: anything ``load`` takes, or a loaded model; not changed. The model of a
            subgraph will do, since ranges are found by value name.
        precision: The precision; a word stands for a ``Precision`` without exceptions.
        ranges: The ranges of values, needed for int8 and fp8; fp16 keeps nodes with large values by
            them. ``Ranges.check_model`` checks that they are of this model.
        weights: Data of initializers that are outside the model, as ``outside_weights`` returns
            it. Weights made from these are outside the result too.

    Returns:
        The new model with an account of changed and unchanged nodes, and the reasons.

    Raises:
        CallerError: The precision is unknown (SGK231), int8 or fp8 without ranges (SGK231),
            or a weight is missing or does not fit (SGK231).
        UnsupportedModelError: No node can be rewritten as asked (SGK230), or the model came with
            asymmetric quantisation and int8 is asked for (SGK235).
        ModelError: The model breaks a rule of ONNX (SGK202 to SGK222).

    Thread-safety: safe.
    """
    wanted = precision_of(precision)
    model = source if isinstance(source, Model | onnx.ModelProto) else load(source)
    skeleton, stored = skeleton_of(model, weights)
    notes: list[str] = []
    if version := opset_wanted(skeleton, wanted):
        skeleton, obstacle = convert_opset(skeleton, version)
        told = f"could not be raised to {version}: {obstacle}" if obstacle else f"is now {version}"
        notes.append(f"the operator set {told}")
    draft = draft_of(skeleton, stored)
    if was_quantized := is_quantized(draft):
        notes.append("the model came with QuantizeLinear or DequantizeLinear, which stay")
    account = Rewriting(onnx.ModelProto(), notes=tuple(notes), was_quantized=was_quantized)
    if wanted.kind in QUANTIZED:
        account = _quantize(draft, wanted, ranges, account)
    if wanted.low is not None:
        judge = Judge(draft, wanted, wanted.low, ranges or Ranges())
        account = _lower(draft, judge, account)
    proto, outside = draft.finish()
    return replace(account, model=proto, weights=outside)


def _quantize(
    draft: Draft, wanted: Precision, ranges: Ranges | None, account: Rewriting
) -> Rewriting:
    if account.was_quantized:
        count = make_symmetric(draft)
        told = [f"{count} of its uint8 with zero point 128 are int8 now"] if count else []
        return replace(account, notes=(*account.notes, *told))
    if ranges is None:
        raise CallerError(
            "SGK231",
            f"{wanted.kind} needs ranges of the model's values, and none were given",
            hint="Find them with 'subgraphkit convert --calibrate'; in Python, "
            "with subgraphkit.precision.calibrate, or Ranges.load for a cache of TensorRT's.",
        )
    needed = quantizing_opset(wanted)
    if draft.opset() < needed:
        raise UnsupportedModelError(
            "SGK230",
            f"the model is of operator set {draft.opset()}; {wanted.kind} with a scale per channel "
            f"needs {needed}: {'; '.join(account.notes)}",
            hint="Export the model for a newer operator set.",
        )
    folded = fold_normalisations(draft)
    notes = [f"{folded} BatchNormalizations were folded"] if folded else []
    found, kept = places(draft, wanted, ranges)
    codes = {one.code for one in kept}
    if not found and "range" in codes and "user" not in codes:
        missing = next(one.text for one in kept if one.code == "range")
        raise UnsupportedModelError(
            "SGK230",
            f"no node can be quantized: there is no range for {missing}, nor for any other value "
            "that would have to be",
            hint="Ranges are found by value name; calibrate the model itself.",
        )
    return replace(
        account,
        quantized=quantize(draft, found, ranges, wanted),
        quantized_as=wanted.kind,
        changed=tuple(place.node.output[0] for place in found),
        kept=tuple(kept),
        notes=(*account.notes, *notes),
    )
