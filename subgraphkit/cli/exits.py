"""Exit codes: what a script learns from a command that ended."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit.backend.notices import is_of_plugin
from subgraphkit.errors import (
    BackendConflictError,
    BackendIncompatibleError,
    BackendLoadError,
    BackendNotFoundError,
    BackendUnavailableError,
    CallerError,
    CompileTimeoutError,
    InternalError,
    ModelError,
    ModelNotFoundError,
    SubgraphkitError,
    UnclaimedNodesError,
    WeightUpdateError,
)


class ExitCode(enum.IntEnum):
    """The exit code of a command."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    BACKEND = 3
    MODEL = 4
    UNCLAIMED = 5
    FAILURE = 6
    INCOMPLETE = 7
    BUG = 70
    INTERRUPTED = 130


EXIT_CODES: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "all went well",
        ExitCode.CHECK_FAILED: "a check failed",
        ExitCode.USAGE: "the command, a setting or an input is wrong",
        ExitCode.BACKEND: "a backend is missing, broken or incompatible, or cannot run here",
        ExitCode.MODEL: "the model cannot be read or is not valid",
        ExitCode.UNCLAIMED: "no backend claims some nodes, or one has less than is required",
        ExitCode.FAILURE: "a subgraph failed to compile or to run",
        ExitCode.INCOMPLETE: "it ended too early, or tried too little; what was found is shown",
        ExitCode.BUG: "a bug in subgraphkit",
        ExitCode.INTERRUPTED: "interrupted from the keyboard",
    }
)
"""What each code means, as the help and the documentation print it."""

_KINDS: Final[tuple[tuple[tuple[type[SubgraphkitError], ...], ExitCode], ...]] = (
    ((ModelError, ModelNotFoundError), ExitCode.MODEL),
    ((UnclaimedNodesError,), ExitCode.UNCLAIMED),
    (
        (
            BackendNotFoundError,
            BackendLoadError,
            BackendUnavailableError,
            BackendIncompatibleError,
            BackendConflictError,
        ),
        ExitCode.BACKEND,
    ),
    ((InternalError,), ExitCode.BUG),
    ((CompileTimeoutError, WeightUpdateError), ExitCode.FAILURE),
    ((CallerError,), ExitCode.USAGE),
)


def exit_code_of(error: BaseException | type[BaseException]) -> ExitCode:
    """Return the exit code of a command that ended with an error, or with one of a class."""
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, BaseException) and is_of_plugin(error):
        # as it is, under SUBGRAPH_RAISE_PLUGIN_ERRORS
        return ExitCode.BACKEND
    if not issubclass(kind, SubgraphkitError):
        return ExitCode.BUG
    for kinds, code in _KINDS:
        if issubclass(kind, kinds):
            return code
    return ExitCode.FAILURE
