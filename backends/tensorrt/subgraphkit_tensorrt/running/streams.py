"""The stream of the user that runs work on: by an option, or for single runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from subgraphkit_tensorrt.backend_options import Options

_STREAM: Final[ContextVar[int | None]] = ContextVar("subgraphkit_tensorrt_stream", default=None)


@contextmanager
def on_stream(stream: int) -> Iterator[None]:
    """Let runs of this thread, or task, work on a stream, whatever the option ``stream`` says.

    What is put on the stream before a run is done before it, and what is put there afterwards finds
    its outputs. Outputs that are left on the device are not waited for.

    Thread-safety: counts for the thread or asynchronous task it is entered in alone.
    """
    token = _STREAM.set(int(stream))
    try:
        yield
    finally:
        _STREAM.reset(token)


def stream_for(options: Options) -> int | None:
    """Return the user's stream that a run is to work on; None for one of ours."""
    given = _STREAM.get()
    return options.stream if given is None else given
