"""Precision by rewriting the model, since the library computes in the types a model states."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from subgraphkit.errors import SubgraphkitWarning, UnsupportedModelError
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

__all__ = ["in_precision", "read_calibration"]

_NOTHING_TO_REWRITE = "SGK230"


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
        model as it is. A note says why, and a warning where a product might have read int8.

    Raises:
        CallerError: The calibration cannot be read (SGK233), or none is given for int8 (SGK231).
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
    if wanted.kind == "int8" and wanted.high_precision != "fp32":
        steps.append(replace(wanted, kind=wanted.high_precision))
    for step in steps:
        try:
            done = rewrite(proto, step, ranges, weights=weights)
        except UnsupportedModelError as error:
            if error.code != _NOTHING_TO_REWRITE:
                raise
            notes = (*notes, error.message)
            if step.kind == "int8":
                _warn(error.message)
        else:
            # a subgraph without products is what is left between others
            if step.kind == "int8" and any(one.step == "quantize" for one in done.kept):
                _warn(done.why_no_int8())
            return replace(done, notes=(*notes, *done.notes))
    return Rewriting(proto, weights, notes=notes)


def _warn(why: str) -> None:
    if why:
        told = f"precision=int8 was asked for, and no node of a subgraph reads int8: {why}"
        warnings.warn(SubgraphkitWarning(told), stacklevel=3)


def read_calibration(path: Path | None) -> Ranges | None:
    """Read ranges of values from our own file or a calibration cache of TensorRT.

    Raises:
        CallerError: The file cannot be read (SGK233).
    """
    if path is None:
        return None
    return read_calibration_cache(path) if is_calibration_cache(path) else Ranges.load(path)
