"""Parts of a subgraph, each built alone, and a search for the smallest of them that is wrong.

Take nodes that follow one another in a topological order of a convex region. They are convex, so
they can be built alone, fed with the reference's values, and compared with it.

Source: U. Junker, "QuickXplain: preferred explanations and relaxations for over-constrained
problems", AAAI 2004, for nodes that are wrong only together; what is built is their convex hull.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.findings import Verification
from subgraphkit.comparing.verification import admit_inputs, reference_values, verify_plan
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph, make_subgraph, within
from subgraphkit.partitioning import Partitioning
from subgraphkit.planning import plan

Symptom = Literal["", "compile", "run", "value"]
"""The fault: none, it does not compile, it fails while running, or values differ."""

Verdict = Literal["nothing", "none alone", "node", "together", "whole", "unsteady"]
"""The finding. ``nothing`` is wrong, or only outputs, with ``none alone`` of the subgraphs. One
``node`` is wrong, or several are ``together``. A ``whole`` subgraph is wrong, but not when cut out.
Or the fault is ``unsteady``: another time it was right."""

_MOST_BUILDS: Final = 200
"""The most builds. Rounding that adds up over a thousand nodes has no small part that shows it.
Then the part found so far is the answer."""

_AGAIN: Final = 2
"""How often nodes that look wrong only together are built again, to see if they always are."""


@dataclass(frozen=True, slots=True)
class Built:
    """A part that was built and run; ``compared`` is None if it did not compile."""

    symptom: Symptom
    compared: Verification | None = None
    error: str = ""

    def shows(self, symptom: Symptom) -> bool:
        """Say whether this is the fault of the whole; a wrong value can make that fail."""
        return self.symptom == symptom or (symptom == "run" and self.symptom == "value")


class PartSearch:
    """The search in one subgraph, whose ``graph`` has parts built by the backend at fault alone.

    It keeps the values at the subgraph's inputs, and at those of the parts still to search. Others
    are computed from these when a part is built.
    """

    def __init__(  # noqa: PLR0913 (keywords)
        self,
        *,
        partitioning: Partitioning,
        guilty: Subgraph,
        symptom: Symptom,
        trusted: BoundModel,
        feeds: Mapping[str, Any],
        tolerance: ToleranceOf,
        progress: Progress,
    ) -> None:
        backend = partitioning.claim_of(guilty).backend
        graph = partitioning.graph
        self.graph = replace(graph, settings=_alone(graph.settings, backend))
        self.builds = 0
        self._trusted = replace(graph, settings=trusted.settings, extensions=trusted.extensions)
        self._symptom = symptom
        self._tolerance = tolerance
        self._progress = progress
        # constants travel with those that read them
        self._order = tuple(node for node in guilty.nodes if not graph.is_constant_node(node))
        self._places = {node: at for at, node in enumerate(self._order)}
        self._results: dict[tuple[int, ...], Built] = {}
        known = admit_inputs(graph, feeds)
        inner = [name for name in guilty.inputs if name not in known]
        made = reference_values(replace(trusted, outputs=()), inner, feeds) if inner else {}
        self._known = [(0, {name: {**known, **made}[name] for name in guilty.inputs})]

    @property
    def smallest(self) -> tuple[int, ...]:
        """The smallest part that was wrong; the whole subgraph if none was."""
        wrong = [part for part, built in self._results.items() if built.shows(self._symptom)]
        return min(wrong, key=len, default=self._order)

    def result_of(self, part: tuple[int, ...]) -> Built | None:
        """Return the latest wrong outcome of a part; None if it was not built."""
        return self._results.get(part)

    def search(self, is_still_wrong: Callable[[], bool]) -> Verdict:
        """Search; ``smallest`` is the finding."""
        order, low, high = self._order, 0, len(self._order)
        known = order
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_wrong(order[low:middle]):
                high = middle
                known = order[low:high]
            else:
                low = middle
                self._known[1:] = [(low, self.inputs_of(self.part(order[low:])))]
        if self._is_wrong(order[low:high]):
            return "node"
        was_wrong = known in self._results and self._is_wrong(known)
        again = [self._is_wrong(known, anew=True) for _ in range(_AGAIN)]
        if not (was_wrong or any(again)):
            return "whole" if is_still_wrong() else "unsteady"
        if not all(again):
            return "unsteady"
        found = self._together(known)
        return "together" if self._is_wrong(found, anew=True) else "unsteady"

    def part(self, nodes: Sequence[int]) -> Subgraph:
        """Cut nodes out as a subgraph of their own."""
        return make_subgraph(self.graph, nodes, self.graph.settings.backends[0].name)

    def inputs_of(self, part: Subgraph) -> dict[str, Any]:
        """Return the values that the reference has at the inputs of a part."""
        places = [self._places[node] for node in part.nodes]
        start, values = next(one for one in reversed(self._known) if one[0] <= min(places))
        if inner := [name for name in part.inputs if name not in values]:
            before = self.part(self._order[start : max(places)])
            cut = replace(within(self._trusted, before), outputs=())
            feeds = {name: values[name] for name in cut.inputs}
            values = values | reference_values(cut, inner, feeds)
        return {name: values[name] for name in part.inputs}

    def compare(self, tested: BoundModel, trusted: BoundModel, feeds: Mapping[str, Any]) -> Built:
        """Build a part and compare it with the reference."""
        self._progress.check()
        self.builds += 1
        most = math.ceil(math.log2(len(self._order) or 1)) + 2
        count = len(tested.order)
        self._progress("building parts", self.builds, max(most, self.builds), f"{count} nodes")
        try:
            compiled = plan(tested)
        except CompileError as error:
            return Built("compile", error=str(error))
        compared = verify_plan(compiled, trusted, feeds, tolerance=self._tolerance)
        wrong = not all(one.agrees for one in compared.outputs)
        return Built("run" if compared.error else "value" if wrong else "", compared)

    def _is_wrong(self, nodes: tuple[int, ...], *, anew: bool = False) -> bool:
        if anew or nodes not in self._results:
            if not nodes or self.builds >= _MOST_BUILDS:
                return False
            part = self.part(nodes)
            if not part.outputs:
                return False
            feeds = self.inputs_of(part)
            built = self.compare(within(self.graph, part), within(self._trusted, part), feeds)
            if nodes in self._results and not built.shows(self._symptom):
                return False
            self._results[nodes] = built
        return self._results[nodes].shows(self._symptom)

    def _together(self, row: tuple[int, ...]) -> tuple[int, ...]:
        """Return the smallest wrong set of a wrong row.

        The last node of the set is the end of the shortest wrong beginning: no node after it can
        hide the fault. Of those before it, the nearest are preferred.
        """
        low, high = 0, len(row)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_wrong(row[:middle]) else (middle, high)
        last = row[low]
        return self._hull((last, *self._find_needed((last,), row[:low][::-1], grown=True)))

    def _find_needed(
        self, kept: tuple[int, ...], rest: tuple[int, ...], *, grown: bool
    ) -> tuple[int, ...]:
        """Return those of the rest that are needed beside those kept for the hull to be wrong."""
        if grown and self._is_wrong(self._hull(kept)):
            return ()
        if len(rest) <= 1:
            return rest
        first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        later = self._find_needed((*kept, *first), second, grown=True)
        earlier = self._find_needed((*kept, *later), first, grown=bool(later))
        return (*earlier, *later)

    def _hull(self, nodes: Collection[int]) -> tuple[int, ...]:
        """Return the nodes and those on the paths between them, in order."""
        if not nodes:
            return ()
        chosen = frozenset(nodes)
        places = [self._places[node] for node in chosen]
        row = self._order[min(places) : max(places) + 1]
        edges = self.graph.adjacency
        after, before = set(chosen), set(chosen)
        for node in row:
            if not after.isdisjoint(edges.predecessors(node)):
                after.add(node)
        for node in reversed(row):
            if not before.isdisjoint(edges.successors(node)):
                before.add(node)
        return tuple(node for node in row if node in after and node in before)


def _alone(settings: ResolvedConfig, backend: Backend) -> ResolvedConfig:
    """Return the settings with one backend, as it was made; demands on the whole do not hold."""
    others = {key: given for key, given in settings.option_sources.items() if key != backend.name}
    return replace(
        settings,
        backends=(BackendChoice(backend.name, target=backend),),
        option_sources=MappingProxyType(others),
        on_fallback="ok",
        on_compile_error="raise",
        require=MappingProxyType({}),
        pin=(),
        keep_off=(),
        strict=False,
        tune="off",
        cache=False,  # nobody opens these parts again
    )
