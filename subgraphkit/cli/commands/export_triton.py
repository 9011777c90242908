"""``subgraphkit export-triton``: a spec as a model for Triton's Python backend."""

from argparse import ArgumentParser, Namespace
from pathlib import Path, PurePath
from typing import Final

from subgraphkit.cli.command import Command
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.road import spec_as_told
from subgraphkit.cli.values import counting, seconds
from subgraphkit.cli.words import A_SPEC
from subgraphkit.configuration.config import resolve
from subgraphkit.serving.triton import export_triton
from subgraphkit.texts import printable

__all__ = ["COMMAND"]


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Write a version of the model, and say where."""
    spec = spec_as_told(arguments.spec, arguments.backend)
    name = arguments.name or PurePath(spec.source).stem
    with report.doing("opening"):
        place = export_triton(
            spec,
            arguments.folder,
            name=name,
            version=arguments.version,
            max_batch=arguments.max_batch,
            delay_s=arguments.delay,
            instances=arguments.instances,
            device=arguments.device,
            packages=arguments.packages,
        )
    report.data = {"name": name, "version": arguments.version, "folder": str(place)}
    report.show(printable(str(place)))
    root = "" if PurePath(spec.source).is_absolute() else f"SUBGRAPH_MODEL_ROOT={_root()} "
    report.note(printable(f"{root}tritonserver --model-repository={arguments.folder} serves it"))
    report.note(f"subgraphkit probe http://127.0.0.1:8000 {name} says whether it answers")
    return ExitCode.OK


def _root() -> Path:
    """Return the folder that the spec names its file from, which is not the server's."""
    return Path(resolve().model_root or "").absolute()


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help=A_SPEC)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the model repository of Triton")
    parser.add_argument("--backend", metavar="LIST", help="backends, if it is not a spec")
    parser.add_argument("--name", help="name of the model (default: that of its file)")
    parser.add_argument(
        "--version", metavar="N", type=counting(1), default=1, help="its version (default: 1)"
    )
    parser.add_argument(
        "--max-batch",
        metavar="N",
        type=counting(0),
        help="rows that Triton may gather from requests (default: 16, or 0 where no open dimension "
        "is the first of all inputs and outputs)",
    )
    parser.add_argument(
        "--delay",
        metavar="SECONDS",
        type=seconds,
        default=0.001,
        help="how long a request may wait for others (default: 0.001)",
    )
    parser.add_argument(
        "--instances",
        metavar="N",
        type=counting(1),
        default=1,
        help="processes that open the session (default: 1)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="what Triton reserves for them (default: cpu)",
    )
    parser.add_argument(
        "--packages",
        metavar="DIR",
        help="the folder of packages with subgraphkit, where Triton runs; '' if its Python finds "
        "them by itself (default: that of this Python)",
    )


COMMAND: Final = Command(
    examples=(
        "export-triton bert.json models",
        "export-triton bert.json models --version 2 --instances 4 --max-batch 32",
    ),
    add_arguments=_arguments,
    execute=_execute,
)
