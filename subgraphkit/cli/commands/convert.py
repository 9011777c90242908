"""``subgraphkit convert``: a model written anew in fp16, bf16, int8 or fp8."""

import os
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
import onnx

from subgraphkit.binding import bind
from subgraphkit.cli.reporting import CommandReport, ExitCode, members, usage_error
from subgraphkit.cli.road import load_as_told, tell_feeds
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, add_bind_words, counting, tolerance, writable
from subgraphkit.comparing.stored_values import load_arrays, make_feeds
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.onnx_io import Model
from subgraphkit.precision import (
    AccuracyReport,
    Precision,
    Ranges,
    calibrate,
    measure_accuracy,
    precision_search,
    rewrite,
)
from subgraphkit.texts import count_of

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
            batch = load_arrays(file)
        except (OSError, ValueError) as error:
            raise usage_error(f"the batch {str(file)!r} cannot be read: {error}") from error
        if not isinstance(batch, dict):
            if len(self.inputs) != 1:
                has = f"holds one array, but the model has inputs {', '.join(self.inputs)}"
                raise _unfit(f"the batch {str(file)!r} {has}")
            return {self.inputs[0]: batch}
        if missing := [name for name in self.inputs if name not in batch]:
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
    wanted = _precision_of(arguments)
    ranges = _ranges(arguments, model, report)
    bounds = {"max_error": arguments.max_error, "min_snr": arguments.min_snr}
    is_bounded = any(bound is not None for bound in bounds.values())
    accuracy = None
    if arguments.search:
        search = partial(precision_search, model, wanted, ranges=ranges, **bounds)
        found = _over_batches("searching", search, arguments, model, report)
        done, accuracy = found.rewriting, found.accuracy
        report.data["search"] = {"keep": [*found.precision.keep], **members(found, "kept trials")}
        report.show(found.to_text())
    else:
        done = rewrite(model, wanted, ranges)
    report.data |= members(done, "lowered quantized kept casts notes was_quantized")
    report.show(done.to_text())
    if wanted.kind in {"int8", "fp8"} and (why := done.why_no_int8()):
        _warn(f"{wanted.kind} was asked for and no node reads {wanted.kind}: {why}")
    if arguments.values or (accuracy is None and (arguments.report or is_bounded)):
        compare = partial(measure_accuracy, model, done.model, values=arguments.values)
        accuracy = _over_batches("comparing", compare, arguments, model, report)
    if accuracy is not None:
        _show_accuracy(accuracy, arguments, report)
        if not accuracy.meets(**bounds):
            report.show(_describe_miss(bounds))
            return ExitCode.CHECK_FAILED
    size = done.model.ByteSize()
    report.keep(arguments.output, partial(_encode_model, done.model), f"{size:,} bytes: {{}}")
    report.data |= {"output": str(arguments.output), "bytes": size}
    return ExitCode.OK


def _precision_of(arguments: Namespace) -> Precision:
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


def _describe_miss(bounds: Mapping[str, float | None]) -> str:
    words = {"max_error": "an error of {:g} at most", "min_snr": "{:g} dB at least"}
    asked = [words[key].format(value) for key, value in bounds.items() if value is not None]
    missed = f"An output misses {' and '.join(asked)}; nothing stored."
    return f"{missed} To find nodes to keep: --search"


def _ranges(arguments: Namespace, model: Model, report: CommandReport) -> Ranges | None:
    report.data = {}
    if arguments.calibrate:
        return _calibrate(arguments, model, report)
    if arguments.ranges is None:
        return None
    ranges = Ranges.load(arguments.ranges)
    ranges.check_model(model)
    return ranges


def _calibrate(arguments: Namespace, model: Model, report: CommandReport) -> Ranges:
    """Find out how large values get, over batches, and keep it if a file is named."""
    if arguments.ranges:
        writable(arguments.ranges)
    settings = _session_settings(arguments)
    plain = bind(model, settings["shapes"], backend="none")
    batches = batches_in(arguments.calibrate, plain.inputs)
    with report.doing("calibrating") as progress:
        how = {"method": arguments.method, "percentile": arguments.percentile, **settings}
        ranges = calibrate(model, batches, progress=progress, **how)
    values, count = len(ranges.values), len(batches)
    report.data["ranges"] = {"batches": count, "values": values, "file": arguments.ranges}
    where = ""
    if arguments.ranges:
        ranges.save(arguments.ranges)
        where = f": {arguments.ranges}"
    report.show(f"{count_of(values, 'value')}, {count} batch{'es' * (count != 1)}{where}")
    return ranges


def _over_batches(
    what: str, work: Callable[..., Any], arguments: Namespace, model: Model, report: CommandReport
) -> Any:
    """Do something with the data to compare models on, on the backends that run them."""
    settings = _session_settings(arguments)
    bound = bind(model, settings["shapes"], backend="none")
    batches: Batches | list[dict[str, Any]]
    if arguments.data:
        batches = batches_in(arguments.data, bound.inputs)
    else:
        feeds = make_feeds(bound, {}, 0)
        tell_feeds(feeds, 0, report)
        batches = [{name: feed.array for name, feed in feeds.items()}]
    with report.doing(what) as progress:
        return work(batches=batches, progress=progress, **settings)


def _session_settings(arguments: Namespace) -> dict[str, Any]:
    shapes = arguments.shapes or {}
    return {"backend": arguments.backend, "shapes": shapes, "options": arguments.options}


def _encode_model(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() > _LARGEST_MESSAGE:
        sizes = f"{model.ByteSize()} bytes; a file of one part has {_LARGEST_MESSAGE} at most"
        hint = "Use subgraphkit.precision.rewrite with weights=, and store them beside."
        raise usage_error(f"the model would be {sizes}", hint=hint)
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
