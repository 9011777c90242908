"""``subgraphkit build``: everything compiled ahead, so that the next bind finds it."""

import os
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.contract import stores_engines
from subgraphkit.bundling import check_target, collect, write_bundle
from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.road import bind_as_told, chosen_backends
from subgraphkit.cli.tables import table
from subgraphkit.cli.words import Parser, add_road_words, writable
from subgraphkit.compiling import CompiledSubgraphs, compile_subgraphs
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import CacheError
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.texts import count_of

_COLUMNS: Final = "subgraph backend nodes: engine seconds:.3f proof=proof_seconds:.3f"


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    target, bundle = arguments.engine, _bundle_to_write(arguments)
    bound = bind_as_told(arguments)
    _check_that_something_stays(bound.settings, is_written=bool(target or bundle))
    report.note(f"backends: {chosen_backends(bound)}")
    with report.doing("partitioning"):
        partitioning = partition(bound)
    with report.doing("compiling") as progress:
        compiled = compile_subgraphs(partitioning, progress=progress)
    try:
        rows = list(_rows(compiled, is_kept=bound.settings.cache))
        report.data = {"model": bound.name, "subgraphs": rows, "engine_file": None, "bundle": None}
        report.show(table(_COLUMNS, rows))
        if target is not None:
            report.keep(target, partial(_engine, compiled), "wrote {}")
            report.data["engine_file"] = str(target)
        if bundle is not None:
            contents = collect(plan(partitioning, compiled))
            write_bundle(contents, bundle, overwrite=arguments.overwrite, shared=arguments.shared)
            report.data["bundle"] = str(bundle)
            report.note(f"wrote {bundle}")
    finally:
        compiled.close()
    for one in _refused_engines(compiled):
        report.note(f"{one.code}: {one.message}")
    lost = [row["subgraph"] for row in rows if row["engine"] == "not kept"]
    if lost and target is None:
        report.note(
            f"{count_of(len(lost), 'engine')} will be compiled again at the next bind: "
            f"{', '.join(lost)}. Shapes that are not known make engines wait for the first run; "
            "what else stood in the way is in the log, shown with SUBGRAPH_VERBOSE=2."
        )
        return ExitCode.CHECK_FAILED
    return ExitCode.OK


def _bundle_to_write(arguments: Namespace) -> Path | None:
    """Refuse a place that is taken, or more likely misspelt than meant, before any work is done."""
    if arguments.bundle is None:
        return None
    bundle = Path(arguments.bundle)
    check_target(bundle, overwrite=arguments.overwrite)
    if not os.path.isdir(bundle.absolute().parent):  # noqa: PTH112 (no name makes it raise)
        problem = f"the bundle cannot be written to {str(bundle)!r}: its folder is missing"
        raise usage_error(problem, hint="Name a place in a folder that exists.")
    return bundle


def _check_that_something_stays(settings: ResolvedConfig, *, is_written: bool) -> None:
    if settings.cache or is_written:
        return
    raise usage_error(
        "nothing would stay of what is built, because engines are not kept (cache=off, from "
        f"{settings.sources['cache'][1]})",
        hint="Leave SUBGRAPH_CACHE=off out, or write what is built with --engine FILE or "
        "--bundle DIR.",
    )


def _rows(compiled: CompiledSubgraphs, *, is_kept: bool) -> Iterator[dict[str, Any]]:
    partitioning = compiled.partitioning
    took = compiled.cache.proofs.seconds if compiled.cache is not None else {}
    refused = {one.context["subgraph"]: one.message for one in _refused_engines(compiled)}
    for subgraph, operator in zip(partitioning.subgraphs, compiled, strict=True):
        if not subgraph.outputs:
            continue  # nothing is made of values without readers
        backend = partitioning.claim_of(subgraph).backend
        is_lost = is_kept and stores_engines(type(backend))
        engine = "not kept" if is_lost else "needs none"
        if subgraph.id in compiled.restored:
            engine = "found"
        elif subgraph.id in compiled.kept:
            engine = "built"
        yield {
            "subgraph": subgraph.id,
            "backend": subgraph.backend,
            "nodes": len(subgraph.members),
            "engine": engine,
            "seconds": round(compiled.seconds[subgraph.id], 3),
            "proof_seconds": round(took[subgraph.id], 3) if subgraph.id in took else None,
            "problem": refused.get(subgraph.id, ""),
            "info": dict(operator.info()),
        }


def _refused_engines(compiled: CompiledSubgraphs) -> list[CacheError]:
    return [] if compiled.cache is None else [*compiled.cache.proofs.refused.values()]


def _engine(compiled: CompiledSubgraphs) -> bytes:
    if len(compiled) != 1:
        named = ", ".join(one.id for one in compiled.partitioning.subgraphs[:4])
        raise usage_error(
            "--engine writes one engine, and the model becomes "
            f"{count_of(len(compiled), 'subgraph')}: {named}",
            hint="'subgraphkit plan MODEL --details' says why nodes were not taken.",
        )
    if (engine := compiled[0].bare_engine()) is None:
        backend = compiled.partitioning.subgraphs[0].backend
        problem = f"backend {backend!r} has no single engine that tools of its library would take"
        hint = "Leave --engine out: what can be kept is kept for the next bind."
        raise usage_error(problem, hint=hint)
    return engine


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "build model.onnx --backend openvino",
        "build model.onnx --backend tensorrt --symbol batch=8 --engine model.plan",
    )
    add_road_words(parser)
    purpose = "also write the engine, of a model of one subgraph, as its library's tools take it"
    parser.word("--engine FILE", purpose, writable)
    purpose = "also write a bundle: all that is needed to run the model elsewhere"
    parser.word("--bundle DIR", purpose)
    parser.word("--overwrite", "replace a bundle that is there already")
    parser.word("--shared", "let other users read the bundle, weights and all")
