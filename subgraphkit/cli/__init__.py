"""The command ``subgraphkit``: the road, the registry and the configuration in a shell.

A command is a module in ``subgraphkit.cli.commands``, imported when it is called. It has two
functions: ``add_words(parser)`` and ``execute(arguments, report)``. An extension adds a command by
the hook ``subgraphkit_cli``. It adds a parser to ``subparsers`` and sets its default ``handler``, a
function of the arguments that returns an exit code.
"""

import atexit
import gc
import sys
from collections.abc import Sequence

from subgraphkit.cli.interrupts import hear_interrupts, is_interrupt

__all__ = ["main"]

_INTERRUPTED = 130
"""As in ``exits``, which may not be imported yet."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process is ours, and searching it for cycles takes a tenth of it
        atexit.register(gc.freeze)
    with hear_interrupts():
        try:
            from subgraphkit.cli.dispatch import (  # noqa: PLC0415 (Ctrl-C is heard meanwhile)
                carry_out,
            )

            return carry_out(words)
        except BaseException as error:
            if not is_interrupt(error):
                raise
            if sys.stderr is not None:
                sys.stderr.write("error: interrupted\n")
            return _INTERRUPTED
