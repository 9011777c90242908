"""``subgraphkit run``: the whole road once, with the time of each step."""

import os
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.binding.samples import Feed
from subgraphkit.bundling import BundleFiles, open_bundle
from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.road import bind_as_told, chosen_backends, feeds_as_told, load_as_told
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, add_feed_words, add_road_words, writable
from subgraphkit.comparing.stored_values import store_npz
from subgraphkit.compiling import close_all, compile_subgraphs
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.planning import Plan, plan
from subgraphkit.running import Session
from subgraphkit.texts import count_of, list_texts

_EXAMPLE: Final = "squeezenet"
_Array = npt.NDArray[Any]
_Ready = tuple[Plan, dict[str, Feed]]


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    target = arguments.output
    if arguments.example:
        _write_example(arguments.model, report)
    is_bundle = os.path.isdir(arguments.model)  # noqa: PTH112 (no name makes it raise)
    planned, feeds = (_open_bundle if is_bundle else _compile)(arguments, report)
    bound = planned.graph
    with Session(planned) as session:
        with report.doing("run"):
            results = session.run(None, {name: feed.array for name, feed in feeds.items()})
        outputs = dict(zip(bound.outputs, results, strict=True))
        report.data = _data(session, feeds, outputs)
        report.data |= {"seconds": report.seconds, "output_file": str(target) if target else None}
        report.data["operators"] = [
            {"subgraph": step.subgraph.id, "backend": step.subgraph.backend}
            | {"info": dict(step.operator.info())}
            for step in planned.steps
        ]
        report.note(f"backends: {chosen_backends(bound)}")
        _show(report, session.partitioning)
    if target is not None:
        with report.writing(target, f"stored {count_of(len(outputs), 'output')} in {{}}"):
            store_npz(outputs, target)
    return ExitCode.OK


def _write_example(place: str, report: CommandReport) -> None:
    path = writable(place)
    if path.exists():
        raise usage_error(f"{place!r} is there already; --example writes a new file")
    models = import_module("subgraphkit.testing.light_models")
    report.keep(path, lambda: models.seeded_model(_EXAMPLE).SerializeToString(), "wrote {}")


def _compile(arguments: Namespace, report: CommandReport) -> _Ready:
    with report.doing("load"):
        model = load_as_told(arguments)
    with report.doing("bind"):
        bound = bind_as_told(arguments, model)
    feeds = feeds_as_told(bound, arguments, report)
    with report.doing("partition"):
        partitioning = partition(bound)
    with report.doing("compile") as progress:
        return plan(partitioning, compile_subgraphs(partitioning, progress=progress)), feeds


def _open_bundle(arguments: Namespace, report: CommandReport) -> _Ready:
    given = arguments.backend, arguments.shapes, arguments.options
    with report.doing("open"):
        files = BundleFiles(Path(arguments.model), trust=arguments.trust)
        planned = open_bundle(files, *given, strict=arguments.strict)
    try:
        return planned, feeds_as_told(planned.graph, arguments, report)
    except BaseException:
        close_all(step.operator for step in planned.steps)
        raise


def _data(session: Session, feeds: Mapping[str, Feed], made: Mapping[str, Any]) -> dict[str, Any]:
    partitioning = session.partitioning
    return {
        "model": session.graph.name,
        "backends": list(partitioning.backends),
        "subgraphs": len(partitioning.subgraphs),
        "inputs": [
            {"name": name, "type": _type_of(feed.array), "source": feed.source}
            for name, feed in feeds.items()
        ],
        "outputs": [
            {"name": name, "type": _type_of(value), **_figures(value)}
            for name, value in made.items()
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
    is_numeric = isinstance(value, np.ndarray) and value.dtype.kind not in "OUTcSMm"
    numbers = value.astype(np.float64) if is_numeric else np.empty(0)
    finite = numbers[np.isfinite(numbers)]
    found = {
        name: float(getattr(finite, name)()) if finite.size else None
        for name in ("min", "max", "mean")
    }
    return {**found, "not_finite": int(numbers.size - finite.size)}


def _show(report: CommandReport, partitioning: Partitioning) -> None:
    data = report.data
    columns = "output=name type min:.6g max:.6g mean:.6g"
    report.show(table(columns, data["outputs"], give="output type"))
    for one in data["outputs"]:
        if one["not_finite"]:
            verb = "is" if one["not_finite"] == 1 else "are"
            report.note(f"{one['name']}: {count_of(one['not_finite'], 'value')} {verb} not finite")
    report.note(f"subgraphs: {list_texts([one.id for one in partitioning.subgraphs], 4)}")
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
