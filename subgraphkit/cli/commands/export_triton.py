"""``subgraphkit deploy export-triton``: a spec as a model for Triton's Python backend."""

from argparse import Namespace
from pathlib import Path, PurePath

from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.road import spec_as_told
from subgraphkit.cli.words import A_SPEC, Parser, counting, seconds
from subgraphkit.configuration.config import resolve
from subgraphkit.serving.triton import export_triton
from subgraphkit.texts import printable


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
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
    from_there = Path(resolve().model_root or "").absolute()  # the spec's, and not the server's
    root = "" if PurePath(spec.source).is_absolute() else f"SUBGRAPH_MODEL_ROOT={from_there} "
    report.note(printable(f"{root}tritonserver --model-repository={arguments.folder} serves it"))
    report.note(f"subgraphkit deploy probe http://127.0.0.1:8000 {name} says whether it answers")
    return ExitCode.OK


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "deploy export-triton bert.json models",
        "deploy export-triton bert.json models --version 2 --instances 4 --max-batch 32",
    )
    parser.word("spec SPEC", A_SPEC)
    parser.word("folder DIR", "the model repository of Triton", Path)
    parser.word("--backend LIST", "backends, if it is not a spec")
    parser.word("--name", "name of the model (default: that of its file)", action="store")
    parser.word("--version N", "its version", counting(1), 1)
    purpose = "rows of requests that run together (default: 16, or 0 if the first size is not open)"
    parser.word("--max-batch N", purpose, counting(0))
    parser.word("--delay SECONDS", "how long a request may wait for others", seconds, 0.001)
    parser.word("--instances N", "processes that open the session", counting(1), 1)
    parser.word("--device", "what Triton reserves for them", default="cpu", choices=("cpu", "gpu"))
    purpose = "packages of Triton's Python; '' if it finds them (default: those of this Python)"
    parser.word("--packages DIR", purpose)
