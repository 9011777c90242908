"""The double's builder and parser: they take whatever ONNX takes, and build nothing."""

import ctypes
import json
import struct
from types import SimpleNamespace
from typing import Any

import onnx

from backends.tensorrt.tests.tensorrt_double.computing import Computation

_HEADER = 28


class IHostMemory:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __bytes__(self) -> bytes:
        return self._data

    @property
    def nbytes(self) -> int:
        return len(self._data)


class ITensor:
    def __init__(self, trt: Any, name: str, computation: Computation, *, is_input: bool) -> None:
        shape = computation.type_of(name).shape or ()
        self.name = name
        self.dtype = computation.dtype_of(name, trt)
        self.shape = tuple(d if isinstance(d, int) else -1 for d in shape)
        self.is_shape_tensor = is_input and computation.is_shape(name)


_KINDS = {"MatMul": "MATRIX_MULTIPLY", "Gemm": "MATRIX_MULTIPLY", "Conv": "CONVOLUTION",
          "DequantizeLinear": "DEQUANTIZE", "QuantizeLinear": "QUANTIZE"}  # fmt: skip


class ILayer:
    def __init__(self, trt: Any, node: Any, computation: Computation) -> None:
        kinds = trt.LayerType.__members__
        self._trt, self._node, self._computation = trt, node, computation
        self.name = node.name
        self.type = kinds.get(_KINDS.get(node.op_type, ""), next(iter(kinds.values())))
        self.num_inputs, self.num_outputs = len(node.input), len(node.output)
        self.metadata = f"[ONNX Layer: {node.name}]"

    def get_input(self, index: int) -> Any:
        return self._value(self._node.input[index])

    def get_output(self, index: int) -> Any:
        return self._value(self._node.output[index])

    def _value(self, name: str) -> Any:
        trt = self._trt
        dtype = self._computation.dtype_of(name, trt) if name else trt.DataType.FLOAT
        return SimpleNamespace(name=name, dtype=dtype)


class INetworkDefinition:
    def __init__(self, trt: Any, flags: int) -> None:
        self._trt = trt
        self._flags = flags
        self.computation: Computation | None = None

    def _take(self, model: bytes) -> None:
        self.computation = Computation(model)

    @property
    def num_layers(self) -> int:
        return len(self.computation.proto.graph.node) if self.computation else 0

    @property
    def num_inputs(self) -> int:
        return len(self.computation.inputs) if self.computation else 0

    @property
    def num_outputs(self) -> int:
        return len(self.computation.outputs) if self.computation else 0

    def get_layer(self, index: int) -> ILayer:
        assert self.computation is not None
        node = self.computation.proto.graph.node[index]
        return ILayer(self._trt, node, self.computation)

    def get_input(self, index: int) -> ITensor:
        assert self.computation is not None
        name = self.computation.inputs[index]
        return ITensor(self._trt, name, self.computation, is_input=True)

    def get_output(self, index: int) -> ITensor:
        assert self.computation is not None
        name = self.computation.outputs[index]
        return ITensor(self._trt, name, self.computation, is_input=False)


class OnnxParser:
    def __init__(self, network: INetworkDefinition, logger: Any) -> None:
        del logger
        self._network = network
        self._pending: onnx.ModelProto | None = None

    @property
    def num_errors(self) -> int:
        return 0

    def parse(self, model: Any, path: str | None = None) -> bool:
        del path
        if self._network.computation is not None:
            return False  # without an error, as measured
        try:
            onnx.load_from_string(bytes(model)).graph.node[0]
        except Exception:  # noqa: BLE001 (garbage is taken, and nothing comes of it, as measured)
            return True
        self._network._take(bytes(model))
        return True

    def supports_model_v2(self, model: Any, path: str | None = None) -> bool:
        return self.parse(model, path)

    def get_layer_output_tensor(self, name: str, i: int) -> Any:
        del name, i  # as of a layer that was fused away

    def load_model_proto(self, model: Any, path: str | None = None) -> bool:
        del path
        self._pending = onnx.load_from_string(bytes(model))
        return True

    def load_initializer(self, name: str, data: int, size: int) -> bool:
        return self._pending is not None and put_in(self._pending, name, data, size)

    def parse_model_proto(self) -> bool:
        return self._pending is not None and self.parse(self._pending.SerializeToString())


def put_in(proto: onnx.ModelProto, name: str, data: int, size: int) -> bool:
    """Put the data of a weight into a model."""
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = ctypes.string_at(data, size)
            return True
    return False


