"""Messages for Python's callers, in the words of the command: its flags, and variables."""

import re
from importlib import import_module
from typing import Final

_FLAGS: Final = (
    (r"argument require='([^']*)'", r"--min-coverage \1"),
    (r"a place in the node list, or give a predicate", "or #NUMBER"),
    (r"argument options=\{'(\w+)': \{'(\w+)': '([^']*)'\}\}", r"--option \1.\2=\3"),
    (r"argument backends?='([^']*)'", r"--backend \1"),
    (r"InferenceSession\(\.\.\., shapes=\{\.\.\.\}\)", "--shape INPUT=N,N,..."),
    (r"shapes=\{[^}]*\} \((--symbol [^)]*)\)", r"\1"),
    (r"\bshapes (names|gives) ", r"--shape or --symbol \1 "),
    (r"\ba constraint names ", "--pin or --keep-off names "),
    (r"Leave out pin and keep_off\.", "Leave out --pin and --keep-off."),
    (
        r"limits=\{'(\w+)': (\d+)\}( in Python,\s*or SUBGRAPH_LIMITS=\w+=\d+)?",
        r"SUBGRAPH_LIMITS=\1=\2",
    ),
    (r"options=\{'BACKEND': \{\.\.\.\}\}", "--option BACKEND.KEY=VALUE"),
)
_SETTING: Final = re.compile(r"""\b([a-z_]+)=(?:"([^"]*)"|'([^']*)'|(True|False)\b)""")


def in_flags(text: str) -> str:
    """Write what a message calls an argument of Python as the flag or the variable it is here."""
    for pattern, flag in _FLAGS:
        text = re.sub(pattern, flag, text)
    return _SETTING.sub(_variable, text)


def _variable(found: re.Match[str]) -> str:
    setting = import_module("subgraphkit.configuration.settings").SETTINGS.get(found[1])
    if setting is None:
        return found[0]
    return f"{setting.env}={found[2] or found[3] or found[4].lower()}"
