"""Which operators the parser of a library has, asked by name."""

import threading
from functools import cache
from typing import Any

from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.library.trial import network_flags

__all__ = ["has_operator"]

_LOCK = threading.Lock()


@cache
def has_operator(library: Library, op_type: str) -> bool:
    """Say whether the parser has an operator of ONNX; False if it cannot be asked.

    Thread-safety: may be called from any thread.
    """
    with _LOCK, listening():
        try:
            parser = _parser(library)
            return bool(parser[-1].supports_operator(op_type))
        except Exception:  # noqa: BLE001 (a binding raises whatever it likes without a driver)
            return False


@cache
def _parser(library: Library) -> tuple[Any, ...]:
    """Return a parser with what it lives on."""
    trt = library.trt
    builder = trt.Builder(library.logger)
    network = builder.create_network(network_flags(trt))
    return builder, network, trt.OnnxParser(network, library.logger)
