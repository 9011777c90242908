"""``subgraphkit calibrate``: how large the values of a model get, for int8 and fp16."""

from argparse import Namespace
from typing import Final

from subgraphkit.binding import bind
from subgraphkit.cli.batches import batches_in
from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.road import load_as_told, shapes_as_told
from subgraphkit.cli.values import file_to_write, merge_options
from subgraphkit.cli.words import add_bind_words, add_data_words
from subgraphkit.precision import calibrate
from subgraphkit.texts import counted


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    file_to_write(arguments.output, "the ranges cannot be stored")
    shapes = shapes_as_told(arguments)
    model = load_as_told(arguments)
    batches = batches_in(arguments.data, bind(model, shapes, backend="none").inputs)
    with report.doing("calibrating") as progress:
        ranges = calibrate(
            model,
            batches,
            backend=arguments.backend,
            method=arguments.method,
            percentile=arguments.percentile,
            progress=progress,
            shapes=shapes,
            options=merge_options(arguments.option) or None,
        )
    ranges.save(arguments.output)
    report.data = {
        "output": arguments.output,
        "batches": len(batches),
        "values": len(ranges.values),
        "model": ranges.model,
    }
    values, count = counted(len(ranges.values), "value"), len(batches)
    report.show(f"{values}, {count} batch{'es' * (count != 1)}: {arguments.output}")
    return ExitCode.OK


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "calibrate model.onnx --data batches/ -o ranges.json",
        "calibrate model.onnx --data a.npz b.npz --method minmax -o ranges.json",
    )
    add_bind_words(parser)
    add_data_words(parser, required=True)
    parser.word("-o --output FILE.json", "where to store the ranges", required=True)
    parser.word(
        "--method",
        "how thresholds are chosen (default: mse, the least squared error)",
        default="mse",
        choices=("mse", "entropy", "percentile", "minmax"),
    )
    parser.word(
        "--percentile P",
        "percent of the elements that are not clipped, for that method",
        float,
        99.99,
    )


COMMAND: Final = Command(_arguments, _execute)
