"""Warn the user about something that does not stop the work."""

import inspect
import warnings

from subgraphkit.errors import SubgraphkitError, SubgraphkitWarning

__all__ = ["warn_user"]


def warn_user(notice: SubgraphkitError) -> None:
    """Issue ``notice`` as a ``SubgraphkitWarning`` at the first frame outside this package.

    Python shows a warning once per place, so pointing at the caller's line repeats the warning for
    every place that causes it and for no other.
    """
    frame = inspect.currentframe()
    level = 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(str(notice), SubgraphkitWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "subgraphkit" or module.startswith("subgraphkit.")
