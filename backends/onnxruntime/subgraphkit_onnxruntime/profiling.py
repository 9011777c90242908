"""Times of kernels, from the file that ONNX Runtime writes of a session that is profiled."""

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import InnerTime, SubgraphOperator, Traits
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit_onnxruntime.operator import OnnxRuntimeOperator

OURS: Final = re.compile(r"#(\d+)\b")
"""How nodes are named in sessions, so that ONNX Runtime's words lead back to them."""
_KERNEL: Final = "_kernel_time"


class ProfiledOperator(SubgraphOperator):
    """A region in a session that ONNX Runtime profiles; the times are known once it is closed.

    Thread-safety: as of ``OnnxRuntimeOperator``.
    """

    traits = Traits(thread_safe=True, minds_memory=True)

    def __init__(
        self,
        open_with: Callable[[str], OnnxRuntimeOperator],
        subgraph: Subgraph,
        record: Callable[[InnerTime], object],
    ) -> None:
        self._subgraph, self._record = subgraph, record
        self._folder = tempfile.TemporaryDirectory()
        with ExitStack() as unless_opened:
            unless_opened.callback(self._folder.cleanup)
            self._operator = open_with(str(Path(self._folder.name) / "profile"))
            unless_opened.pop_all()
        self._began = self._operator.profile_began()
        self._is_open = True

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return self._operator.run(inputs, outputs)

    def close(self) -> None:
        """Close the session, and record what is in the file that it wrote."""
        if not self._is_open:
            return
        self._is_open = False
        with self._folder as folder:
            self._operator.close()
            (path,) = Path(folder).iterdir()
            self._record_all(json.loads(path.read_text(encoding="utf-8")))

    def _record_all(self, events: Sequence[Mapping[str, Any]]) -> None:
        kernels = list(_outermost(event for event in events if event.get("cat") == "Node"))
        nodes_of = _nodes_of_kernels(self._subgraph, {one["name"] for one in kernels})
        for one in kernels:
            name, facts = one["name"], one["args"]
            text = f"{facts.get('op_name', name)} {facts.get('provider', '')}".rstrip()
            start = self._began + one["ts"] / 1e6
            self._record(InnerTime(text, one["dur"] / 1e6, tuple(nodes_of[name]), start))


def _outermost(events: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Leave out kernels that run inside of others, which are those of bodies."""
    ends: dict[int, int] = {}
    for one in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        end = one["ts"] + one["dur"]
        if one["name"].endswith(_KERNEL) and end > ends.get(one["tid"], -1):
            ends[one["tid"]] = end
            yield one


def _nodes_of_kernels(subgraph: Subgraph, names: Collection[str]) -> dict[str, list[int]]:
    """Return the nodes that each kernel computes.

    A kernel's name has the number of its first node in it, or begins with the value that its last
    node makes. A node in no name was fused into a neighbour, found in this order:

    * a kernel named by its last node that reads what the node makes;
    * the kernel that makes what the node reads, if it is only one;
    * the kernel that reads what the node makes.
    """
    owner: dict[int, str] = {}
    by_value: set[str] = set()
    for name in sorted(names):
        text = name.removesuffix(_KERNEL)
        found = [int(number) for number in OURS.findall(text)]
        by_value |= set() if found else {name}
        owner |= dict.fromkeys(found or _maker(subgraph, text), name)
    nodes, graph = subgraph.nodes, subgraph.graph
    readers: dict[int, set[int]] = {}
    for node in nodes:
        for maker in _makers(graph, node):
            readers.setdefault(maker, set()).add(node)
    _spread(owner, reversed(nodes), readers, by_value)
    _spread(owner, nodes, {node: _makers(graph, node) for node in nodes}, names)
    _spread(owner, reversed(nodes), readers, names)
    found_by: dict[str, list[int]] = {name: [] for name in names}
    for node in filter(owner.__contains__, nodes):
        found_by[owner[node]].append(node)
    return found_by


def _spread(
    owner: dict[int, str],
    nodes: Iterable[int],
    neighbours: Mapping[int, Collection[int]],
    wanted: Collection[str],
) -> None:
    """Give nodes without a kernel that of their neighbours, if they have one, which is wanted."""
    for node in nodes:
        kernels = {owner.get(one, "") for one in neighbours.get(node, ())}
        if node not in owner and len(kernels) == 1 and kernels <= set(wanted):
            owner[node] = kernels.pop()


def _makers(graph: BoundGraph, node: int) -> set[int]:
    values = graph.nodes[node].inputs
    return {graph.producers[value] for value in values if value in graph.producers}


def _maker(subgraph: Subgraph, text: str) -> list[int]:
    """Return the node that makes the value with which a text begins."""
    while text:
        if text in subgraph.graph.producers:
            return [subgraph.graph.producers[text]]
        text = text.rpartition("_")[0]
    return []
