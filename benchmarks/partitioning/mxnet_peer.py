"""Partition one graph with MXNet 1.9.1; run by ``bench_mxnet.py`` in an environment of its own.

The graph comes as JSON on standard input: ``predecessors``, a list of units for each unit, and
``eligible``, 0 or 1 for each. What was found goes as JSON to standard output:

- ``regions``: lists of units, or null if MXNet gave none;
- ``error``: what MXNet said when it partitioned the graph or wrote the result down, or null.

Nothing here sees subgraphkit: MXNet needs a NumPy that is older than the one subgraphkit needs.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import mxnet
from mxnet.base import _LIB, c_str, c_str_array, check_call, mx_uint

Regions = list[list[int]]

PROPERTY = "default"
CLAIMED = "elemwise_add"
_REGION_OUTPUT = re.compile(r"_CachedOp(\d+)_")


def main() -> None:
    """Partition the graph on standard input."""
    graph = json.load(sys.stdin)
    names = c_str_array([CLAIMED])
    check_call(_LIB.MXSetSubgraphPropertyOpNamesV2(c_str(PROPERTY), mx_uint(1), names))
    regions, error = partition(graph["predecessors"], graph["eligible"])
    json.dump({"regions": regions, "error": error}, sys.stdout)


def partition(
    predecessors: Sequence[Sequence[int]], eligible: Sequence[int]
) -> tuple[Regions | None, str | None]:
    """Return the regions and what went wrong.

    A graph with a cycle cannot be written down, so that its regions are read off the outputs of a
    graph of which every node is one. The real outputs come first among them, which leaves the order
    in which MXNet goes through the nodes, and with it the regions, as they were.
    """
    nodes = symbols(predecessors, eligible)
    read = {unit for row in predecessors for unit in row}
    outputs = [unit for unit in range(len(nodes)) if unit not in read]
    try:
        found = mxnet.sym.Group([nodes[unit] for unit in outputs]).optimize_for(PROPERTY)
        return written_regions(json.loads(found.tojson())), None
    except mxnet.base.MXNetError as failure:
        error = str(failure).strip()
    outputs += sorted(read)
    try:
        found = mxnet.sym.Group([nodes[unit] for unit in outputs]).optimize_for(PROPERTY)
    except mxnet.base.MXNetError:
        return None, error
    return named_regions(outputs, found.list_outputs()), error


def symbols(predecessors: Sequence[Sequence[int]], eligible: Sequence[int]) -> list[Any]:
    """Build the graph: a claimed unit is an addition, another a sine or a multiplication."""
    nodes: list[Any] = []
    for unit, row in enumerate(predecessors):
        inputs = [nodes[pred] for pred in row] or [mxnet.sym.Variable(f"source{unit}")]
        if eligible[unit]:
            made = mxnet.sym.elemwise_add
        else:
            made = mxnet.sym.sin if len(inputs) == 1 else mxnet.sym.elemwise_mul
        ends = inputs if made is mxnet.sym.sin else [inputs[0], inputs[-1]]
        nodes.append(made(*ends, name=f"unit{unit}"))
    return nodes


def written_regions(graph: dict[str, Any]) -> Regions:
    """Read the regions from the JSON of a partitioned graph."""
    return [
        [
            int(inner["name"].removeprefix("unit"))
            for subgraph in node["subgraphs"]
            for inner in subgraph["nodes"]
            if inner["op"] != "null"
        ]
        for node in graph["nodes"]
        if "subgraphs" in node
    ]


def named_regions(outputs: Sequence[int], names: Sequence[str]) -> Regions:
    """Read the regions from the names of the outputs, which tell the subgraph of each."""
    regions: dict[str, list[int]] = {}
    for unit, name in zip(outputs, names, strict=True):
        subgraph = _REGION_OUTPUT.match(name)
        if subgraph is not None:
            regions.setdefault(subgraph[1], []).append(unit)
    return list(regions.values())


if __name__ == "__main__":
    main()
