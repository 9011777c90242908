"""Trials of a library: it builds one node, loads it, and says which operators its parser has."""

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx import TensorProto, helper

from subgraphkit.errors import SubgraphkitError
from subgraphkit_tensorrt.library.checks import check, tail
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening

__all__ = ["has_operator", "network_flags", "trial_plan", "trial_problem"]

_LOCK = threading.Lock()


def trial_problem(library: Library, *, load: bool) -> str:
    """Build an engine of one node.

    Args:
        library: The library; it has a builder.
        load: Whether to load the engine as well, which takes a GPU.

    Returns:
        What went wrong, with what TensorRT said; an empty string if nothing did.
    """
    with listening() as lines:
        try:
            plan = trial_plan(library, lines)
            if load:
                runtime = check(library.trt.Runtime(library.logger), "make a runtime", lines)
                check(runtime.deserialize_cuda_engine(plan), "load the engine it built", lines)
        except SubgraphkitError as error:
            return " ".join(f"{error.message}. {error.hint}".split())
        except Exception as error:  # noqa: BLE001 (a binding raises whatever it likes)
            return " ".join(f"{type(error).__name__}: {error} {tail(lines)}".split())
    return ""


def network_flags(trt: Any) -> int:
    """Return the flags for a network whose types are those of the model."""
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def trial_plan(library: Library, lines: Sequence[str], *flags: str) -> bytes:
    """Build an engine of one node.

    Args:
        library: The library; it has a builder.
        lines: What it says meanwhile.
        *flags: Names of builder flags.

    Raises:
        CompileError: It failed (SGK162).
    """
    trt = library.trt
    builder = check(trt.Builder(library.logger), "make a builder", lines)
    network = check(builder.create_network(network_flags(trt)), "make a network", lines)
    parser = check(trt.OnnxParser(network, library.logger), "make a parser", lines)
    check(parser.parse(_model()), "read a model of one node", lines)
    config = check(builder.create_builder_config(), "make a configuration", lines)
    for flag in flags:
        config.set_flag(trt.BuilderFlag.__members__[flag])
    plan = check(builder.build_serialized_network(network, config), "build one node", lines)
    return bytes(plan)


def _model() -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "trial", [x], [y])
    opsets = [helper.make_opsetid("", 13)]
    model: bytes = helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()
    return model


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
