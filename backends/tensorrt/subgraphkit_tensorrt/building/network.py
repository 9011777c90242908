"""Networks of TensorRT from prepared models, alive in the right order and held to the model.

The library is not given an error recorder: on the build side one hides errors, or crashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import PreparedModel, half_border
from subgraphkit_tensorrt.building.profiles import InputRange, write_sizes
from subgraphkit_tensorrt.library.flavours import Library, network_flags
from subgraphkit_tensorrt.library.logger import check, listening, tail

TYPES: Final = {
    "FLOAT": DataType.FLOAT, "HALF": DataType.FLOAT16, "BF16": DataType.BFLOAT16,
    "INT8": DataType.INT8, "INT32": DataType.INT32, "INT64": DataType.INT64, "BOOL": DataType.BOOL,
    "UINT8": DataType.UINT8, "FP8": DataType.FLOAT8E4M3FN, "INT4": DataType.INT4,
    "FP4": DataType.FLOAT4E2M1, "E8M0": DataType.FLOAT8E8M0,
}  # fmt: skip
"""By TensorRT's name of an element type, ours."""
PACKED: Final = frozenset({DataType.INT4, DataType.FLOAT4E2M1, DataType.FLOAT8E8M0})
"""Those that no input or output has."""


def make_builder(library: Library) -> Any:
    """Return a builder for the current device; CompileError (SGK162) if TensorRT makes none."""
    with listening() as lines:
        return check(library.trt.Builder(library.logger), "make a builder", lines)


@dataclass(eq=False)
class ParsedNetwork:
    """A network with what has to outlive it.

    TensorRT reads weights from our arrays, and the parser's words from the network, until the build
    is over; ``close`` lets go of them in the order it wants.

    Attributes:
        parser: The parser; it owns what the network was made from.
        kept: What else the library reads from until the build is over.

    Thread-safety: used by one thread.
    """

    model: PreparedModel
    builder: Any
    network: Any
    parser: Any
    kept: list[Any] = field(default_factory=list)

    def close(self) -> None:
        """Let go of everything."""
        self.parser = None
        self.network = None
        self.builder = None
        self.kept.clear()


def parse_model(
    model: PreparedModel, subgraph: Subgraph, library: Library, options: Options
) -> ParsedNetwork:
    """Parse a model; CompileError if that fails (SGK170) or changes inputs or outputs (SGK171)."""
    trt = library.trt
    with listening() as lines:
        builder = make_builder(library)
        network = check(builder.create_network(network_flags(trt)), "make a network", lines)
        parser = check(trt.OnnxParser(network, library.logger), "make a parser", lines)
        parsed = ParsedNetwork(model, builder, network, parser)
        parsed.kept = feed(parser, model, library, "parse", "parse_model_proto")
    if not parsed.kept or (network.num_layers == 0 and subgraph.outputs):
        raise _parser_refusal(model, subgraph, parser, lines)
    if found := differences(network, subgraph, library, options):
        raise CompileError(
            "SGK171",
            f"TensorRT's parser makes something else of subgraph {subgraph.id!r} than ONNX says: "
            f"{'; '.join(found)}",
            backend="tensorrt",
            subgraph=subgraph.id,
            hint="Leave the operators at fault to another backend with the setting keep_off.",
            differences=tuple(found),
        )
    return parsed


def feed(parser: Any, model: PreparedModel, library: Library, whole: str, parts: str) -> list[Any]:
    """Give a parser a model and its weights, without a copy where it can be avoided.

    ``whole``: Its method that takes a model with weights; ``parts``: what ends giving them apart.

    Returns:
        What it reads from for as long as it lives; nothing if it does not take the model.
    """
    if not model.weights or not library.capabilities.load_initializer:
        data = model.whole().SerializeToString()
        return [data] if getattr(parser, whole)(data) else []
    data = model.proto.SerializeToString()
    is_taken = parser.load_model_proto(data) and all(
        parser.load_initializer(name, array.ctypes.data, array.nbytes)
        for name, array in model.weights.items()
    )
    return [data, *model.weights.values()] if is_taken and getattr(parser, parts)() else []


def parser_errors(parser: Any) -> list[str]:
    """Return what the parser complained of, one line each; copied at once, as it owns nothing."""
    found = []
    for place in range(parser.num_errors):
        error = parser.get_error(place)
        said = " ".join(str(error.desc()).split())
        node = f"{error.node_name()} ({error.node_operator()}): "
        found.append(f"{node}{said}" if error.node() >= 0 else said)
    return list(dict.fromkeys(found))


