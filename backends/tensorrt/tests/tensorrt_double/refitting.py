"""The double's refitters: new initializers for the model an engine computes."""

import weakref
from typing import Any

import onnx

from backends.tensorrt.tests.tensorrt_double.building import put_in

__all__ = ["REFITTING", "Weights"]


class Weights:
    """Says where an array is, and does not keep it alive."""

    def __init__(self, a: Any) -> None:
        self.read = weakref.ref(a)


class Refitter:
    def __init__(self, engine: Any, logger: Any) -> None:
        del logger
        self._double.cuda.is_on(engine._device, "an engine")
        if self._double.refuses_refitters:
            raise TypeError("pybind11::init(): factory function returned nullptr")
        self._engine = engine
        self._model: bytes | None = None
        self._named: dict[str, Any] = {}

    def get_all_weights(self) -> list[str]:
        return [one.name for one in self._engine._computation.proto.graph.initializer]

    def get_missing_weights(self) -> list[str]:
        return [] if self._model or self._named else self.get_all_weights()

    def set_named_weights(self, name: str, weights: Any) -> bool:
        self._named[name] = weights
        return name in self.get_all_weights()

    def refit_cuda_engine(self) -> bool:
        if not self._engine.refittable or self._double.refuses_refits:
            return False
        model = self._model
        if model is None:
            proto = self._engine._computation.proto
            for name, weights in self._named.items():
                array = weights.read()
                if array is None:
                    self._double.violations.append(f"weights {name} are read that are gone")
                    return False
                put_in(proto, name, array.ctypes.data, array.nbytes)
            model = proto.SerializeToString()
        self._double.cuda.change_at_once(self._engine._weights)
        self._engine._computation.refit(model)
        return True


class OnnxParserRefitter:
    def __init__(self, refitter: Any, logger: Any) -> None:
        del logger
        self._refitter = refitter
        self._pending: Any = None

    def refit_from_bytes(self, model: Any, path: str | None = None) -> bool:
        del path
        self._refitter._model = bytes(model)
        return True

    def load_model_proto(self, model: Any, path: str | None = None) -> bool:
        del path
        self._pending = onnx.load_from_string(bytes(model))
        return True

    def load_initializer(self, name: str, data: int, size: int) -> bool:
        return put_in(self._pending, name, data, size)

    def refit_model_proto(self) -> bool:
        self._refitter._model = self._pending.SerializeToString()
        return True


REFITTING = (Refitter, OnnxParserRefitter)
"""The classes."""
