"""The boundary of every step of the road, where unforeseen errors get a code."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from subgraphkit.errors import InvalidModelError, SubgraphkitError, describe_exception

PLUGIN_MARK: Final = "raised by "
"""The beginning of the note on a plugin's exception that passes unchanged."""


def is_to_pass(error: BaseException) -> bool:
    """Say whether an exception is the program's own, even if it went through a plugin.

    That is Ctrl-C, and all that a handler of a signal raises, such as ``SystemExit`` to end a
    server. Such an exception from a plugin is a failure of the plugin.
    """
    if isinstance(error, Exception):
        return False
    found = (signal.getsignal(number) for number in signal.valid_signals())
    handlers = {getattr(handler, "__code__", None) for handler in found} - {None}
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in handlers:
        trace = trace.tb_next
    return trace is not None or isinstance(error, KeyboardInterrupt)


def pass_on(error: BaseException) -> None:
    """Raise the program's own exception: this one, or one in its context.

    Ctrl-C may interrupt the taking or release of a lock. The cleanup then fails, because only half
    was done.

    Raises:
        BaseException: That is to pass.
    """
    at: BaseException | None = error
    frames = set[FrameType]()
    while at is not None:
        if is_to_pass(at):
            raise at
        trace = at.__traceback__
        while trace is not None:
            frames.add(trace.tb_frame)
            trace = trace.tb_next
        at = at.__context__
        if at is None or at.__traceback__ is None or at.__traceback__.tb_frame not in frames:
            return


@contextmanager
def walking(
    step: str, model: str, own: Callable[[Exception], bool] = lambda _: False
) -> Iterator[None]:
    """Give an unforeseen error of a step of the road a code (SGK219), with the cause.

    Errors with a code pass, and so do warnings that are errors. So does a plugin's error if the
    user wants to see it unchanged.

    Raises:
        InvalidModelError: Anything else was raised (SGK219).
    """
    try:
        yield
    except (SubgraphkitError, Warning):
        raise
    except Exception as error:
        pass_on(error)
        notes = getattr(error, "__notes__", ())
        if own(error) or any(note.startswith(PLUGIN_MARK) for note in notes):
            raise
        raise unforeseen(step, model, error) from error


def unforeseen(step: str, model: str, error: BaseException) -> InvalidModelError:
    """Word that a step of the road failed in a way that nobody foresaw (SGK219)."""
    return InvalidModelError(
        "SGK219",
        f"model {model!r} made the step {step!r} fail: {describe_exception(error)}",
        hint="There may be too little memory for it, or it breaks a rule of ONNX that nobody "
        "checks.\nIf onnx.checker.check_model accepts it, report it with this message.",
        step=step,
    )
