"""``subgraphkit profile``: where the time of a model's runs goes."""

from argparse import Namespace

from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.road import bind_as_told, chosen_backends, feeds_as_told
from subgraphkit.cli.words import Parser, add_feed_words, add_road_words, counting, writable
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.running import Session


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    bound = bind_as_told(arguments)
    feeds = feeds_as_told(bound, arguments, report)
    with report.doing("compiling") as progress:
        partitioning = partition(bound)
        planned = plan(partitioning, compile_subgraphs(partitioning, progress=progress))
    arrays = {name: feed.array for name, feed in feeds.items()}
    with (
        report.doing("measuring"),
        Session(planned) as session,
        session.profile(arguments.runs) as profile,
    ):
        profile.run(arrays)
    report.data = profile.to_dict()
    report.note(f"backends: {chosen_backends(bound)}")
    report.show(profile.table(arguments.top, width=report.width).rstrip())
    if arguments.chrome is not None:
        with report.writing(arguments.chrome, "trace: {}; open it at https://ui.perfetto.dev"):
            profile.to_chrome(arguments.chrome)
    report.keep(arguments.html, profile.to_html)
    return ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "profile model.onnx --backend openvino,numpy",
        "profile model.onnx --runs 50 --chrome trace.json --html profile.html",
    )
    add_road_words(parser)
    add_feed_words(parser)
    parser.word("--runs N", "runs to measure", counting(1), 20)
    parser.word("--top N", "rows to show of each table", counting(1), 10)
    parser.word("--html FILE", "write one page with the picture and tables", writable)
    parser.word("--chrome FILE", "write every run as a trace that Perfetto opens", writable)
