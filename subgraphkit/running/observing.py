"""Reports of runs to extensions; sessions without listeners pay nothing for them."""

import time
from dataclasses import replace
from itertools import count
from typing import Any

from subgraphkit.backend.events import FallbackEvent, RunEvent
from subgraphkit.errors import ExecutionError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.planning import Plan, Step
from subgraphkit.running.emission import Emitted

__all__ = ["Observer"]


class Observer:
    """Tells the extensions of one session about its runs.

    Attributes:
        session: Number of the session.

    Thread-safety: safe.
    """

    def __init__(self, extensions: ExtensionManager) -> None:
        self._extensions = extensions
        self.session = extensions.number_session()
        self._runs = count()

    def watch(self, emitted: Emitted, plan: Plan) -> Emitted:
        """Wrap a plan's function so that every run is reported, if there is a listener."""
        hooks = ("subgraphkit_run_start", "subgraphkit_run_end")
        if not any(self._extensions.implements(hook) for hook in hooks):
            return emitted
        execute = emitted.execute

        def execute_watched(*arguments: Any) -> list[Any]:
            run = next(self._runs)
            event = RunEvent(run, model=self._extensions.model, session=self.session)
            self._extensions.notify("subgraphkit_run_start", event=event)
            started = time.perf_counter()
            try:
                return execute(*arguments)
            except BaseException as error:
                problem = f"{type(error).__name__}: {error}"
                event = replace(event, error=problem, subgraph=_failed(error, emitted, plan))
                raise
            finally:
                event = replace(event, seconds=time.perf_counter() - started)
                self._extensions.notify("subgraphkit_run_end", event=event)

        return replace(emitted, execute=execute_watched)

    def tell_moved(self, failure: ExecutionError, step: Step, target: str) -> None:
        """Report that a step that failed moved to the fallback backend."""
        if self._extensions.implements("subgraphkit_fallback"):
            event = FallbackEvent(
                model=self._extensions.model,
                session=self.session,
                subgraph=step.subgraph.id,
                level="run",
                backend=failure.backend,
                target=target,
                code=failure.code,
                reason=failure.message,
                node_count=len(step.subgraph.nodes),
            )
            self._extensions.notify("subgraphkit_fallback", event=event)


def _failed(error: BaseException, emitted: Emitted, plan: Plan) -> str:
    """Return the subgraph that an error came from, or an empty string."""
    found = emitted.locate(error)
    return plan.steps[found[0]].subgraph.id if found is not None else ""
