"""The parser of a command: its words, and examples."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from subgraphkit.errors import CallerError

PROGRAM: Final = "subgraphkit"
_FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""How ``shtab`` is told of a file or a folder."""


class Parser(argparse.ArgumentParser):
    """Opens its help with examples, and raises what argparse would print and exit with."""

    def __init__(self, examples: Sequence[str] = (), **settings: Any) -> None:
        # Abbreviated options would change their meaning when an option is added.
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self.examples = examples

    def word(
        self,
        spelling: str,
        purpose: str,
        kind: Callable[[str], Any] | None = None,
        default: Any = None,
        *,
        several: bool = False,
        within: argparse._ActionsContainer | None = None,
        **more: Any,
    ) -> None:
        """Add a word."""
        *names, last = spelling.split()
        if last.startswith("-"):
            names.append(last)
            if default is None and "choices" not in more:
                more.setdefault("action", "store_true")
        else:
            more["metavar"] = last
        told = f"{default:g}" if isinstance(default, float) else default
        if told not in (None, "", []) and "(default" not in purpose:
            purpose += f" (default: {told})"
        if several:
            more["action"], default = "append", []
        given = {"type": kind, "default": default}
        more |= {name: value for name, value in given.items() if value is not None}
        action: Any = (within or self).add_argument(*names, help=purpose, **more)
        if more.get("metavar", "").partition(".")[0] in {"MODEL", "FILE", "PLACE", "DIR", "FOLDER"}:
            action.complete = _FILES

    def format_help(self) -> str:
        """Return the help, examples first."""
        lines = [
            f"  {example if PROGRAM + ' ' in example else f'{PROGRAM} {example}'}\n"
            for example in self.examples
        ]
        return "".join(["examples:\n", *lines, "\n"] if lines else []) + super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise a usage error (SGK301)."""
        raise CallerError("SGK301", message, hint=f"Help: {self.prog} --help")
