"""The layers of an engine, and the nodes that its inspector tells of them."""

import json
from collections.abc import Iterable, Iterator

from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.building.model import NameMap
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.running.engine import LoadedEngine


def nodes_of_layers(
    loaded: LoadedEngine, subgraph: Subgraph, library: Library, layers: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Return the nodes that layers compute, by the names that profilers are told."""
    texts = {layer: layer for layer in layers}
    texts |= dict(_texts_of_layers(loaded, library))
    places = {name: NameMap().places(text) for name, text in texts.items()}
    nodes = subgraph.nodes
    return {name: tuple(nodes[at] for at in of if at < len(nodes)) for name, of in places.items()}


def _texts_of_layers(loaded: LoadedEngine, library: Library) -> Iterator[tuple[str, str]]:
    """Yield name and text of each layer that the inspector tells of and can be read."""
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
        yield name, f"{name} {details.get('Metadata', '')}"
