"""``subgraphkit convert``: a model written anew in fp16, bf16, int8 or fp8."""

import os
import warnings
import zipfile
import zlib
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from subgraphkit.binding import bind
from subgraphkit.cli.reporting import CommandReport, ExitCode, members, usage_error
from subgraphkit.cli.road import load_as_told, tell_feeds
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, add_bind_words, counting, tolerance, writable
from subgraphkit.comparing.stored_values import make_feeds
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.onnx_io import Model
from subgraphkit.precision import (
    AccuracyReport,
    Precision,
    PrecisionSearch,
    Ranges,
    Rewriting,
    calibrate,
    is_calibration_cache,
    measure_accuracy,
    precision_search,
    read_calibration_cache,
    rewrite,
)
from subgraphkit.texts import counted

_KINDS = {".npz", ".npy"}


@dataclass(frozen=True, slots=True)
class Batches:
    """Files with a batch each, read when their turn comes."""

    files: tuple[Path, ...]
    inputs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        return (self._read(file) for file in self.files)

    def _read(self, file: Path) -> dict[str, npt.NDArray[Any]]:
        try:
            with file.open("rb") as opened:  # NumPy leaves it open if it is damaged
                stored = np.load(opened, allow_pickle=False)
                is_array = isinstance(stored, np.ndarray)
                batch = dict(zip(self.inputs, [stored], strict=False)) if is_array else dict(stored)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            problem = f"the batch {str(file)!r} cannot be read: {error}"
            raise usage_error(problem) from error
        if is_array and len(self.inputs) != 1:
            names = ", ".join(self.inputs)
            raise _unfit(
                f"the batch {str(file)!r} holds one array, but the model has inputs {names}"
            )
        missing = [name for name in self.inputs if name not in batch]
        if missing:
            has = f"no array {missing[0]!r}; it has {sorted(batch)}"
            raise _unfit(f"the batch {str(file)!r} has {has}")
        return {name: batch[name] for name in self.inputs}


def _unfit(problem: str) -> CallerError:
    hint = "Store batches with numpy.savez(path, **feeds), by input name."
    return usage_error(problem, hint=hint)


def batches_in(places: Sequence[str], inputs: Sequence[str]) -> Batches:
    """Find the batches in files and folders; CallerError (SGK301) if a place has none."""
    files: list[Path] = []
    for place in map(Path, places):
        found = [place]
        if os.path.isdir(place):  # noqa: PTH112 (no name makes it raise)
            found = sorted(file for file in place.iterdir() if file.suffix in _KINDS)
        if not found or not all(
            os.path.isfile(file) and file.suffix in _KINDS  # noqa: PTH113 (as above)
            for file in found
        ):
            raise _unfit(f"{str(place)!r} is no .npz or .npy file and no folder with any")
        files += found
    return Batches(tuple(files), tuple(inputs))


_LARGEST_MESSAGE = (1 << 31) - 1

_VALUES: Final = "value=name max_abs:.3g mean_abs:.3g snr_db:.1f cosine:.6f largest:.3g"
_NODES: Final = "node operator=op_type snr_in=input_snr_db:.1f snr_out=snr_db:.1f"
_LAYERS: Final = 10
"""Nodes that people are shown; ``--json`` has all."""


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    model = load_as_told(arguments)
    wanted = _wanted(arguments)
    ranges = _ranges(arguments, model, report)
    bounds = {"max_error": arguments.max_error, "min_snr": arguments.min_snr}
    is_bounded = any(bound is not None for bound in bounds.values())
    accuracy = None
    if arguments.search:
        found = _searched(arguments, model, wanted, ranges, report)
        done, accuracy = found.rewriting, found.accuracy
        report.data["search"] = {
            "keep": list(found.precision.keep),
            **members(found, "kept trials"),
        }
        report.show(found.to_text())
    else:
        done = rewrite(model, wanted, ranges)
    report.data |= members(done, "lowered quantized kept casts notes was_quantized")
    report.show(done.to_text())
    if wanted.kind in {"int8", "fp8"} and (why := done.why_no_int8()):
        _warn(f"{wanted.kind} was asked for and no node reads {wanted.kind}: {why}")
    if arguments.values or (accuracy is None and (arguments.report or is_bounded)):
        accuracy = _accuracy(arguments, model, done, report)
    if accuracy is not None:
        _show_accuracy(accuracy, arguments, report)
        if not accuracy.meets(**bounds):
            report.show(_missed(bounds))
            return ExitCode.CHECK_FAILED
    size = done.model.ByteSize()
    report.keep(arguments.output, partial(_stored, done.model), f"{size:,} bytes: {{}}")
    report.data |= {"output": str(arguments.output), "bytes": size}
    return ExitCode.OK


