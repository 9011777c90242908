"""Layers of an engine, each with the nodes of the model it came from and, if measured, its time."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.building.name_map import NameMap
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.running.callbacks import LayerTimes
from subgraphkit_tensorrt.running.engine import LoadedEngine

__all__ = ["describe_layers", "nodes_of_layers"]


def describe_layers(
    loaded: LoadedEngine, subgraph: Subgraph, library: Library, times: LayerTimes | None
) -> list[dict[str, Any]]:
    """Describe the layers.

    Args:
        loaded: The engine.
        subgraph: The subgraph it runs.
        library: TensorRT.
        times: What was measured, if anything.

    Returns:
        Per layer its ``name``, the ``nodes`` of the model it computes, what TensorRT tells of it
        (``details``, if the plan was built with verbosity detailed) and, if measured, ``ms``, the
        mean of all runs. Layers that only the profiler knows come last.
    """
    labels = {place: subgraph.graph.nodes[node].label for place, node in enumerate(subgraph.nodes)}
    names = NameMap(labels=labels)
    layers: dict[str, dict[str, Any]] = {}
    for layer in _inspected(loaded, library):
        details = layer if isinstance(layer, dict) else {}
        name = str(details.get("Name", layer))
        text = f"{name} {details.get('Metadata', '')}"
        layers[name] = {"name": names.readable(name), "nodes": _nodes(names, text)}
        if details:
            layers[name]["details"] = _readable(names, details)
    if times is not None:
        for name, total in times.milliseconds.items():
            entry = layers.setdefault(
                name, {"name": names.readable(name), "nodes": _nodes(names, name)}
            )
            entry["ms"] = total / times.calls[name]
    return list(layers.values())


def nodes_of_layers(
    loaded: LoadedEngine, subgraph: Subgraph, library: Library, layers: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Return the nodes that layers compute, by the names that profilers are told."""
    texts = {layer: layer for layer in layers}
    for layer in _inspected(loaded, library):
        details = layer if isinstance(layer, dict) else {}
        name = str(details.get("Name", layer))
        texts[name] = f"{name} {details.get('Metadata', '')}"
    places = {name: NameMap().places(text) for name, text in texts.items()}
    nodes = subgraph.nodes
    return {
        name: tuple(nodes[at] for at in found if at < len(nodes)) for name, found in places.items()
    }


def _nodes(names: NameMap, text: str) -> list[str]:
    return [names.labels[place] for place in names.places(text) if place in names.labels]


def _inspected(loaded: LoadedEngine, library: Library) -> list[Any]:
    """Return what the inspector says of each layer; nothing if it says nothing that can be read."""
    trt = library.trt
    if loaded.handle is None or not hasattr(trt, "EngineInspector"):
        return []
    inspector = loaded.handle.create_engine_inspector()
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        found = json.loads(text)
    except ValueError:
        return []
    layers = found.get("Layers", []) if isinstance(found, dict) else []
    return layers if isinstance(layers, list) else []


def _readable(names: NameMap, details: Mapping[str, Any]) -> dict[str, Any]:
    text = names.readable(json.dumps(details))
    found: dict[str, Any] = json.loads(text)
    return found
