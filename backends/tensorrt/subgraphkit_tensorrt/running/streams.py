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

    A run starts after earlier work on the stream, and later work on it can read the outputs. The
    host does not wait for outputs that are left on the device.

    Thread-safety: counts only for the thread or asynchronous task that enters it.
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
