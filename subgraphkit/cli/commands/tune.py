"""``subgraphkit tune``: find the best backends for a model by measuring, and keep the plan."""

from argparse import Namespace
from functools import partial

from subgraphkit.binding import bind
from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.road import check_names, feeds_as_told, load_as_told
from subgraphkit.cli.words import Parser, add_compared_words, counting, seconds, writable
from subgraphkit.placing import tune


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    model, shapes = load_as_told(arguments), arguments.shapes or {}
    options, threads = arguments.options, arguments.threads
    given = partial(bind, model, backend="auto", options=options, threads=threads)
    given = partial(given, max_error=arguments.max_error)
    bound = given(shapes)
    check_names(bound.settings, arguments.backend)
    feeds = feeds_as_told(bound, arguments, report)
    open_ones = (
        one for one in feeds if not all(isinstance(d, int) for d in bound.shape(one) or ())
    )
    sizes = {name: feeds[name].array.shape for name in open_ones}
    if sizes:  # measurements hold for these alone
        bound = given({**shapes, **sizes})
    with report.doing("measuring") as progress:
        found = tune(
            bound,
            seconds=arguments.seconds,
            backends=arguments.backend,
            feeds={name: feed.array for name, feed in feeds.items()},
            again=arguments.again,
            keep=arguments.keep or None,
            progress=progress,
        )
    report.data = found.to_dict()
    report.show(found.report(width=report.width).rstrip("\n"))
    if not found.measured:
        report.note("nothing was measured: this was found in the cache; --again measures anew")
    words = "plan: {0}; use it as --backend @{0}"
    report.keep(arguments.output, found.placement.to_json, words)
    report.keep(arguments.html, found.to_html)
    return ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "tune model.onnx --output plan.json",
        "tune model.onnx --symbol batch=8 --backend openvino,onnxruntime --seconds 60",
    )
    add_compared_words(parser)
    parser.word("--backend LIST", "backends that take part (default: all that can run here)")
    parser.word("--seconds N", "about how long to measure (default: 17, up to 90)", seconds)
    purpose = "threads of a run, on every backend (default: what is configured)"
    parser.word("--threads N", purpose, counting(1))
    parser.word("-o --output PLAN.json", "write the plan into a file", writable)
    parser.word("--html FILE", "write one page that says who won, by how much, and why", writable)
    parser.word("--again", "measure even if the cache has a plan for this")
    parser.word("--keep", "keep the result even if other programs were in the way")
