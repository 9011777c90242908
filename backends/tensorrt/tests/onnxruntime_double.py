"""A double of ONNX Runtime with a CUDA provider, on the memory and streams of CUDA's double.

It has the names that the backend uses of ONNX Runtime, with the arguments of the real ones, and
computes by the real library on the processor. What it reads and writes on the device is put on the
stream it was given, and it waits at the end of a run, as ONNX Runtime does.
"""

import ctypes
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime

from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.types import DataType
from subgraphkit_tensorrt.running import dlpack

_CUDA = "CUDAExecutionProvider"


class OrtValue:
    """Memory of the device or of the host."""

    def __init__(self, double: Double, address: int, array: Any) -> None:
        self._double = double
        self.address, self.array = address, array

    def shape(self) -> list[int]:
        return list(self.array.shape)

    def element_type(self) -> int:
        return int(DataType.of(self.array.dtype))

    def data_type(self) -> str:
        return f"tensor({DataType.of(self.array.dtype).onnx_name})"

    def data_ptr(self) -> int:
        return self.address or int(self.array.ctypes.data)

    def numpy(self) -> Any:
        if not self.address:
            return self.array
        self._double.cuda.copies[2] += 1
        view = self._double.cuda.view(self.address, self.array.nbytes)
        return np.frombuffer(view, self.array.dtype).reshape(self.array.shape).copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0) if self.address else (1, 0)

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        del stream
        return dlpack.export(
            self.address, self.array.shape, self.array.dtype, self.__dlpack_device__(), owner=self
        )


class IOBinding:
    """What a run reads and writes."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.inputs: dict[str, OrtValue] = {}
        self.outputs: dict[str, Any] = {}

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self.inputs[name] = ortvalue

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0) -> None:
        self.outputs[name] = (device_type, device_id)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self.outputs[name] = ortvalue

    def get_outputs(self) -> list[OrtValue]:
        return [self.outputs[name] for name in self.outputs]

    get_outputs_as_ortvaluevector = get_outputs


class Session:
    """A session that computes on the processor what it is asked to compute on the GPU."""

    def __init__(self, double: Any, model: bytes, options: Any, given: Any) -> None:
        self._double = double
        self._session = onnxruntime.InferenceSession(model, options)
        (self.options,) = given
        asked = int(self.options["user_compute_stream"])
        self.stream = 0 if asked == 1 else asked  # CUDA's default stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_providers(self) -> list[str]:
        return [_CUDA, "CPUExecutionProvider"]

    def run_with_iobinding(self, binding: IOBinding, run_options: Any = None) -> None:
        cuda, stream = self._double.trt.cuda, self.stream
        results: list[Any] = []
        reads = [(v.address, v.array.nbytes) for v in binding.inputs.values() if v.address]
        self._double.read |= {name: v.data_ptr() for name, v in binding.inputs.items()}

        def compute() -> None:
            feeds = {
                name: np.frombuffer(cuda.view(v.address, v.array.nbytes), v.array.dtype).reshape(
                    v.array.shape
                )
                if v.address and v.array.nbytes
                else v.array
                for name, v in binding.inputs.items()
            }
            results.extend(self._session.run(list(binding.outputs), feeds, run_options))

        self._double.streams.add(stream)
        cuda.put(stream, compute, reads)
        cuda.finish(stream)
        for name, result in zip(list(binding.outputs), results, strict=True):
            binding.outputs[name] = self._given(name, binding.outputs[name], np.asarray(result))

    def _given(self, name: str, target: Any, result: Any) -> OrtValue:
        double, cuda = self._double, self._double.trt.cuda
        if target == ("cpu", 0):
            return OrtValue(double.trt, 0, result)
        if not isinstance(target, OrtValue):
            address = double.allocate(result.nbytes)
            target = OrtValue(double.trt, address, result)
            weakref.finalize(target, cuda.cudaFree, ctypes.c_void_p(address))
        elif not target.address:
            np.copyto(target.array, result)
            return target

        def write() -> None:
            cuda.view(target.address, result.nbytes)[:] = result.tobytes()

        cuda.put(self.stream, write, (), [(target.address, result.nbytes)])
        cuda.finish(self.stream)
        double.wrote[name] = target.address
        return target


class OnnxRuntimeDouble:
    """The module.

    Attributes:
        read: By input of a run, the address that was read last.
        wrote: By output, the address on the device that was written last.
    """

    def __init__(self, trt: Double) -> None:
        self.trt = trt
        self.read: dict[str, int] = {}
        self.wrote: dict[str, int] = {}
        self.streams: set[int] = set()
        self.IOBinding = IOBinding
        self.OrtValue = SimpleNamespace(
            from_dlpack=self._from_dlpack,
            ortvalue_from_numpy_with_onnx_type=lambda data, onnx_element_type: OrtValue(
                trt, 0, data
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def get_available_providers(self) -> list[str]:
        """Return the providers of a build for CUDA."""
        return [_CUDA, "CPUExecutionProvider"]

    def InferenceSession(  # noqa: N802 (its name)
        self,
        path_or_bytes: bytes,
        sess_options: Any = None,
        providers: Any = None,
        provider_options: Any = None,
        **_: Any,
    ) -> Session:
        """Open a session."""
        assert providers == [_CUDA]
        return Session(self, path_or_bytes, sess_options, provider_options)

    def allocate(self, nbytes: int) -> int:
        """Take memory of the device."""
        place = ctypes.c_void_p()
        assert self.trt.cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(max(nbytes, 1))) == 0
        return int(place.value or 0)

    def _from_dlpack(self, data: Any) -> OrtValue:
        taken = dlpack.take(data.__dlpack__())
        value = OrtValue(self.trt, taken.address, np.empty(taken.shape, taken.dtype))
        weakref.finalize(value, taken.release)
        return value