def _wanted(arguments: Namespace) -> Precision:
    limits = {
        name: value
        for name in ("data_max", "max_reduction", "min_input_snr")
        if (value := getattr(arguments, name)) is not None
    }
    return Precision(
        arguments.precision,
        keep=tuple(arguments.keep),
        only=tuple(arguments.only),
        high_precision=arguments.high_precision,
        **limits,
    )


def _searched(
    arguments: Namespace,
    model: Model,
    wanted: Precision,
    ranges: Ranges | None,
    report: CommandReport,
) -> PrecisionSearch:
    batches, settings = _batches(arguments, model, report)
    with report.doing("searching") as progress:
        return precision_search(
            model,
            wanted,
            batches,
            max_error=arguments.max_error,
            min_snr=arguments.min_snr,
            ranges=ranges,
            progress=progress,
            **settings,
        )


def _warn(text: str) -> None:
    warnings.warn(SubgraphkitWarning(text), stacklevel=2)


def _overflowing(accuracy: AccuracyReport, arguments: Namespace) -> str:
    where = "" if arguments.values else " --values shows where it begins."
    remedies = ["--search and a bound find nodes to keep"]
    if arguments.precision == "fp16" or arguments.high_precision == "fp16":
        limit = "a lower --data-max" if arguments.ranges else "--ranges (see --data-max)"
        remedies.insert(0, f"with {limit}, nodes that see large values stay")
        remedies.append("bf16 has the range of float32")
    return (
        "the rewritten model returns values that are not finite where the original's are: "
        f"{accuracy.not_finite}.{where} What helps: {'; '.join(remedies)}"
    )


def _show_accuracy(accuracy: AccuracyReport, arguments: Namespace, report: CommandReport) -> None:
    report.data["accuracy"] = members(accuracy, "batches outputs values layers")
    # a search looks at inner values whether or not anyone wants to see them
    shown = accuracy.values if arguments.values else ()
    report.show(table(_VALUES, (*shown, *accuracy.outputs)))
    if accuracy.layers and arguments.values:
        report.show(table(_NODES, accuracy.layers[:_LAYERS]))
    if accuracy.not_finite:
        _warn(_overflowing(accuracy, arguments))


def _missed(bounds: Mapping[str, float | None]) -> str:
    words = {"max_error": "an error of {:g} at most", "min_snr": "{:g} dB at least"}
    told = [words[key].format(value) for key, value in bounds.items() if value is not None]
    return f"An output misses {' and '.join(told)}; nothing stored. To find nodes to keep: --search"


def _ranges(arguments: Namespace, model: Model, report: CommandReport) -> Ranges | None:
    file, report.data = arguments.ranges, {}
    if arguments.calibrate:
        return _calibrated(arguments, model, report)
    if file is None:
        return None
    if is_calibration_cache(file):
        return read_calibration_cache(file)
    ranges = Ranges.load(file)
    ranges.check_model(model)
    return ranges


def _calibrated(arguments: Namespace, model: Model, report: CommandReport) -> Ranges:
    """Find out how large values get, over batches, and keep it if a file is named."""
    if arguments.ranges:
        writable(arguments.ranges)
    settings = _session_settings(arguments)
    plain = bind(model, settings["shapes"], backend="none")
    batches = batches_in(arguments.calibrate, plain.inputs)
    with report.doing("calibrating") as progress:
        ranges = calibrate(
            model,
            batches,
            method=arguments.method,
            percentile=arguments.percentile,
            progress=progress,
            **settings,
        )
    values, count = len(ranges.values), len(batches)
    report.data["ranges"] = {"batches": count, "values": values, "file": arguments.ranges}
    where = ""
    if arguments.ranges:
        ranges.save(arguments.ranges)
        where = f": {arguments.ranges}"
    report.show(f"{counted(values, 'value')}, {count} batch{'es' * (count != 1)}{where}")
    return ranges


