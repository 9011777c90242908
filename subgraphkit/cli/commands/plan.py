"""``subgraphkit plan``: which nodes would run where, and why; nothing is compiled."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.cli.reporting import CommandReport, ExitCode, in_json, usage_error
from subgraphkit.cli.road import bind_as_told, chosen_backends, load_as_told
from subgraphkit.cli.words import Parser, add_road_words, writable
from subgraphkit.onnx_io import Model
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.reports.memory import Memory, check_memory
from subgraphkit.partitioning.reports.quality import find_moves, move_table
from subgraphkit.partitioning.reports.sections import dry_run_lines
from subgraphkit.texts import in_bytes
from subgraphkit.viewing.tables import Table


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    with report.doing("partitioning"):
        model = load_as_told(arguments)
        bound = bind_as_told(arguments, model, require=arguments.min_coverage)
        partitioning = partition(bound, dry_run=True)
        against = _other(model, arguments) if arguments.against else None
    nodes = _find_nodes(partitioning, arguments.explain) if arguments.explain else []
    moves = find_moves(partitioning, against) if against is not None else []
    report.data = _data(partitioning, arguments, nodes)
    if against is not None:
        report.data["moves"] = in_json(moves)
    report.keep(arguments.html, partial(partitioning.to_html, against=against))
    if nodes:  # else it is part of what is shown
        for line in dry_run_lines(partitioning):
            report.note(line)
    _show(partitioning, arguments, nodes, report)
    if against is not None:
        moved = move_table(moves, partitioning.quality.flops)
        report.show(moved if moves else moved.caption)
    # Last, because a reader then looks for the reason in the rest.
    if (shortfall := partitioning.shortfall()) is not None:
        shortfall.report(partitioning)
    check_memory(partitioning)
    return ExitCode.OK


def _other(model: Model, arguments: Namespace) -> Partitioning:
    """Partition as ``--against`` says; demands on nodes and backends do not hold for it."""
    changed = {"backend": arguments.against, "options": None, "pin": None, "keep_off": None}
    other = Namespace(**{**vars(arguments), **changed, "strict": None})
    return partition(bind_as_told(other, model), dry_run=True)


def _show(
    partitioning: Partitioning, arguments: Namespace, nodes: Sequence[int], report: CommandReport
) -> None:
    if nodes:
        for node in nodes:
            report.show(str(partitioning.explain(node)))
        return
    report.note(f"backends: {chosen_backends(partitioning.graph)}")
    if arguments.memory:
        memory = partitioning.memory()
        report.show(str(memory))
        report.show(_memory_of_parts(memory))
        return
    report.show(partitioning.report(details=arguments.details, width=report.width).rstrip("\n"))


def _data(partitioning: Partitioning, arguments: Namespace, nodes: Sequence[int]) -> dict[str, Any]:
    data = partitioning.to_dict()
    if nodes:
        data["explanations"] = [in_json(partitioning.explain(node)) for node in nodes]
    if arguments.memory:
        data["memory"] = partitioning.memory().to_dict()
    return data


def _find_nodes(partitioning: Partitioning, text: str) -> list[int]:
    """Find the nodes meant by a number, a name or an operator; ONNX names may be repeated."""
    listed = partitioning.graph.table
    names, operators = listed.names, listed.op_types
    found = [at for at, name in enumerate(names) if name == text]
    found = found or [at for at, operator in enumerate(operators) if operator == text]
    number = text.removeprefix("#")
    if not found and number.isdecimal() and int(number) < len(names):
        return [int(number)]
    if not found:
        guess = did_you_mean(text, {*filter(None, names), *operators})
        raise usage_error(
            f"the model has no node {text!r}{guess}",
            hint=f"Give a name, an operator, or a number from 0 to {len(names) - 1}.",
        )
    return found


def _memory_of_parts(memory: Memory) -> Table:
    shared = [("model", memory.model), ("graph, session", memory.base)]
    shared += [(f"library of {name}", taken) for name, taken in memory.libraries.items()]
    parts = [(name, (taken, 0, 0, 0)) for name, taken in shared]
    parts += [
        (step.subgraph, (step.held, step.opening, step.work, step.waiting)) for step in memory.steps
    ]
    rows = [(name, *(in_bytes(size) if size else "" for size in sizes)) for name, sizes in parts]
    columns = ("part", "held", "to open", "to run", "waiting")
    return Table(columns, rows, right=columns[1:])


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "plan model.onnx --symbol batch=8",
        "plan model.onnx --explain Softmax",
        "plan model.onnx --memory",
        "plan model.onnx --backend openvino --min-coverage openvino=0.9",
        "plan model.onnx --backend openvino --against @plan.json --html plan.html",
    )
    add_road_words(parser)
    parser.word("--details", "list every subgraph with its inputs, and every reason")
    parser.word("--explain NODE", "say why a node is where it is: a name, an operator or #NUMBER")
    parser.word("--memory", "say how much memory a session would take, by part")
    purpose = "fail unless a backend takes this share of the work, 0 to 1; several with commas"
    parser.word("--min-coverage BACKEND=SHARE", purpose)
    purpose = "write one page with the picture, the nodes and the reasons"
    parser.word("--html FILE", purpose, writable)
    purpose = "compare with other backends, or with a plan as @plan.json: what moved, in FLOPs"
    parser.word("--against LIST", purpose)
