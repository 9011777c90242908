"""Telling extensions about runs; sessions nobody listens to pay nothing for it."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from subgraphkit.backend.events import RunEvent

__all__ = ["observed"]

_sessions = count()


def observed(execute: Callable[..., list[Any]], extensions: Any) -> Callable[..., list[Any]]:
    """Wrap a plan's function so that extensions hear of every run, if any of them listens."""
    hooks = ("subgraphkit_run_start", "subgraphkit_run_end")
    if not any(extensions.implements(hook) for hook in hooks):
        return execute
    session = next(_sessions)
    runs = count()

    def execute_observed(*arguments: Any) -> list[Any]:
        run = next(runs)
        extensions.notify("subgraphkit_run_start", event=RunEvent(session, run))
        started = time.perf_counter()
        problem: str | None = None
        try:
            return execute(*arguments)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise
        finally:
            seconds = time.perf_counter() - started
            event = RunEvent(session, run, seconds, problem)
            extensions.notify("subgraphkit_run_end", event=event)

    return execute_observed
