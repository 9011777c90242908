"""Ctrl-C in the middle of something."""

import _thread
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


def interrupt(step: Callable[[], object], after: float) -> None:
    """Take a step again and again until Ctrl-C comes.

    Args:
        step: The step.
        after: Seconds from the first step to Ctrl-C.
    """
    started = threading.Event()

    def strike() -> None:
        started.wait()
        time.sleep(after)
        _thread.interrupt_main()

    def go_on_for_ever() -> None:
        started.set()
        while True:
            step()

    thread = threading.Thread(target=strike)
    with heard():
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            go_on_for_ever()
        thread.join()


@contextmanager
def heard() -> Iterator[None]:
    """Let Ctrl-C through: it is ignored in what a shell starts in the background.

    And Python drops what strikes in a callback of its collector, of which Hypothesis has one.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks
        signal.signal(signal.SIGINT, before)
