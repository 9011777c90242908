"""The double's refitters: new initializers for the model an engine computes."""

from typing import Any

from backends.tensorrt.tests.tensorrt_double.building import OnnxParser


class Refitter:
    def __init__(self, engine: Any, logger: Any) -> None:
        del logger
        self._double.cuda.is_on(engine._device, "an engine")
        if self._double.refuses_refitters:
            raise TypeError("pybind11::init(): factory function returned nullptr")
        self._engine = engine
        self._model: bytes | None = None

    def get_missing_weights(self) -> list[str]:
        weights = self._engine._computation.proto.graph.initializer
        return [] if self._model else [one.name for one in weights]

    def refit_cuda_engine(self) -> bool:
        if not self._engine.refittable or self._double.refuses_refits:
            return False
        self._double.cuda.change_at_once(self._engine._weights)
        self._engine._computation.refit(self._model)
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

    load_model_proto, load_initializer = OnnxParser.load_model_proto, OnnxParser.load_initializer

    def refit_model_proto(self) -> bool:
        self._refitter._model = self._pending.SerializeToString()
        return True


REFITTING = (Refitter, OnnxParserRefitter)
"""The classes."""
