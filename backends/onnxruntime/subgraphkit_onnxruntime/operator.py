"""A region as one session of ONNX Runtime."""

import re
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import ON_DEVICE, InnerTime, Progress, RegionFallback, fill_buffers
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_onnxruntime import tensors
from subgraphkit_onnxruntime.deviations import ENDS_ON_NOTHING
from subgraphkit_onnxruntime.library import onnxruntime
from subgraphkit_onnxruntime.settings import SessionSettings
from subgraphkit_onnxruntime.weights import HandedWeights

_OF_VALUES: Final = re.compile(
    r"[Oo]ut of range value|cannot be reshaped|ttempting to broadcast"
    r"|\b([Dd]imensions?|channels|axis)\b"
)
"""How it puts it that fed values or shapes do not fit, where it says only that a node failed."""

_SCATTERS: Final = ("ScatterElements", "ScatterND", "TensorScatter")
_IN_PLACE: Final = frozenset({"GroupQueryAttention", *_SCATTERS})
"""Operators whose kernels copy nothing where input and output are the same memory."""

_EXACT: Final = 1 << 53
"""Whole numbers up to here are exact in double precision."""

_Record = Callable[[InnerTime], object]


class OnnxRuntimeOperator(sk.SubgraphOperator):
    """Runs a region by one call of ``InferenceSession.run``.

    Contiguous inputs are read where they are, and outputs are handed out where ONNX Runtime made
    them. Output buffers are written to directly; element types that NumPy lacks go the same way.

    Thread-safety: any number of threads may be inside ``run``; ONNX Runtime allows it.
    """

    traits = sk.Traits(thread_safe=True, minds_memory=True, in_place=_IN_PLACE)

    def __init__(  # noqa: PLR0913 (all that a session was made of)
        self,
        session: Any,
        inputs: Mapping[str, ValueType],
        outputs: Mapping[str, ValueType],
        weights: HandedWeights,
        settings: SessionSettings,
        *,
        facts: Mapping[str, Any],
        profiled: Callable[[_Record], sk.SubgraphOperator],
        fallback: RegionFallback,
        summed: Sequence[str] = (),
    ) -> None:
        self._profiled = profiled
        self._fallback = fallback
        self._ends_on_nothing = fallback.has_open(ENDS_ON_NOTHING)
        self._session = session
        self._weights = weights
        self._facts = facts
        self._inputs = tuple(inputs)
        self._summed = tuple(map(self._inputs.index, summed))
        self._outputs = list(outputs)
        self._dtypes = tuple(map(_dtype, outputs.values()))
        text = DataType.STRING.onnx_name
        self._strings = tuple(at for at, one in enumerate(inputs.values()) if text in one.onnx_name)
        self._types = (*inputs.values(), *outputs.values())
        # Only numbers in tensors can be bound to memory of ours.
        self._bindable = all(map(_is_bindable, self._types))
        self._settings = settings
        self.device = tensors.device_of(settings) if self._bindable else tensors.HOST
        self._all_plain = all(map(tensors.is_plain, self._types))
        # below the Python one, whose checks the bind has made already
        self._call = getattr(getattr(session, "_sess", None), "run", session.run)
        self._options = onnxruntime().RunOptions
        self._profile = ""
        self._bound: list[_Bound] = []  # as many as threads were inside at once

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Compute the outputs; ONNX Runtime stops between two of its kernels."""
        options = self._options()
        with progress.stopping(lambda: setattr(options, "terminate", True)):
            return self.run(inputs, outputs, options)

    def run(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None, options: Any = None
    ) -> Sequence[Any]:
        is_empty = self._ends_on_nothing and not all(getattr(one, "size", 1) for one in inputs)
        is_rounded = self._summed and any(_rounds(inputs[at]) for at in self._summed)
        if is_empty or is_rounded or self._fallback.falls_short(inputs):
            return self._fallback.run(inputs, outputs)
        if self._strings:
            inputs = [_text(one) if at in self._strings else one for at, one in enumerate(inputs)]
        try:
            buffers = outputs if outputs is not None else (None,) * len(self._outputs)
            # Where no buffer is to be filled, a run costs less than a binding of every value.
            is_plain = self._all_plain and self.device == tensors.HOST
            if self._bindable and not (is_plain and all(one is None for one in buffers)):
                return self._run_bound(inputs, buffers, options)
            named = dict(zip(self._inputs, inputs, strict=True))
            return fill_buffers(self._outputs, outputs, self._call(self._outputs, named, options))
        except Exception as error:  # noqa: BLE001 (it is raised again where nobody else helps)
            return self._run_elsewhere(error, inputs, outputs)

    def _run_elsewhere(
        self, error: Exception, inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> Sequence[Any]:
        if self._fallback.may_help(inputs):
            return self._fallback.run_instead(error, inputs, outputs)
        if _OF_VALUES.search(str(error)):
            cast("Any", error).fault = "caller"
        raise error

    def info(self) -> Mapping[str, Any]:
        """Return the number of nodes, providers, weights and the profile's path; JSON-able."""
        facts: dict[str, Any] = dict(self._facts)
        if self._profile:
            facts["profile"] = self._profile
        return facts

    def profiled(self, record: _Record) -> sk.SubgraphOperator:
        """Open the region again, with ONNX Runtime's profiler."""
        return self._profiled(record)

    def profile_began(self) -> float:
        """Return when ONNX Runtime's profile began, by ``time.perf_counter``.

        It says so by the clock that the C++ library takes for the most precise one.
        """
        began = self._session.get_profiling_start_time_ns()
        clocks = time.time_ns, time.monotonic_ns, time.perf_counter_ns
        its = min(clocks, key=lambda clock: abs(clock() - began))
        return float(began - its() + time.perf_counter_ns()) / 1e9

    def close(self) -> None:
        self._fallback.close()
        session, self._session = self._session, None
        if session is not None and "profiling" in self._facts:
            self._profile = str(Path(session.end_profiling()).absolute())
        self._call = _raise_closed
        self._bound.clear()
        self._weights = HandedWeights({})

    def _run_bound(
        self, inputs: Sequence[Any], buffers: Sequence[Any], options: Any
    ) -> Sequence[Any]:
        try:
            bound = self._bound.pop()
        except IndexError:
            bound = _Bound(self._session, self.device, self._settings, is_plain=self._all_plain)
        known = bound.known.get
        _held = [  # what is bound lives until the run has ended
            bound.bind(array, name, type_, is_read=True)
            for name, array, type_ in zip(self._inputs, inputs, self._types, strict=False)
            if known(name, object)() is not array
        ]
        results, made, types = list(buffers), [], self._types[len(self._inputs) :]
        for place, (name, buffer) in enumerate(zip(self._outputs, buffers, strict=True)):
            if buffer is None or buffer is ON_DEVICE:
                # What stays is one of NumPy's types: ONNX Runtime fetches no other from a device.
                stays = buffer is ON_DEVICE and tensors.is_plain(types[place])
                bound.allocate(name, on_device=stays)
                made.append(place)
            elif known(name, object)() is not buffer:
                results[place] = bound.bind(buffer, name, types[place], is_read=False)
        self._session.run_with_iobinding(bound.binding, options)
        values = bound.binding.get_outputs_as_ortvaluevector() if made else ()
        for place in made:
            results[place] = bound.take(values[place], self._outputs[place], self._dtypes[place])
        self._bound.append(bound)
        buffers = [None if buffer is ON_DEVICE else buffer for buffer in buffers]
        return fill_buffers(self._outputs, buffers, results)


