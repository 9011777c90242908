"""Engines of a session that runs are proven beside its runs, when it has given its first answer."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from subgraphkit.compiling.proving import Proofs, ProofStep
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.logs import logger_of
from subgraphkit.running import Session

_logger = logger_of("cache")

_FIRST_ANSWER_SECONDS: Final = 1.0
"""How long the first run is waited for: other processes wait as long for the engines."""
_PAUSE_SECONDS: Final = 10.0
"""How long a moment without runs is waited for; a busy session may have none."""
_LOOK_SECONDS: Final = 0.02


def prove_beside_runs(session: Session, proofs: Proofs) -> None:
    """Prove engines in a run of what a session runs; changes of the session wait for it.

    With new weights, or closed, a session proves nothing.
    """
    gate = session._gate  # noqa: SLF001 (a run like those of the session itself)
    try:
        gate.through(partial(_settle, session), proofs)
    except SubgraphkitWarning as warning:  # where the user makes errors of them
        _logger.warning("%s", warning)


def _settle(session: Session, proofs: Proofs) -> None:
    if session._closed or session.weight_versions:  # noqa: SLF001 (as above)
        return
    steps = [
        ProofStep(
            step.subgraph,
            step.operator,
            *(() if step.operator.traits.thread_safe else (step.lock,)),
        )
        for step in session.plan.steps
    ]
    proofs.settle(steps)


class BackgroundProof:
    """Proves the engines of a session that has just been opened, in a thread of its own.

    The end of the program waits for it, as closing the session does.
    """

    def __init__(self, session: Session, proofs: Proofs) -> None:
        self._session, self._plan, self._proofs = session, session.plan, proofs
        self._at_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name="subgraphkit prove")
        self._thread.start()

    def finish(self) -> None:
        """Prove at once what is not proven yet, and wait for it."""
        self._at_once.set()
        self._thread.join()

    def _run(self) -> None:
        gate = self._session._gate  # noqa: SLF001 (as above)
        self._wait(_FIRST_ANSWER_SECONDS, lambda: gate.was_used)
        self._wait(_PAUSE_SECONDS, lambda: not gate.is_held_elsewhere())
        try:
            if self._session.plan is self._plan:
                prove_beside_runs(self._session, self._proofs)
        finally:
            self._proofs.drop_all()
            del self._session, self._plan, self._proofs  # which hold operators

    def _wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while not is_over() and time.monotonic() < end and threading.main_thread().is_alive():
            if self._at_once.wait(_LOOK_SECONDS):
                break