class IOptimizationProfile:
    def __init__(self) -> None:
        self.shapes: dict[str, Any] = {}
        self.values: dict[str, Any] = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002 (their name)
        self.shapes[input] = [list(min), list(opt), list(max)]

    def set_shape_input(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002 (their name)
        self.values[input] = [list(min), list(opt), list(max)]


class IBuilderConfig:
    def __init__(self) -> None:
        self.given: set[str] = set()
        self.profiles: list[IOptimizationProfile] = []

    def set_flag(self, flag: Any) -> None:
        self.given.add(flag.name)

    def clear_flag(self, flag: Any) -> None:
        self.given.discard(flag.name)

    def set_preview_feature(self, feature: Any, enable: bool) -> None:  # noqa: FBT001 (their arguments)
        if enable:
            self.given.add(feature.name)

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        del pool, pool_size

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: Any) -> Any:
        del serialized_timing_cache


class Builder:
    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._device = self._double.cuda.current  # type: ignore[attr-defined]
        self._double.builders.add(self)  # type: ignore[attr-defined]

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(self._trt, flags)  # type: ignore[attr-defined]

    def create_builder_config(self) -> IBuilderConfig:
        return self._trt.IBuilderConfig()  # type: ignore[attr-defined, no-any-return]

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> IHostMemory | None:
        cuda = self._double.cuda  # type: ignore[attr-defined]
        cuda.is_on(self._device, "a builder")
        if (computation := network.computation) is None:
            return None
        proto = onnx.ModelProto()
        proto.CopyFrom(computation.proto)
        profiles = config.profiles or [IOptimizationProfile()]
        missing = [
            name
            for name in computation.inputs
            if computation.type_of(name).element_count is None
            and any(name not in profile.shapes for profile in profiles)
        ]
        if missing:
            self._logger.log(
                self._logger.Severity.ERROR,
                "Network has dynamic or shape inputs, but no optimization profile has been defined",
            )
            return None
        described = {
            "shapes": [profile.shapes for profile in profiles],
            "values": [profile.values for profile in profiles],
            "flags": sorted(config.given),
            "device": cuda.current,
        }
        return IHostMemory(_written(described, proto.SerializeToString(), self._trt))  # type: ignore[attr-defined]


def magic_of(trt: Any) -> bytes:
    """Return how plans of a library begin."""
    return b"vtrt" if trt.__name__ == "tensorrt_rtx" else b"ftrt"


def _written(described: Any, model: bytes, trt: Any) -> bytes:
    version = trt.__version__
    text = json.dumps(described).encode()
    numbers = bytes(([int(one) for one in version.split(".")] + [0, 0])[:4])
    size = _HEADER + 8 + len(text) + len(model)
    head = magic_of(trt) + bytes(12) + struct.pack("<Q", size) + numbers
    return head + struct.pack("<Q", len(text)) + text + model


def read_plan(plan: bytes, trt: Any, *, host_code: bool) -> tuple[Any, bytes] | str:
    """Return what is in a plan, or what TensorRT would say of it."""
    version = trt.__version__
    if plan[:4] != magic_of(trt):
        return "Serialization assertion header.magicTag == kEXPECTED_MAGIC_TAG failed."
    if struct.unpack_from("<Q", plan, 16)[0] != len(plan):
        return "Serialization assertion plan->header.size == blobSize failed."
    numbers = bytes(([int(one) for one in version.split(".")] + [0, 0])[:4])
    (length,) = struct.unpack_from("<Q", plan, _HEADER)
    start = _HEADER + 8
    described = json.loads(plan[start : start + length])
    flags = described["flags"]
    if "VERSION_COMPATIBLE" in flags and "EXCLUDE_LEAN_RUNTIME" not in flags and not host_code:
        return "Cannot deserialize an engine with host code: engineHostCodeAllowed is not set."
    if plan[24:28] != numbers:
        return "Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed."
    return described, plan[start + length :]


def with_model(plan: bytes, model: bytes) -> bytes:
    """Return a plan with another model, such as one with other weights."""
    (length,) = struct.unpack_from("<Q", plan, _HEADER)
    end = _HEADER + 8 + length
    return plan[:16] + struct.pack("<Q", end + len(model)) + plan[24:end] + model


BUILDING = (
    IHostMemory,
    ITensor,
    ILayer,
    INetworkDefinition,
    OnnxParser,
    IOptimizationProfile,
    IBuilderConfig,
    Builder,
)
"""The classes."""
