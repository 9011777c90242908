"""Plugins: operators of other domains, in shared libraries or registered from Python."""

import threading
from collections.abc import Iterable
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.errors import OptionError
from subgraphkit.ir import Node
from subgraphkit_tensorrt.library.checks import tail
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening

__all__ = ["load_plugins", "plugin_refusal"]

_VERSION: Final = "1"
_LOADED: Final[set[tuple[int, str]]] = set()
_LOCK: Final = threading.Lock()


def load_plugins(library: Library, paths: Iterable[str]) -> None:
    """Make NVIDIA's own plugins known, and load libraries with others, once in a process.

    Args:
        library: The library; nothing is loaded into one that cannot be asked.
        paths: Paths of shared libraries; they run in this process.

    Raises:
        OptionError: One cannot be loaded (SGK167).

    Thread-safety: may be called from any thread.
    """
    trt, can = library.trt, library.capabilities
    if trt is None:
        return
    with _LOCK:
        if can.plugins and _first_time(trt, ""):
            trt.init_libnvinfer_plugins(library.logger, "")
        for path in paths:
            if _first_time(trt, path):
                _load(trt, path)


def plugin_refusal(library: Library, node: Node) -> Refusal | None:
    """Say why a node of another domain cannot be a plugin; None if one is registered."""
    if library.trt is None:
        name, title = node.qualified_op_type, library.flavour.title
        text = f"{name} is not ONNX's, and there is no {title} here to be asked for a plugin"
        return Refusal("op_unsupported", text)
    if not library.capabilities.plugins:
        text = f"{node.qualified_op_type} is not ONNX's, and {library.flavour.title} has no plugins"
        return Refusal("op_unsupported", text)
    if _is_registered(library, node):
        return None
    text = f"no plugin {node.op_type!r} is registered; load its library with plugin_libraries"
    return Refusal("op_unsupported", text)


def _is_registered(library: Library, node: Node) -> bool:
    version = _text(node.attribute("plugin_version", _VERSION))
    namespace = _text(node.attribute("plugin_namespace", ""))
    registry = library.trt.get_plugin_registry()
    return registry.get_creator(node.op_type, version, namespace) is not None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _first_time(trt: Any, path: str) -> bool:
    before = len(_LOADED)
    _LOADED.add((id(trt), path))
    return len(_LOADED) > before


def _load(trt: Any, path: str) -> None:
    with listening() as lines:
        try:
            handle = trt.get_plugin_registry().load_library(path)
        except Exception as error:  # noqa: BLE001 (a binding raises whatever it likes)
            handle, said = None, f"{type(error).__name__}: {error}"
        else:
            said = tail(lines)
    if handle is not None:
        return
    _LOADED.discard((id(trt), path))
    raise OptionError(
        "SGK167",
        f"option 'plugin_libraries' of backend 'tensorrt' names {path!r}, which TensorRT cannot "
        f"load: {said or 'it gave no reason'}",
        hint="It has to be built against this version of TensorRT, and to export its creators.",
        backend="tensorrt",
        option="plugin_libraries",
    )
