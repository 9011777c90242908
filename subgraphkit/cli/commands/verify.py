"""``subgraphkit verify``: whether two backends compute the same, and where not."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial

from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.cli.reporting import CommandReport, ExitCode, in_json, members
from subgraphkit.cli.road import bind_and_feed
from subgraphkit.cli.words import Parser, add_compared_words, tolerance, writable
from subgraphkit.comparing import (
    Bisection,
    NotFinite,
    Verification,
    bisect,
    find_not_finite,
    tolerance_for,
    verify,
)
from subgraphkit.viewing.tables import Table


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    model, arrays = bind_and_feed(arguments, report, arguments.backend, arguments.reference)
    given = {"shapes": arguments.shapes or {}, "options": arguments.options}
    both = {
        **given,
        "backend": arguments.backend,
        "reference": arguments.reference,
        "tolerance": _tolerance(arguments.rtol, arguments.atol),
        "max_error": arguments.max_error,
    }
    if arguments.nan:
        search = partial(find_not_finite, model, arrays, **given)
        return _look_for_nan(arguments, search, report)
    if arguments.bisect:
        return _bisect(arguments, partial(bisect, model, arrays, **both), report)
    with report.doing("comparing"):
        found = verify(model, arrays, **both, per_subgraph=arguments.per_subgraph)
    report.data = in_json(found, "agrees", "outcome")
    _show(found, report)
    report.keep(arguments.html, found.to_html)
    return ExitCode.OK if found.agrees else ExitCode.CHECK_FAILED


def _bisect(
    arguments: Namespace, search: Callable[..., Bisection], report: CommandReport
) -> ExitCode:
    given = {"--rtol": arguments.rtol, "--atol": arguments.atol}
    words = [f"{word}={value}" for word, value in given.items() if value is not None]
    with report.doing("bisecting") as progress:
        found = search(folder=arguments.output, words=words, progress=progress)
    facts = "verdict subgraph size others nodes facts builds reproduces command"
    report.data = members(found, facts)
    report.show(found.summary)
    return ExitCode.OK if found.verdict == "nothing" else ExitCode.CHECK_FAILED


def _look_for_nan(
    arguments: Namespace, search: Callable[..., NotFinite], report: CommandReport
) -> ExitCode:
    with report.doing("looking at every value"):
        found = [search(backend=one) for one in (arguments.backend, arguments.reference)]
    report.data = in_json(found)
    for one in found:
        report.show(one.text)
    wrong = any(one.node or one.outputs for one in found)
    return ExitCode.CHECK_FAILED if wrong else ExitCode.OK


def _tolerance(rtol: float | None, atol: float | None) -> ToleranceOf | None:
    if rtol is None and atol is None:
        return None
    return partial(tolerance_for, relative=rtol, absolute=atol)


def _show(found: Verification, report: CommandReport) -> None:
    report.note(f"{found.backend} against {found.reference}")
    for name in found.idle:
        report.note(f"backend {name!r} took no node, so nothing was learned about it")
    if found.error:
        sizes = f"\n  Sizes: {report.assumption}." if report.assumption else ""
        report.show(f"The run failed:\n{found.error}{sizes}")
    for one in found.sections():
        if isinstance(one, Table) and one.title:
            report.show(one)
    report.show(found.conclusion)


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "verify model.onnx --backend openvino",
        "verify model.onnx --per-subgraph",
        "verify model.onnx --backend tvm --bisect -o repro/",
    )
    add_compared_words(parser)
    parser.word("--backend LIST", "backends under test, in order (default: as configured)")
    parser.word("--reference LIST", "backends that are believed", default="numpy")
    how = parser.add_mutually_exclusive_group()
    purpose = "feed every subgraph what the reference has there, to find those at fault"
    parser.word("--per-subgraph", purpose, within=how)
    purpose = "write one page with the outputs; a picture too with --per-subgraph"
    parser.word("--html FILE", purpose, writable)
    parser.word("--bisect", "write the smallest part at fault, with its inputs", within=how)
    parser.word("-o --output FOLDER", "where --bisect writes what it found", default="repro")
    purpose = "find the first node that makes NaN or infinity, on both sides"
    parser.word("--nan", purpose, within=how)
    parser.word("--rtol X", "relative tolerance (default: by element type)", tolerance)
    purpose = "absolute tolerance (default: a part of the largest value)"
    parser.word("--atol X", purpose, tolerance)
