"""``subgraphkit verify``: whether a backend computes what another one computes, and where not."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.binding import bind
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.reporting import CommandReport, ExitCode, in_json
from subgraphkit.cli.road import check_names, feeds_as_told, load_as_told, shapes_as_told
from subgraphkit.cli.words import (
    add_bind_words,
    add_feed_words,
    add_max_error,
    file_to_write,
    merge_options,
    tolerance,
)
from subgraphkit.comparing import (
    Bisection,
    Difference,
    NotFinite,
    SubgraphFinding,
    Verification,
    bisect,
    find_not_finite,
    tolerance_for,
    verify,
)
from subgraphkit.viewing.sections import Table

_COLUMNS = "output result type wrong max_abs max_rel cosine rms range worst"
_FIGURES = "wrong max_abs max_rel cosine rms"
_GIVE = "worst output type range"


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    html = file_to_write(arguments.html, "the page cannot be written")
    shapes = shapes_as_told(arguments)
    options = merge_options(arguments.option) or None
    model = load_as_told(arguments)
    plain = bind(model, shapes, backend="none")
    check_names(plain.settings, arguments.backend, arguments.reference)
    feeds = feeds_as_told(plain, arguments, report)
    arrays = {name: feed.array for name, feed in feeds.items()}
    both = {
        "backend": arguments.backend,
        "reference": arguments.reference,
        "tolerance": _tolerance(arguments.rtol, arguments.atol),
        "shapes": shapes,
        "options": options,
        "max_error": arguments.max_error,
    }
    if arguments.nan:
        search = partial(find_not_finite, model, arrays, shapes=shapes, options=options)
        return _look_for_nan(arguments, search, report)
    if arguments.bisect:
        return _bisect(arguments, partial(bisect, model, arrays, **both), report)
    with report.doing("comparing"):
        found = verify(model, arrays, **both, per_subgraph=arguments.per_subgraph)
    report.data = _data(found)
    _show(found, report)
    report.keep(html, found.to_html)
    return ExitCode.OK if found.agrees else ExitCode.CHECK_FAILED


def _bisect(
    arguments: Namespace, search: Callable[..., Bisection], report: CommandReport
) -> ExitCode:
    given = {"--rtol": arguments.rtol, "--atol": arguments.atol}
    words = [f"{word}={value}" for word, value in given.items() if value is not None]
    with report.doing("bisecting") as progress:
        found = search(folder=arguments.output, words=words, progress=progress)
    facts = "verdict subgraph size others nodes facts builds reproduces command"
    report.data = {name: getattr(found, name) for name in facts.split()}
    report.show(found.summary)
    return ExitCode.OK if found.verdict == "nothing" else ExitCode.CHECK_FAILED


def _look_for_nan(
    arguments: Namespace, search: Callable[..., NotFinite], report: CommandReport
) -> ExitCode:
    with report.doing("looking at every value"):
        found = [search(backend=one) for one in (arguments.backend, arguments.reference)]
    report.data = [asdict(one) for one in found]
    for one in found:
        report.show(one.text)
    wrong = any(one.node or one.outputs for one in found)
    return ExitCode.CHECK_FAILED if wrong else ExitCode.OK


def _tolerance(rtol: float | None, atol: float | None) -> ToleranceOf | None:
    if rtol is None and atol is None:
        return None
    return partial(tolerance_for, relative=rtol, absolute=atol)


def _data(found: Verification) -> dict[str, Any]:
    data = {**asdict(found), "agrees": found.agrees, "outcome": found.outcome}
    data["outputs"] = [_described(one) for one in found.outputs]
    if found.subgraphs is not None:
        data["subgraphs"] = [_subgraph_data(one) for one in found.subgraphs]
    return data


def _subgraph_data(one: SubgraphFinding) -> dict[str, Any]:
    differences = [_described(difference) for difference in one.differences]
    return {**asdict(one), "differences": differences, "agrees": one.agrees}


def _described(one: Difference) -> dict[str, Any]:
    return {**in_json(one), "agrees": one.agrees}


def _show(found: Verification, report: CommandReport) -> None:
    report.note(f"{found.backend} against {found.reference}")
    for name in found.idle:
        report.note(f"backend {name!r} took no node, so nothing was learned about it")
    if found.error:
        sizes = f"\n  Sizes: {report.assumption}." if report.assumption else ""
        report.show(f"The run failed:\n{found.error}{sizes}")
    if found.outputs:
        rows = map(_row, found.outputs)
        report.show(Table.of(_COLUMNS, rows, right=_FIGURES, give=_GIVE))
    if found.subgraphs is not None:
        _show_subgraphs(found.subgraphs, report)
    report.show(found.conclusion)


def _show_subgraphs(subgraphs: Iterable[SubgraphFinding], report: CommandReport) -> None:
    columns = f"subgraph nodes {_COLUMNS}"
    rows: list[tuple[str, ...]] = []
    for one in subgraphs:
        facts = one.subgraph, str(one.nodes)
        if one.error:
            rows.append((*facts, "-", "FAIL", "-", *[""] * 6, one.error.splitlines()[0]))
        rows += [(*facts, *_row(found)) for found in one.differences]
    report.show(Table.of(columns, rows, right=f"nodes {_FIGURES}", give=_GIVE))


def _row(one: Difference) -> tuple[str, ...]:
    if one.problem:
        return one.name, one.result, one.type, *[""] * 6, one.remark
    cosine = "-" if math.isnan(one.cosine) else f"{one.cosine:.6f}"
    figures = (f"{one.wrong}", f"{one.max_abs:.3g}", f"{one.max_rel:.3g}", cosine)
    signal = (f"{one.rms:.3g}", f"{one.low:.3g} .. {one.high:.3g}")
    if math.isnan(one.low):  # text, or nothing that is finite
        signal = ("-", "-")
    return one.name, one.result, one.type, *figures, *signal, one.remark


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "verify model.onnx --backend openvino",
        "verify model.onnx --per-subgraph",
        "verify model.onnx --backend tvm --bisect -o repro/",
    )
    add_bind_words(parser)
    add_feed_words(parser)
    add_max_error(parser)
    parser.word("--backend LIST", "backends under test, in order (default: as configured)")
    parser.word("--reference LIST", "backends that are believed", default="numpy")
    how = parser.add_mutually_exclusive_group()
    parser.word(
        "--per-subgraph",
        "feed every subgraph what the reference has there, to find those at fault",
        within=how,
    )
    parser.word("--html FILE", "write one page with the outputs; a picture too with --per-subgraph")
    parser.word(
        "--bisect", "find the smallest part at fault, and write it with its inputs", within=how
    )
    parser.word("-o --output FOLDER", "where --bisect writes what it found", default="repro")
    parser.word(
        "--nan",
        "find the first node that makes NaN or infinity, on both sides, and compare nothing",
        within=how,
    )
    parser.word(
        "--rtol X",
        "part of the expected element that may be missed (default: by element type)",
        tolerance,
    )
    parser.word(
        "--atol X",
        "what may be missed everywhere (default: a part of the largest value)",
        tolerance,
    )


COMMAND: Final = Command(_arguments, _execute)
