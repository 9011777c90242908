"""Reports of runs to extensions; sessions without listeners pay nothing for them."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from subgraphkit.backend.events import FallbackEvent, RunEvent
from subgraphkit.errors import ExecutionError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.planning import Step

__all__ = ["Observer"]

_sessions = count()


class Observer:
    """Tells the extensions of one session about its runs.

    Thread-safety: safe.
    """

    def __init__(self, extensions: ExtensionManager) -> None:
        self._extensions = extensions
        self._session = next(_sessions)
        self._runs = count()

    def watch(self, execute: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Wrap a plan's function so that every run is reported, if there is a listener."""
        hooks = ("subgraphkit_run_start", "subgraphkit_run_end")
        if not any(self._extensions.implements(hook) for hook in hooks):
            return execute

        def execute_watched(*arguments: Any) -> list[Any]:
            run = next(self._runs)
            event = RunEvent(self._session, run)
            self._extensions.notify("subgraphkit_run_start", event=event)
            started = time.perf_counter()
            problem: str | None = None
            try:
                return execute(*arguments)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                raise
            finally:
                seconds = time.perf_counter() - started
                event = RunEvent(self._session, run, seconds, problem)
                self._extensions.notify("subgraphkit_run_end", event=event)

        return execute_watched

    def tell_moved(self, failure: ExecutionError, step: Step, target: str) -> None:
        """Report that a step that failed moved to the fallback backend."""
        if self._extensions.implements("subgraphkit_fallback"):
            event = FallbackEvent(
                level="run",
                backend=failure.backend,
                target=target,
                code=failure.code,
                reason=failure.message,
                subgraph=failure.subgraph,
                node_count=len(step.subgraph.nodes),
            )
            self._extensions.notify("subgraphkit_fallback", event=event)
