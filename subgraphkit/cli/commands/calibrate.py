"""``subgraphkit calibrate``: how large the values of a model get, for int8 and fp16."""

from argparse import Namespace

from subgraphkit.binding import bind
from subgraphkit.cli.batches import batches_in
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import Report
from subgraphkit.cli.road import shapes_as_told
from subgraphkit.cli.values import counted, file_to_write, merge_options
from subgraphkit.onnx_io import load
from subgraphkit.precision import calibrate

__all__ = ["execute"]


def execute(arguments: Namespace, report: Report) -> ExitCode:
    """Run the model over the batches and store the ranges."""
    file_to_write(arguments.output, "the ranges cannot be stored")
    shapes = shapes_as_told(arguments)
    model = load(arguments.model)
    batches = batches_in(arguments.data, bind(model, shapes, backend="none").inputs)
    ranges = calibrate(
        model,
        batches,
        backend=arguments.backend,
        method=arguments.method,
        percentile=arguments.percentile,
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
