"""``subgraphkit run``: the whole road once, with the time of each step."""

import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.binding.samples import Feed
from subgraphkit.bundling import BundleCall, BundleFiles, open_bundle
from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.road import bind_as_told, chosen_backends, feeds_as_told, load_as_told
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, add_feed_words, add_road_words, writable
from subgraphkit.comparing.stored_values import store_npz
from subgraphkit.compiling import close_all, compile_subgraphs
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.planning import Plan, plan
from subgraphkit.running import Session
from subgraphkit.texts import counted, listed

_EXAMPLE: Final = "squeezenet"
_Array = npt.NDArray[Any]
_Ready = tuple[Plan, dict[str, Feed]]
_FeedsOf = Callable[[BoundModel], dict[str, Feed]]


class _Stopwatch:
    """Seconds by step, in the order in which the steps were taken."""

    def __init__(self, report: CommandReport) -> None:
        self.seconds: dict[str, float] = {}
        self._report = report

    @contextmanager
    def step(self, name: str) -> Iterator[Progress]:
        started = time.perf_counter()
        with self._report.doing(name) as progress:
            yield progress
        self.seconds[name] = time.perf_counter() - started


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    target = arguments.output
    if arguments.example:
        _write_example(arguments.model, report)
    watch = _Stopwatch(report)
    feeds_of = partial(feeds_as_told, arguments=arguments, report=report)
    is_bundle = os.path.isdir(arguments.model)  # noqa: PTH112 (no name makes it raise)
    planned, feeds = (_opened if is_bundle else _compiled)(arguments, watch, feeds_of)
    bound = planned.graph
    with Session(planned) as session:
        with watch.step("run"):
            results = session.run(None, {name: feed.array for name, feed in feeds.items()})
        outputs = dict(zip(bound.outputs, results, strict=True))
        report.data = _data(session.partitioning, bound, feeds, outputs)
        report.data |= {"seconds": watch.seconds, "output_file": str(target) if target else None}
        report.data["operators"] = [
            {"subgraph": step.subgraph.id, "backend": step.subgraph.backend}
            | {"info": dict(step.operator.info())}
            for step in planned.steps
        ]
        report.note(f"backends: {chosen_backends(bound)}")
        _show(report, session.partitioning)
    if target is not None:
        with report.writing(target, f"stored {counted(len(outputs), 'output')} in {{}}"):
            store_npz(outputs, target)
    return ExitCode.OK


def _write_example(place: str, report: CommandReport) -> None:
    path = writable(place)
    if path.exists():
        raise usage_error(f"{place!r} is there already; --example writes a new file")
    models = import_module("subgraphkit.testing.light_models")
    report.keep(path, lambda: models.seeded_model(_EXAMPLE).SerializeToString(), "wrote {}")


def _compiled(arguments: Namespace, watch: _Stopwatch, feeds_of: _FeedsOf) -> _Ready:
    with watch.step("load"):
        model = load_as_told(arguments)
    with watch.step("bind"):
        bound = bind_as_told(arguments, model)
    feeds = feeds_of(bound)
    with watch.step("partition"):
        partitioning = partition(bound)
    with watch.step("compile") as progress:
        return plan(partitioning, compile_subgraphs(partitioning, progress=progress)), feeds


def _opened(arguments: Namespace, watch: _Stopwatch, feeds_of: _FeedsOf) -> _Ready:
    call = BundleCall(
        arguments.backend, arguments.shapes or {}, arguments.options, {"strict": arguments.strict}
    )
    with watch.step("open"):
        planned = open_bundle(BundleFiles(Path(arguments.model), trust=arguments.trust), call)
    try:
        return planned, feeds_of(planned.graph)
    except BaseException:
        close_all(step.operator for step in planned.steps)
        raise


def _data(
    partitioning: Partitioning,
    bound: BoundModel,
    feeds: Mapping[str, Feed],
    outputs: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "model": bound.name,
        "backends": list(partitioning.backends),
        "subgraphs": len(partitioning.subgraphs),
        "inputs": [
            {"name": name, "type": _type_of(feed.array), "source": feed.source}
            for name, feed in feeds.items()
        ],
        "outputs": [
            {"name": name, "type": _type_of(value), **_figures(value)}
            for name, value in outputs.items()
        ],
    }


def _type_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        label = "string" if value.dtype.kind in "OUT" else value.dtype.name
        return f"{label}[{','.join(map(str, value.shape))}]"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "nothing" if value is None else type(value).__name__


def _figures(value: Any) -> dict[str, Any]:
    """Summarise the numbers of an array; JSON has no word for those that are not finite."""
    nothing = {"min": None, "max": None, "mean": None, "not_finite": 0}
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUTcSMm":
        return nothing
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return {**nothing, "not_finite": int(numbers.size)}
    return {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(finite.mean()),
        "not_finite": int(numbers.size - finite.size),
    }


def _show(report: CommandReport, partitioning: Partitioning) -> None:
    data = report.data
    columns = "output=name type min:.6g max:.6g mean:.6g"
    report.show(table(columns, data["outputs"], give="output type"))
    for one in data["outputs"]:
        if one["not_finite"]:
            verb = "is" if one["not_finite"] == 1 else "are"
            report.note(f"{one['name']}: {counted(one['not_finite'], 'value')} {verb} not finite")
    report.note(f"subgraphs: {listed([one.id for one in partitioning.subgraphs], 4)}")
    times = [f"{name} {seconds * 1e3:.1f} ms" for name, seconds in data["seconds"].items()]
    report.show(f"times: {', '.join(times)}")


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "run model.onnx --example",
        "run model.onnx --seed 1",
        "run model.onnx --input x=picture.npy -o results.npz",
    )
    add_road_words(parser)
    add_feed_words(parser)
    parser.word("-o --output FILE.npz", "where to store the outputs", writable)
    parser.word("--example", "first write SqueezeNet, with random weights, into MODEL")
    parser.word("--trust", "open a bundle of somebody else; its engines run like programs")
