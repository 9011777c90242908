"""The code of a session: its plan as one function for each kind of run."""

from operator import attrgetter

from subgraphkit.planning import Plan
from subgraphkit.running.emission import Emitted, emit
from subgraphkit.running.observing import Observer
from subgraphkit.running.stopping import Stoppable
from subgraphkit.running.weights import Weights


class Variants:
    """The functions of one plan, of which those that not every run needs are written on demand.

    Attributes:
        plain: That of a run that takes no buffers and ends when it is done.

    Thread-safety: safe, while the plan, its weights and who listens stay.
    """

    def __init__(
        self, plan: Plan, weights: Weights, observer: Observer, stoppable: Stoppable
    ) -> None:
        self._plan, self._weights = plan, weights
        self._observer, self._stoppable = observer, stoppable
        self._others: dict[tuple[bool, bool], Emitted] = {}
        self.plain = self._emit(buffered=False, stoppable=False)

    def other(self, *, buffered: bool, stoppable: bool) -> Emitted:
        """Return the function that takes buffers, or asks whether to go on, or does both."""
        key = buffered, stoppable
        if key not in self._others:
            self._others[key] = self._emit(buffered=buffered, stoppable=stoppable)
        return self._others[key]

    def _emit(self, *, buffered: bool, stoppable: bool) -> Emitted:
        plan = self._plan
        run_of = self._stoppable.run_of if stoppable else attrgetter("run")
        emitted = emit(
            plan,
            defaults={name: stored.array() for name, stored in plan.graph.defaults.items()},
            constants=self._weights.output_makers(),
            run_of=run_of,
            wait=self._stoppable.wait if stoppable else None,
            buffered=buffered,
        )
        return self._observer.watch(emitted, plan, run_of)
