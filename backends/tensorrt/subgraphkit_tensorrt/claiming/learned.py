"""The third sieve: nodes of which the builder could make nothing although the parser took them.

They are learnt for one graph, library, device and set of options that shape an engine, and left out
from the start the next time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from subgraphkit.backend import Refusal, options_of
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.naming import Names
from subgraphkit_tensorrt.claiming.kept import Kept

__all__ = ["Learned", "blamed_nodes"]

_CODE = "compile_failed"


class Learned:
    """What was learnt of the nodes of one graph.

    Args:
        graph: The graph.
        identity: Names the library and the device.
        options: The options of the backend.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, graph: BoundGraph, identity: str, options: Options) -> None:
        self._kept = Kept("learned", graph.settings)
        shaping = [
            (one.name, repr(getattr(options, one.name))) for one in options_of(Options) if one.cache
        ]
        facts = f"{identity}\n{shaping}\n{_structure(graph)}"
        self._key = hashlib.sha256(facts.encode()).hexdigest()
        self._count = len(graph.nodes)

    def refusals(self) -> dict[int, Refusal]:
        """Return the nodes to leave out, with the reasons."""
        found = {}
        kept = self._kept.get(self._key)
        for node, text in kept.items() if isinstance(kept, dict) else ():
            if str(node).isdecimal() and int(node) < self._count:
                found[int(node)] = Refusal(_CODE, str(text) or "an earlier build failed")
        return found

    def add(self, nodes: Sequence[int], text: str) -> None:
        """Learn that nodes make builds fail."""
        known: Mapping[str, str] = self._kept.get(self._key) or {}
        self._kept.put(self._key, {**known, **{str(node): text for node in nodes}})


def blamed_nodes(subgraph: Subgraph, error: CompileError) -> tuple[int, ...]:
    """Return the nodes at which a build failed; none if the library did not say.

    A chain of fused layers is named by its ends, which says nothing of either, and what is only
    warned of is not at fault.
    """
    lines: Sequence[str] = error.context.get("lines", ())
    if not lines:
        return tuple(error.context.get("nodes", ()))
    names = Names()
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
