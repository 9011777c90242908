"""A session that gets better while it runs: what builds and measures beside it."""

import time
from collections.abc import Mapping
from typing import Any

from subgraphkit import placing
from subgraphkit.running import Session


class ImprovingSession(Session):
    """A session whose plan may be exchanged by what works in the background.

    Thread-safety: as ``Session``.
    """

    _build: "placing.background.BackgroundBuild | None" = None
    _tuning: "placing.tuning_child.BackgroundTuning | None" = None

    _proof: "placing.background.BackgroundProof | None" = None

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be built or measured in the background, done or failed."""
        return all(one.ready for one in self._background)

    @property
    def tuning(self) -> str:
        """How far measuring in the background is; empty where nothing measures.

        ``"measuring"``, then ``"exchanged"``, ``"kept"`` where the plan was the best already,
        ``"failed"``, or ``"stopped"`` if the session was closed before.
        """
        return "" if self._tuning is None else self._tuning.state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to be built or measured in the background.

        Args:
            timeout: Seconds to wait at most; None for as long as it takes.

        Returns:
            ``ready``, as it is then.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for one in self._background:
            one.wait(None if end is None else max(0.0, end - time.monotonic()))
        return self.ready

    def status(self) -> "dict[str, placing.background.SubgraphStatus]":
        """Return, by subgraph id, which backend runs it, which is to, and how far that is."""
        tuning = self._tuning
        if self._build is None or (tuning is not None and tuning.state == "exchanged"):
            return placing.background.statuses(self.plan)
        return self._build.status(self)

    def update_weights(self, changed: Mapping[str, Any]) -> Mapping[str, str]:
        """Replace weights, when the engines that were compiled with the old ones are proven.

        Args:
            changed: As for ``Session.update_weights``.

        Raises:
            WeightUpdateError: As there (SGK133).
        """
        if self._proof is not None:
            self._proof.finish()
        return super().update_weights(changed)

    def close(self) -> None:
        """Release what the operators hold, and stop what is built or measured in the background.

        Waits for the backend that is compiling to come to its next step, and for engines that are
        still to be proven. May be called more than once.
        """
        for one in self._background:
            one.stop()
        if self._proof is not None:
            self._proof.finish()
        super().close()
        for one in self._background:
            one.wait()

    @property
    def _background(
        self,
    ) -> "list[placing.background.BackgroundBuild | placing.tuning_child.BackgroundTuning]":
        return [one for one in (self._tuning, self._build) if one is not None]
