"""Messages about backends that were tried in a process of their own."""

from collections.abc import Mapping
from pathlib import Path

from subgraphkit.errors import BackendError, CallerError
from subgraphkit.processes.child_process import how_it_ended


def crashed_child(selection: str, doing: str, code: int) -> BackendError:
    """Word that a child process went down (SGK320)."""
    text = f"{selection!r} took its process down while {doing}: {how_it_ended(code)}"
    hint = "The fault is in the backend or its library; a session would have gone down as well."
    return BackendError("SGK320", text, backend=selection, hint=hint)


def hung_child(selection: str, doing: str, seconds: float) -> BackendError:
    """Word that a child process did not answer within so many seconds (SGK321)."""
    text = f"{selection!r} did not return from {doing} within {seconds:g} s"
    hint = "It was stopped. If it is only slow, allow more time: --timeout, or timeout_seconds."
    return BackendError("SGK321", text, backend=selection, hint=hint)


def wrong(backend: str, operators: str, what: str) -> BackendError:
    """Word that a backend computes something other than expected (SGK322)."""
    return BackendError(
        "SGK322",
        f"backend {backend!r} computes {operators} wrongly: {what}",
        backend=backend,
        hint="Update its library or its package, or look at its options; results of models are "
        "not to be trusted.",
    )


def meaningless(reasons: Mapping[str, str], *, everything: bool) -> CallerError:
    """Word that outputs agree and that this means nothing (SGK323)."""
    listed = "; ".join(f"{name!r}: {reason}" for name, reason in reasons.items())
    rest = "so nothing was verified" if everything else "the others do agree"
    text = f"that these outputs agree means nothing, {rest}: {listed}"
    hint = "Feed what the model is made for (--input NAME=FILE.npy), or try another --seed."
    return CallerError("SGK323", text, hint=hint)


def unwritable(folder: Path, error: OSError) -> CallerError:
    """Word that the part found at fault cannot be written (SGK324)."""
    text = f"the part that was found cannot be written to {str(folder)!r}: {error.strerror}"
    hint = "Give a folder that can be written; it is made if it is missing."
    return CallerError("SGK324", text, hint=hint)
