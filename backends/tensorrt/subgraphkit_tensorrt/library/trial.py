"""One node, built and, where there is a GPU, loaded: whether a library works, found out by use."""

from typing import Any

from onnx import TensorProto, helper

from subgraphkit.errors import SubgraphkitError
from subgraphkit_tensorrt.library.checks import check, tail
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening

__all__ = ["network_flags", "trial_problem"]


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
            plan = _built(library, lines)
            if load:
                runtime = check(library.trt.Runtime(library.logger), "make a runtime", lines)
                check(runtime.deserialize_cuda_engine(plan), "load the engine it built", lines)
        except SubgraphkitError as error:
            return " ".join(f"{error.message}. {error.hint}".split())
        except Exception as error:  # noqa: BLE001 (a binding raises whatever it likes)
            return " ".join(f"{type(error).__name__}: {error} {tail(lines)}".split())
    return ""


def network_flags(trt: Any) -> int:
    """Return the flags for a network with explicit batches whose types are those of the model."""
    members = trt.NetworkDefinitionCreationFlag.__members__
    wanted = (members[name] for name in ("EXPLICIT_BATCH", "STRONGLY_TYPED") if name in members)
    return sum(1 << int(member) for member in wanted)


def _built(library: Library, lines: Any) -> bytes:
    trt = library.trt
    builder = check(trt.Builder(library.logger), "make a builder", lines)
    network = check(builder.create_network(network_flags(trt)), "make a network", lines)
    parser = check(trt.OnnxParser(network, library.logger), "make a parser", lines)
    check(parser.parse(_model()), "read a model of one node", lines)
    config = check(builder.create_builder_config(), "make a configuration", lines)
    plan = check(builder.build_serialized_network(network, config), "build one node", lines)
    return bytes(plan)


def _model() -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "trial", [x], [y])
    opsets = [helper.make_opsetid("", 13)]
    model: bytes = helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()
    return model