def _parser_refusal(
    model: PreparedModel, subgraph: Subgraph, parser: Any, lines: Sequence[str]
) -> CompileError:
    complaints = parser_errors(parser)
    places = sorted({place for text in complaints for place in model.names.places(text)})
    said = [model.names.readable(text) for text in complaints] or [tail(lines)]
    said = list(filter(None, said)) or ["It gave no reason."]
    return CompileError(
        "SGK170",
        f"TensorRT's parser does not take subgraph {subgraph.id!r}: {said[0]}",
        backend="tensorrt",
        subgraph=subgraph.id,
        hint="\n".join(
            [*said[1:6], "Leave the node to another backend with the setting keep_off."]
        ),
        nodes=tuple(subgraph.nodes[place] for place in places),
        parser_errors=tuple(said),
    )


def element_type(trt: Any, dtype: Any) -> DataType:
    """Return our word for an element type of TensorRT; ``UNDEFINED`` for one we do not know."""
    for name, member in trt.DataType.__members__.items():
        if member == dtype:
            return TYPES.get(name, DataType.UNDEFINED)
    return DataType.UNDEFINED


def misread_type(trt: Any, tensor: Any, type_: ValueType | None) -> str:
    """Return the type that the library gives a value, if it is not what ONNX says; else nothing."""
    if not isinstance(type_, TensorType):
        return ""
    dtype = element_type(trt, tensor.dtype)
    shape = tuple(tensor.shape)
    # A length of -1 means that nothing is known of it.
    fits = type_.shape is None or (
        len(shape) == len(type_.shape)
        and all(
            have in {want, -1} or not isinstance(want, int)
            for have, want in zip(shape, type_.shape, strict=True)
        )
    )
    if fits and (dtype is type_.dtype or DataType.UNDEFINED in {dtype, type_.dtype}):
        return ""
    return str(TensorType(dtype, tuple(None if dim < 0 else dim for dim in shape)))


def differences(network: Any, subgraph: Subgraph, library: Library, options: Options) -> list[str]:
    """Compare inputs and outputs of a network with those of a subgraph.

    The parser takes some operators and makes something else of them, such as other layouts of RNNs
    or narrower types; that shows here.
    """
    found = []
    narrowed = half_border(subgraph, options)
    inputs = map(network.get_input, range(network.num_inputs))
    outputs = map(network.get_output, range(network.num_outputs))
    for kind, names, types, given in (
        ("input", subgraph.inputs, subgraph.input_types, inputs),
        ("output", subgraph.outputs, subgraph.output_types, outputs),
    ):
        tensors = {tensor.name: tensor for tensor in given}
        if set(tensors) != set(names):
            found.append(f"its {kind}s are {sorted(tensors)}, expected {sorted(names)}")
            continue
        for name, stated in zip(names, types, strict=True):
            type_ = stated
            if name in narrowed and isinstance(stated, TensorType):
                type_ = replace(stated, dtype=DataType.FLOAT16)
            made = misread_type(library.trt, tensors[name], type_)
            found += [f"{kind} {name!r} is {made}, expected {type_}"] if made else []
    return found


_LARGEST: Final = 2**31


def check_ranges(
    ranges: Mapping[str, InputRange], network: Any, subgraph: str
) -> dict[str, InputRange]:
    """Return ranges of inputs for the builder; CompileError (SGK169) if unknown or too large."""
    tensors = [network.get_input(place) for place in range(network.num_inputs)]
    needed = {}
    for tensor in tensors:
        found = ranges[tensor.name]
        if int(np.prod(found.max, dtype=object)) >= _LARGEST:
            raise _unfit(
                subgraph,
                f"the largest shape of input {tensor.name!r}, {write_sizes(found.max)}, has "
                f"{_LARGEST} elements or more",
                "TensorRT counts elements in 31 bits; give a smaller largest shape.",
            )
        if tensor.is_shape_tensor and found.values is None:
            raise _unfit(
                subgraph,
                f"shapes are computed from the elements of input {tensor.name!r}, whose range is "
                "not known",
                "Give its smallest, usual and largest elements as min_shapes, opt_shapes and "
                "max_shapes, or let the engine be built at the first run.",
            )
        if tensor.is_shape_tensor or -1 in tensor.shape:
            needed[tensor.name] = found
    return needed


def _unfit(subgraph: str, problem: str, hint: str) -> CompileError:
    return CompileError(
        "SGK169",
        f"a range of shapes does not fit the engine of subgraph {subgraph!r}: {problem}",
        backend="tensorrt",
        subgraph=subgraph,
        hint=hint,
    )
