"""``subgraphkit convert``: a model written anew in fp16, bf16 or int8."""

import math
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from subgraphkit.binding import bind
from subgraphkit.cli.batches import batches_in
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.feeding import make_feeds, tell_feeds
from subgraphkit.cli.reporting import Report
from subgraphkit.cli.road import shapes_as_told
from subgraphkit.cli.tables import Table
from subgraphkit.cli.values import merge_options
from subgraphkit.comparing.accuracy import AccuracyReport, ValueAccuracy, measure_accuracy
from subgraphkit.errors import CallerError
from subgraphkit.onnx_io import Model, load
from subgraphkit.onnx_io.precision import (
    Precision,
    Ranges,
    Rewriting,
    is_calibration_cache,
    read_calibration_cache,
    rewrite,
)

__all__ = ["execute"]

_LARGEST_MESSAGE = (1 << 31) - 1


def execute(arguments: Namespace, report: Report) -> ExitCode:
    """Rewrite, compare if asked, and store."""
    model = load(arguments.model)
    wanted = Precision(
        arguments.precision,
        keep=tuple(arguments.keep),
        only=tuple(arguments.only),
        high_precision=arguments.high_precision,
    )
    done = rewrite(model, wanted, _ranges(arguments.ranges, model))
    report.data = _data(done)
    report.show(done.to_text())
    if arguments.report or arguments.max_error is not None:
        accuracy = _accuracy(arguments, model, done, report)
        report.data["accuracy"] = _accuracy_data(accuracy)
        report.show(_table(accuracy))
        if arguments.max_error is not None and not accuracy.max_error <= arguments.max_error:
            report.show(f"An output is off by more than {arguments.max_error:g}; nothing stored.")
            return ExitCode.CHECK_FAILED
    size = _store(done.model, Path(arguments.output))
    report.data |= {"output": arguments.output, "bytes": size}
    report.show(f"{size} bytes: {arguments.output}")
    return ExitCode.OK


def _ranges(file: str | None, model: Model) -> Ranges | None:
    if file is None:
        return None
    if is_calibration_cache(file):
        return read_calibration_cache(file)
    ranges = Ranges.load(file)
    ranges.check_model(model)
    return ranges


def _accuracy(
    arguments: Namespace, model: Model, done: Rewriting, report: Report
) -> AccuracyReport:
    shapes = shapes_as_told(arguments)
    bound = bind(model, shapes, backend="none")
    batches: Iterable[Mapping[str, Any]]
    if arguments.data:
        batches = batches_in(arguments.data, bound.inputs)
    else:
        feeds = make_feeds(bound, {}, 0)
        tell_feeds(feeds, 0, report)
        batches = [{name: feed.array for name, feed in feeds.items()}]
    with report.doing("comparing"):
        return measure_accuracy(
            model,
            done.model,
            batches,
            backend=arguments.backend,
            values=arguments.values,
            shapes=shapes,
            options=merge_options(arguments.option) or None,
        )


def _store(model: onnx.ModelProto, path: Path) -> int:
    """Store a model whole; return its size."""
    if model.ByteSize() > _LARGEST_MESSAGE:
        raise CallerError(
            "SGK301",
            f"the model would be {model.ByteSize()} bytes; a file of one part has "
            f"{_LARGEST_MESSAGE} at most",
            hint="Use subgraphkit.onnx_io.precision.rewrite with weights=, and store them beside.",
        )
    try:
        return path.write_bytes(model.SerializeToString())
    except OSError as error:
        raise CallerError("SGK301", f"{str(path)!r} cannot be written: {error.strerror}") from error


def _data(done: Rewriting) -> dict[str, Any]:
    return {
        "lowered": list(done.lowered),
        "quantized": list(done.quantized),
        "kept": [asdict(one) for one in done.kept],
        "casts": done.casts,
        "notes": list(done.notes),
        "was_quantized": done.was_quantized,
    }


def _accuracy_data(found: AccuracyReport) -> dict[str, Any]:
    rows = {"outputs": found.outputs, "values": found.values}
    named = {key: [_in_json(one) for one in group] for key, group in rows.items()}
    return {"batches": found.batches, **named}


def _in_json(one: ValueAccuracy) -> dict[str, Any]:
    """Write numbers that JSON has no word for as text."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(one).items()
    }


def _table(found: AccuracyReport) -> Table:
    columns = "value max_abs mean_abs snr_db cosine largest"
    rows = [
        (
            one.name,
            f"{one.max_abs:.3g}",
            f"{one.mean_abs:.3g}",
            f"{one.snr_db:.1f}",
            f"{one.cosine:.6f}",
            f"{one.largest:.3g}",
        )
        for one in (*found.values, *found.outputs)
    ]
    return Table.of(columns, rows, right=columns.removeprefix("value "))
