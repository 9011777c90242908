"""The third sieve: nodes the builder could make nothing of although the parser took them.

They are learnt for one graph, library, device and set of options that shape an engine, and left out
from the start the next time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import Refusal, options_of
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit.storing import Answers, Passing
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.name_map import NameMap

__all__ = ["Learned", "blamed_nodes"]

_CODE: Final = "compile_failed"
_LEARNED: Final = Answers("learned")


class Learned:
    """Facts learnt about the nodes of one graph.

    Args:
        graph: The graph.
        identity: Names the library and the device.
        options: The options of the backend.
        folder: Where to keep it; None for nowhere.

    Thread-safety: used by one thread at a time.
    """

    def __init__(
        self, graph: BoundGraph, identity: str, options: Options, folder: Path | None
    ) -> None:
        self._folder = folder
        shaping = [
            (one.name, repr(getattr(options, one.name))) for one in options_of(Options) if one.cache
        ]
        facts = f"{identity}\n{shaping}\n{_structure(graph)}"
        self._question = hashlib.sha256(facts.encode()).digest()  # for the text may be long

    def refusals(self) -> dict[int, Refusal]:
        """Return the nodes to leave out, with the reasons."""
        return {int(node): Refusal(_CODE, text) for node, text in self._known().items()}

    def add(self, nodes: Sequence[int], text: str) -> None:
        """Learn that nodes make builds fail."""
        text = text or "an earlier build failed"
        known = {**self._known(), **{str(node): text for node in nodes}}
        _LEARNED.put(self._question, known, self._folder)

    def _known(self) -> Mapping[str, str]:
        return _LEARNED.recall(self._question, lambda: Passing({}), self._folder)


def blamed_nodes(subgraph: Subgraph, error: CompileError) -> tuple[int, ...]:
    """Return the nodes at which a build failed; none if the library did not say.

    A chain of fused layers is named by its ends, which says nothing of either, and what is only
    warned of is not at fault.
    """
    lines: Sequence[str] = error.context.get("lines", ())
    if not lines:
        return tuple(error.context.get("nodes", ()))
    names = NameMap()
    places = {
        place
        for line in lines
        if not line.startswith("warning") and "ForeignNode" not in line
        for place in names.places(line)
        if place < len(subgraph.nodes)
    }
    return tuple(subgraph.nodes[place] for place in sorted(places))


def _structure(graph: BoundGraph) -> str:
    """Return all of a graph but its weights."""
    table = graph.table
    rows: list[Any] = [
        (table.op_types[i], table.domains[i], table.inputs[i], table.outputs[i])
        for i in range(len(graph.nodes))
    ]
    types = {name: str(type_) for name, type_ in graph.types.items()}
    return repr((rows, sorted(types.items()), sorted(graph.opset_imports.items())))
