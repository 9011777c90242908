"""``subgraphkit deploy spec``: the spec of a session, which any process opens it by."""

import json
from argparse import Namespace
from typing import Final

from subgraphkit.cli.reporting import CommandReport, ExitCode
from subgraphkit.cli.road import read_spec
from subgraphkit.cli.words import Merged, Parser, add_road_words, pair, writable
from subgraphkit.placing import SessionSpec

_SETTINGS: Final = ("strict", "fold", "pin", "keep_off", "max_error")


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    target = arguments.output
    spec = read_spec(arguments.model) if arguments.check else _spec_of(arguments)
    report.data = {"spec": json.loads(spec.to_json()), "file": None, "checked": arguments.check}
    if arguments.check:
        with report.doing("opening"), spec.open(root=arguments.root) as session:
            report.show(repr(session))
        report.note(f"the digest is right: {spec.digest[:12]}")
    elif target is not None:
        report.data["file"] = str(target)
        report.keep(target, lambda: spec.to_json() + "\n", "wrote {}")
    else:
        report.show(json.dumps(report.data["spec"], indent=1), exactly=True)
    return ExitCode.OK


def _spec_of(arguments: Namespace) -> SessionSpec:
    said = {key: getattr(arguments, key) for key in _SETTINGS} | {"data_roots": arguments.data_root}
    told = {name: value for name, value in said.items() if value is not None}
    return SessionSpec.of(
        arguments.model,
        arguments.backend,
        arguments.shapes or {},
        arguments.options,
        trust=arguments.trust,
        warm_up=arguments.warm_up,
        root=arguments.root,
        **{**told, **(arguments.set or {})},
    )


def _setting(text: str) -> tuple[str, str]:
    name, value = pair(text, "NAME=VALUE", may_be_empty=True)
    return name.strip(), value


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "deploy spec model.onnx --backend numpy --symbol batch=8 --set threads=2 -o spec.json",
        "deploy spec spec.json --check",
    )
    add_road_words(parser)
    purpose = "a setting, such as threads=2; 'subgraphkit doctor --settings' lists them"
    parser.word("--set NAME=VALUE", purpose, _setting, action=Merged)
    purpose = "the folder that the model is named from (default: SUBGRAPH_MODEL_ROOT)"
    parser.word("--root DIR", purpose)
    parser.word("--warm-up", "have a session run once before it is handed out")
    parser.word("--trust", "open a bundle that somebody else could have written")
    parser.word("-o --output FILE", "write the spec here", writable)
    parser.word("--check", "MODEL is the file of a spec: open its session")
