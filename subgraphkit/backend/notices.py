"""Warnings at the line of the caller or in the log, and notes on what a plugin raised."""

import warnings
from typing import Final

from subgraphkit.boundary import PLUGIN_MARK
from subgraphkit.errors import SubgraphkitError, SubgraphkitWarning
from subgraphkit.logs import logger_of

PLACEMENT_LOG: Final = logger_of("placement")
"""Where one warning of a session says that its placement is not as asked."""


def warn_user(notice: SubgraphkitError) -> None:
    """Issue ``notice`` as a ``SubgraphkitWarning`` at the first frame outside this package.

    Python shows a warning once per place, so pointing at the caller's line repeats the warning for
    every place that causes it and for no other.
    """
    import inspect  # noqa: PLC0415 (few are warned)

    frame = inspect.currentframe()
    level = 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(str(notice), SubgraphkitWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "subgraphkit" or module.startswith("subgraphkit.")


def mark_as_plugin_error(error: BaseException, plugin: str) -> None:
    """Note on an exception that passes as it is which plugin raised it."""
    error.add_note(f"{PLUGIN_MARK}{plugin}")


def is_of_plugin(error: BaseException) -> bool:
    """Say whether ``mark_as_plugin_error`` has been called for an exception."""
    return any(note.startswith(PLUGIN_MARK) for note in getattr(error, "__notes__", ()))