def _accuracy(
    arguments: Namespace, model: Model, done: Rewriting, report: CommandReport
) -> AccuracyReport:
    batches, settings = _batches(arguments, model, report)
    with report.doing("comparing") as progress:
        return measure_accuracy(
            model, done.model, batches, values=arguments.values, progress=progress, **settings
        )


def _batches(
    arguments: Namespace, model: Model, report: CommandReport
) -> tuple[Batches | list[Mapping[str, Any]], dict[str, Any]]:
    """Return what the models are compared on, and what runs them."""
    settings = _session_settings(arguments)
    bound = bind(model, settings["shapes"], backend="none")
    if arguments.data:
        return batches_in(arguments.data, bound.inputs), settings
    feeds = make_feeds(bound, {}, 0)
    tell_feeds(feeds, 0, report)
    return [{name: feed.array for name, feed in feeds.items()}], settings


def _session_settings(arguments: Namespace) -> dict[str, Any]:
    return {
        "backend": arguments.backend,
        "shapes": arguments.shapes or {},
        "options": arguments.options,
    }


def _stored(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() > _LARGEST_MESSAGE:
        raise usage_error(
            f"the model would be {model.ByteSize()} bytes; a file of one part has "
            f"{_LARGEST_MESSAGE} at most",
            hint="Use subgraphkit.precision.rewrite with weights=, and store them beside.",
        )
    return bytes(model.SerializeToString())


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "convert model.onnx --precision fp16 -o half.onnx --report",
        "convert model.onnx --precision int8 --calibrate batches/ -o small.onnx",
        "convert model.onnx --precision int8 --ranges ranges.json -o small.onnx",
    )
    add_bind_words(parser)
    kinds = ("fp16", "bf16", "int8", "fp8")
    parser.word("--precision", "what nodes are to compute in", choices=kinds, required=True)
    parser.word("-o --output FILE.onnx", "where to store the model", writable, required=True)
    purpose = "find how large values get, over .npz files with a batch each, or folders of them"
    parser.word("--calibrate PLACE", purpose, default=[], nargs="+")
    parser.word("--ranges FILE", "what --calibrate stores, or a calibration cache of TensorRT")
    purpose, methods = "how --calibrate finds limits", ("mse", "percentile", "minmax")
    parser.word("--method", purpose, default="mse", choices=methods)
    parser.word("--percentile P", "percent that are not clipped, for that method", float, 99.99)
    purpose, plain = "what is computed in beside int8 or fp8", ("fp32", "fp16", "bf16")
    parser.word("--high-precision", purpose, default="fp32", choices=plain)
    purpose = "operator, node or node's output that stays, a regular expression"
    parser.word("--keep PATTERN", purpose, several=True)
    parser.word("--only PATTERN", "the same, beside which all others stay", several=True)
    parser.word("--data-max X", "with fp16 and ranges, larger values keep a node", tolerance)
    parser.word("--max-reduction N", "nodes that sum more terms stay", counting(1))
    purpose = "with int8, products stay whose input int8 holds worse; 0 for no limit"
    parser.word("--min-input-snr DB", purpose, tolerance)
    parser.word("--report", "compare the outputs of both models")
    parser.word("--values", "with --report, compare inner values too: where error is born")
    fails = "fail, and store nothing, if an output {}; implies --report"
    parser.word("--max-error X", fails.format("is further off"), tolerance)
    parser.word("--min-snr DB", fails.format("has a lower ratio of signal to noise"), tolerance)
    parser.word("--search", "find nodes to keep so that --max-error and --min-snr hold")
    parser.word("--data PLACE", "as --calibrate, for the report", default=[], nargs="+")
    parser.word("--backend LIST", "backends that run the model", default="numpy")
