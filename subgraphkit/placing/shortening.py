"""Shorter floats on one backend: for the whole model, or for as much of it as the error allows."""

import math
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, Final

from subgraphkit.partitioning.plan_files import first_output
from subgraphkit.placing.choosing import Piece, cut_regions
from subgraphkit.placing.measuring import WORTH, Candidate, TuningRun
from subgraphkit.precision.search import fewest

_MOST_REGIONS: Final = 8
"""Regions of which some may be given back to float32."""


class ShorterFloats:
    """A backend that computes in shorter floats, held to the largest error allowed.

    ``exact``: Backends that run the whole model in float32, and may take regions back.

    Attributes:
        spent: By region, the part of the error that it spends; empty if the whole model fits.

    Thread-safety: used by one thread.
    """

    def __init__(
        self, run: TuningRun, name: str, precision: str, exact: Sequence[Candidate]
    ) -> None:
        self._run, self._name, self._precision = run, name, precision
        self._exact = [one for one in exact if one.label != name]
        self._label = f"{name}:precision={precision}"
        self.spent: list[dict[str, Any]] = []

    def search(self, usual: float, reserve: float) -> Candidate | None:
        """Return a candidate whose error fits; None if none does, or it is not faster.

        Regions are given back to float32, those that spend most of the error first.

        ``usual``: Seconds of a run in float32. ``reserve``: Seconds to keep for what comes after.
        """
        run = self._run
        run.tell("trying shorter floats", 0, None, self._label)
        placement = run.placed({self._name: tuple(run.weights)}, {self._name: self._precision})
        whole = run.opened(self._label, placement, max_error=math.inf)
        if whole is None or whole.error <= run.max_error:
            return whole
        run.out[self._label] = (
            f"relative error {whole.error:.2g} as a whole, more than {run.max_error:g}"
        )
        run.take_turns([whole], 0)
        whole.close()
        regions = cut_regions(run.bound, run.weights, _MOST_REGIONS)
        if not self._exact or len(regions) == 1 or whole.median > WORTH * usual:
            return None
        ranked = self._rank(regions, whole.error, reserve)
        found: dict[int, Candidate | None] = {}

        def fits(count: int) -> bool:
            one = found[count] = self._without(regions, ranked[:count])
            return one is not None and one.error <= run.max_error

        best = fewest(len(ranked) - 1, fits)
        for one in (one for count, one in found.items() if count != best and one is not None):
            one.close()
        return None if best is None else found[best]

    def _rank(self, regions: Sequence[Piece], whole: float, reserve: float) -> list[int]:
        """Return the regions by the part of the error that leaves with each, the largest first."""
        gains: dict[int, float] = {}
        for at, region in enumerate(regions):
            found = self._without(regions, [at]) if self._run.left() > reserve else None
            if found is not None:
                found.close()
                gains[at] = math.sqrt(max(0.0, whole**2 - found.error**2))
                ends = [first_output(self._run.bound, region.nodes[end]) for end in (0, -1)]
                self.spent.append({"from": ends[0], "to": ends[1], "error": gains[at]})
        return sorted(gains, key=gains.__getitem__, reverse=True)

    def _without(self, regions: Sequence[Piece], back: Collection[int]) -> Candidate | None:
        """Open the model with some regions in float32 on another backend."""
        exact = min(self._exact, key=attrgetter("median")).label
        nodes: dict[str, list[int]] = {self._name: [], exact: []}
        for at, region in enumerate(regions):
            nodes[exact if at in back else self._name].extend(region.nodes)
        places = ",".join(str(at + 1) for at in sorted(back))
        label = f"{self._label}, {exact} {places} of {len(regions)}"
        self._run.tell("giving regions back", len(back), len(regions), label)
        placement = self._run.placed(nodes, {self._name: self._precision})
        return self._run.opened(label, placement, max_error=math.inf)
