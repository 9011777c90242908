"""``subgraphkit completion``: a script for a shell that completes commands, words and backends."""

import re
from argparse import Action, Namespace
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.errors import CallerError
from subgraphkit.finding.listing import list_backends

_PLAIN: Final = re.compile(r"[\w.-]+")
"""What a plugin calls itself and its options becomes part of a script, so nothing else may."""
_FILES: Final = re.compile(r"MODEL|PLACE|FILE(\.\w+)?|PLAN\.json")
_BASH: Final = """
# $1=COMP_WORDS[1]
_subgraphkit_backends() {{
  local before=""
  [[ $1 == *,* ]] && before="${{1%,*}},"
  compgen -W "{backends}" -P "$before" -- "${{1##*,}}"
}}
_subgraphkit_options() {{
  compgen -W "{options}" -- "$1"
}}
"""
_BASH_END: Final = """

_subgraphkit() {
  _shtab_subgraphkit
  # a value comes next, and no blank before it
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o bashdefault -F _subgraphkit subgraphkit
"""


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    try:
        shtab = import_module("shtab")
    except ImportError as error:
        raise CallerError(
            "SGK301",
            "completion is written by shtab, which is not installed",
            hint="pip install 'subgraphkit[cli]'",
        ) from error
    line = import_module("subgraphkit.cli.parser").CommandLine(every=True)
    line.add_extension_commands()
    completions = _completions(shtab)
    for name, parser in line.commands.choices.items():
        for action in parser._actions:  # noqa: SLF001 (argparse shows them to nobody)
            if name != "new-backend" and (found := _completion(action, completions)):
                action.complete = found
    script = shtab.complete(line.parser, arguments.shell)
    report.data = {"script": script + (_BASH_END if arguments.shell == "bash" else "")}
    report.show(report.data["script"], exactly=True)
    return ExitCode.OK


def _completions(shtab: Any) -> Mapping[str, Any]:
    """Return by what a word is called how it is completed, for each shell."""
    records = list_backends(all=True)
    backends = _plain(record.name for record in records)
    options = _plain(
        f"{record.name}.{option.name}"
        for record in records
        if record.manifest
        for option in record.manifest.options
    )
    options = " ".join(f"{option}=" for option in options.split())
    preamble = {"bash": _BASH.format(backends=backends, options=options)}
    one = {
        "bash": "_subgraphkit_backends",
        "zsh": f"({backends})",
        "tcsh": f"({backends})",
        "preamble": preamble,
    }
    several = one | {"zsh": f"_values -s , backend {backends}"}
    settings = one | {
        "bash": "_subgraphkit_options",
        "zsh": f"({options})",
        "tcsh": f"({options})",
    }
    return {
        "NAME": one,
        "LIST": several,
        "NAME,NAME,...": several,
        "BACKEND.KEY=VALUE": settings,
        "DIR": shtab.DIR,
        "FOLDER": shtab.DIR,
        "FILE": shtab.FILE,
    }


def _plain(names: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(filter(_PLAIN.fullmatch, names)))


def _completion(action: Action, completions: Mapping[str, Any]) -> Any:
    metavar = str(action.metavar)
    return completions.get("FILE" if _FILES.fullmatch(metavar) else metavar)


def _arguments(parser: Parser) -> None:
    parser.examples = (
        "subgraphkit completion bash > ~/.local/share/bash-completion/completions/subgraphkit",
        'subgraphkit completion zsh > "${fpath[1]}/_subgraphkit"',
    )
    parser.word("shell SHELL", "bash, tcsh or zsh", choices=("bash", "tcsh", "zsh"))


COMMAND: Final = Command(_arguments, _execute)
