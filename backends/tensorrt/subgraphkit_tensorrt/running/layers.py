"""The layers of an engine: what its inspector tells of them, their times, and their nodes."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.building.model import NameMap
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.running.callbacks import LayerTimes
from subgraphkit_tensorrt.running.engine import LoadedEngine


def describe_layers(
    loaded: LoadedEngine, subgraph: Subgraph, library: Library, times: LayerTimes | None
) -> list[dict[str, Any]]:
    """Describe the layers."""
    labels = {place: subgraph.graph.nodes[node].label for place, node in enumerate(subgraph.nodes)}
    names = NameMap(labels=labels)
    sums = times.milliseconds if times is not None else {}
    told: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in sums}
    told |= {name: (text, details) for name, text, details in _inspected(loaded, library)}
    layers = []
    for name, (text, details) in told.items():
        nodes = [labels[place] for place in names.places(text) if place in labels]
        layer: dict[str, Any] = {"name": names.readable(name), "nodes": nodes}
        if details:
            layer["details"] = json.loads(names.readable(json.dumps(details)))
        if times is not None and name in sums:
            layer["ms"] = sums[name] / times.calls[name]
        layers.append(layer)
    return layers


def nodes_of_layers(
    loaded: LoadedEngine, subgraph: Subgraph, library: Library, layers: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Return the nodes that layers compute, by the names that profilers are told."""
    texts = {layer: layer for layer in layers}
    texts |= {name: text for name, text, _ in _inspected(loaded, library)}
    places = {name: NameMap().places(text) for name, text in texts.items()}
    nodes = subgraph.nodes
    return {
        name: tuple(nodes[at] for at in found if at < len(nodes)) for name, found in places.items()
    }


def _inspected(loaded: LoadedEngine, library: Library) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, text and details of each layer that the inspector tells of and can be read."""
    trt = library.trt
    if loaded.handle is None:
        return
    inspector = loaded.handle.create_engine_inspector()
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        found = json.loads(text)
    except ValueError:
        return
    layers = found.get("Layers", []) if isinstance(found, dict) else []
    for layer in layers if isinstance(layers, list) else []:
        details = layer if isinstance(layer, dict) else {}
        name = str(details.get("Name", layer))
        yield name, f"{name} {details.get('Metadata', '')}", details