class _Bound:
    """A binding of ONNX Runtime, kept from run to run: what is bound already stays so.

    Arrays are known by weak references, so that nothing lives longer because it was bound.
    """

    def __init__(
        self, session: Any, device: str, settings: SessionSettings, *, is_plain: bool
    ) -> None:
        self.binding = onnxruntime().IOBinding(session)
        self._device, self._settings = device, settings
        self.known: dict[str, Callable[[], Any]] = {}  # references, by name
        self._open: dict[str, bool] = {}  # what ONNX Runtime allocates, and whether on the device
        # Arrays of the host are bound below the Python binding, whose checks were made already.
        compiled = getattr(self.binding, "_iobinding", None) if device == tensors.HOST else None
        self._read = getattr(compiled, "bind_input", None) if is_plain else None

    def bind(self, array: Any, name: str, type_: ValueType, *, is_read: bool) -> Any:
        """Bind the memory of an array; return what must live until the run has ended."""
        self.known.pop(name, None)
        self._open.pop(name, None)
        bind = self.binding.bind_ortvalue_input if is_read else self.binding.bind_ortvalue_output
        if self._device != tensors.HOST and tensors.is_on_device(array):
            bind(name, tensors.value_over(array, name, type_, self._settings))
            return array
        held = np.asarray(array, order="C")
        if is_read and self._read is not None:
            self._read(name, held)
        else:
            bind(name, tensors.as_ort_value(held)[0])
        if held is array:
            self.known[name] = weakref.ref(array)
        return held

    def allocate(self, name: str, *, on_device: bool) -> None:
        """Have ONNX Runtime allocate an output in the next run."""
        if self._open.get(name) is on_device:
            return
        self.known.pop(name, None)
        self._open[name] = on_device
        kind, _, number = self._device.partition(":")
        self.binding.bind_output(name, *((kind, int(number)) if on_device else ()))

    def take(self, made: Any, name: str, dtype: np.dtype[Any]) -> Any:
        """Return what ONNX Runtime allocated; the next run allocates anew."""
        on_device = self._open.pop(name)
        self.allocate(name, on_device=on_device)
        return tensors.OrtArray(made, dtype) if on_device else tensors.as_array(made, dtype)


def _rounds(summed: Any) -> bool:
    """Say whether sums of what is fed may be more than double precision is exact to."""
    array = np.asarray(summed)
    if not array.size or int(array.view(np.uint64).max()) * array.size <= _EXACT:
        return False  # the most frequent case, by one look: what is negative is large as uint64
    return max(-int(array.min()), int(array.max())) * array.size > _EXACT


def _raise_closed(*_: Any) -> list[Any]:
    raise RuntimeError("the ONNX Runtime session is closed")


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    if not isinstance(value, np.ndarray) or not any(isinstance(x, bytes) for x in value.flat):
        return value
    texts = [x.decode() if isinstance(x, bytes) else x for x in value.flat]
    return np.array(texts, dtype=object).reshape(value.shape)


def _is_bindable(type_: ValueType) -> bool:
    return isinstance(type_, TensorType) and type_.dtype is not DataType.STRING


def _dtype(type_: ValueType) -> np.dtype[Any]:
    return type_.dtype.numpy if isinstance(type_, TensorType) else np.dtype(object)
