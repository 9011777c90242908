"""The rewriting as a whole: operator set, folding, int8, short floats."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt
import onnx

from subgraphkit.errors import CallerError, UnsupportedModelError
from subgraphkit.onnx_io.model import Model, load
from subgraphkit.onnx_io.sources import ModelSource
from subgraphkit.rewriting.draft import Draft, draft_of, skeleton_of
from subgraphkit.rewriting.lowering import lower
from subgraphkit.rewriting.preparing import (
    fold_normalisations,
    is_quantized,
    make_symmetric,
    opset_wanted,
    quantizing_opset,
    raised,
)
from subgraphkit.rewriting.quantizing import places, quantize
from subgraphkit.rewriting.ranges import Ranges
from subgraphkit.rewriting.records import QUANTIZED, Precision, Rewriting, precision_of
from subgraphkit.rewriting.rules import Judge

__all__ = ["rewrite"]


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
        precision: What is asked for; a word stands for a ``Precision`` without exceptions.
        ranges: How large values get; needed for int8 and fp8; fp16 keeps nodes by them whose values
            are large. Whether they belong to this model is for ``Ranges.check_model`` to say.
        weights: Data of initializers that are outside the model, as ``outside_weights`` returns
            it. Weights made from these are outside the result too.

    Returns:
        The new model with an account of what was done and what not, and why.

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
        skeleton, obstacle = raised(skeleton, version)
        told = f"could not be raised to {version}: {obstacle}" if obstacle else f"is now {version}"
        notes.append(f"the operator set {told}")
    draft = draft_of(skeleton, stored)
    was_quantized = is_quantized(draft)
    if was_quantized:
        notes.append("the model came with QuantizeLinear or DequantizeLinear, which stay")
    account = Rewriting(onnx.ModelProto(), notes=tuple(notes), was_quantized=was_quantized)
    if wanted.kind in QUANTIZED:
        account = _quantized(draft, wanted, ranges, account)
    if wanted.low is not None:
        account = _to_short(draft, wanted, ranges or Ranges(), account)
    proto, outside = draft.finish()
    return replace(account, model=proto, weights=outside)


def _quantized(
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
            hint="Find them with 'subgraphkit calibrate' and pass them with --ranges; in Python, "
            "with subgraphkit.precision.calibrate, or read_calibration_cache for TensorRT's.",
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
    notes = (f"{folded} BatchNormalizations were folded",) if folded else ()
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
    quantized = quantize(draft, found, ranges, wanted)
    changed = tuple(place.node.output[0] for place in found)
    notes = (*account.notes, *notes)
    return replace(
        account,
        quantized=quantized,
        quantized_as=wanted.kind,
        changed=changed,
        kept=tuple(kept),
        notes=notes,
    )


def _to_short(draft: Draft, wanted: Precision, ranges: Ranges, account: Rewriting) -> Rewriting:
    low = wanted.low
    if low is None:
        return account
    done = lower(draft, Judge(draft, wanted, low, ranges))
    # a set would forget the order
    changed = tuple(dict.fromkeys((*account.changed, *done.outputs)))
    kept = (*account.kept, *done.kept)
    return replace(account, lowered=done.nodes, changed=changed, kept=kept, casts=done.casts)
