"""The operator: a compiled model, its requests, and how arrays get in and out."""

import io
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any, Final
from weakref import ref
from zlib import crc32

import numpy as np

from subgraphkit.backend import InnerTime, SubgraphOperator, Traits, fill_buffers
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.types import TensorType, ValueType
from subgraphkit_openvino import library
from subgraphkit_openvino.guarding import Guard
from subgraphkit_openvino.memory import empty, shared_tensor, tensor_over
from subgraphkit_openvino.uses import is_stored_otherwise

_SEAL: Final = b"subgraphkit-openvino 1"
_HEADER: Final = Struct("<60sI")
"""What was written, by which version, and a checksum; as long as a cache line, so that the model
behind it is aligned."""

_OF_VALUES: Final = re.compile(
    r"conflicts with the reshape pattern|[Ss]hape infer|non-existing data|out of (range|bound)"
    r"|\bincompatible\b|channels must match|dim size|can't be negative"
)
"""How OpenVINO puts it that fed values or shapes do not fit one another."""

_SHORT: Final = "larger than the data shape after padding"
"""How OpenVINO puts it that a window is longer than an axis; ONNX makes nothing of that."""

_MOST_LENT: Final = 2
"""Requests that are kept with arrays in their memory: one is fed what the other has computed."""

_INDICES: Final = frozenset({"i32", "i64", "u32", "u64"})
"""Types of whole numbers that say where or how many."""
_Record = Callable[[InnerTime], object]
_Engine = tuple[Any, Sequence[Any]]
"""A compiled model, and what it refers to."""

_Request = tuple[Any, Sequence[Callable[[], Any]]]
"""A request, and references to the arrays that were given out in its memory."""

_WORTH_SHARING: Final = 1 << 15
"""Once an output had this many bytes, none is copied: OpenVINO writes into the arrays to be
returned, or, where it alone knows the sizes, its own are. Below that, a copy costs less."""


class OpenVINOOperator(SubgraphOperator):
    """A region that OpenVINO compiled.

    Thread-safety: any number of threads may be inside ``run``; each works with a request of its
    own. Requests are made when needed and kept, and wait while an array in their memory is held.
    """

    traits = Traits(thread_safe=True, minds_memory=True)

    def __init__(
        self,
        engine: _Engine,
        subgraph: Subgraph,
        guard: Guard,
        anew: Callable[[], _Engine] | None = None,
        counted: "Callable[[_Record], CountedOperator] | None" = None,
        stored: bytes | memoryview = b"",
    ) -> None:
        self._anew, self._counted, self._is_spoilt = anew, counted, False
        self._compiled, self._held = compiled, _ = engine
        self._guard = guard
        self._stored = stored
        self._subgraph = subgraph
        # What InferRequest.infer does around this method of its base costs as much as a small
        # model: it sorts its arguments by kind and wraps the results in a mapping of its own.
        self._infer = library.runtime().InferRequest.__base__.infer
        if self._property("INFERENCE_NUM_THREADS", int) == 1 and _may_fail(compiled):
            self._infer = _infer_apart
        self._results = list(map(_Result, subgraph.output_types, compiled.outputs))
        self._shares = False
        self._idle: list[_Request] = [(compiled.create_infer_request(), ())]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs.

        ``inputs``: Arrays in the order of the subgraph's inputs. Contiguous, writeable ones are
        read where they are; others are copied first.
        ``outputs``: Buffers for the results, None where there is none. Large contiguous ones that
        overlap no input are written by OpenVINO itself.

        Raises:
            ExecutionError: OpenVINO failed (SGK131).
            ValueError: A buffer does not fit the result; the message names the output.
        """
        if self._guard.watches and not self._guard.admits(inputs):
            return self._guard.fallback.run(inputs, outputs)
        if self._is_spoilt and self._anew is not None:
            self._is_spoilt = False
            self._compiled, self._held = self._anew()
            self._idle = []
        _held, idle = self._held, self._idle  # they live until this run has ended
        request, lent = self._take(idle)
        try:
            feeds = {place: shared_tensor(array) for place, array in enumerate(inputs)}
            if self._shares:
                results, lent = self._run_sharing(request, feeds, inputs, outputs)
            else:
                made = self._infer(request, feeds, False, False)  # noqa: FBT003 (by position only)
                results = list(map(_Result.as_declared, self._results, made.values()))
                if any(array.nbytes >= _WORTH_SHARING for array in results):
                    self._shares = True  # for good: what was bound once is somebody else's
        except Exception as error:
            self._is_spoilt = True  # what failed once, OpenVINO (2026.4) reports from then on
            failure, fallback = self._failure_of(error), self._guard.fallback
            if fallback.may_help(inputs) or _SHORT in str(failure):
                return fallback.run_instead(failure, inputs, outputs)
            raise failure from error
        finally:
            if not lent or len(idle) < _MOST_LENT:
                idle.append((request, lent))
        return fill_buffers(self._subgraph.outputs, outputs, results)

    def serialize(self) -> bytes | None:
        """Return the compiled model, sealed; None if it would come back otherwise."""
        if is_stored_otherwise(self._subgraph.members):
            return None
        # OpenVINO cannot read what it exports of a model that was imported itself.
        return bytes(self._stored) or seal_model(self._compiled)

    def info(self) -> Mapping[str, Any]:
        """Return device, precision, streams, threads (pinned or not) and how many layers run."""
        layers = self._compiled.get_runtime_model().get_ops()
        executed = sum(
            op.get_type_name() == "ExecutionNode"
            and op.get_rt_info()["layerType"].astype(str) != "Const"
            for op in layers
        )
        return {
            "device": ",".join(self._compiled.get_property("EXECUTION_DEVICES")),
            "precision": self._property("INFERENCE_PRECISION_HINT", _type_name),
            "streams": self._property("NUM_STREAMS", int),
            "threads": self._property("INFERENCE_NUM_THREADS", int),
            "pinned": self._property("ENABLE_CPU_PINNING", bool),
            "layers": executed,
        }

    def profiled(self, record: _Record) -> "CountedOperator | None":
        """Compile the region anew, with OpenVINO's counters."""
        return self._counted(record) if self._counted is not None else None

    def close(self) -> None:
        """Release the compiled model and its requests."""
        self._guard.fallback.close()
        self._idle = []
        self._compiled = None
        self._held = ()
        self._stored = b""

    def _take(self, idle: list[_Request]) -> _Request:
        """Return a request in whose memory no array lives: what it gave out last may be fed now."""
        waiting: list[_Request] = []
        try:
            while _is_held(found := idle.pop(0)):
                waiting.append(found)
        except IndexError:
            found = self._compiled.create_infer_request(), ()
        idle += waiting[-_MOST_LENT:]
        return found[0], ()

    def _run_sharing(
        self,
        request: Any,
        feeds: Mapping[int, Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any] | None,
    ) -> tuple[list[Any], Sequence[Callable[[], Any]]]:
        """Run with the arrays to be returned as the request's own outputs, or these in its place.

        Return the results, and references to those that are in the memory of the request.
        """
        arrays: list[Any] = [None] * len(self._results)
        for place, result in enumerate(self._results):
            if result.shape is not None:
                arrays[place] = result.buffer(outputs[place] if outputs else None, inputs)
                request.set_output_tensor(place, tensor_over(arrays[place]))
        made = [*self._infer(request, feeds, True, False).values()]  # noqa: FBT003 (by position only)
        held, lent = [array for array in arrays if array is not None], []
        if len(held) < len(arrays):
            held += [tensor.data for tensor in feeds.values()]
        for place, (array, own) in enumerate(zip(arrays, made)):  # noqa: B905 (branches make more)
            if array is None:
                # OpenVINO makes no copy for nodes that change nothing.
                is_shared = any(np.may_share_memory(own, other) for other in held)
                held.append(own)
                lent += [] if is_shared else [ref(own)]
                arrays[place] = self._results[place].as_declared(own.copy() if is_shared else own)
        return arrays, lent

    def _property(self, name: str, read: Callable[[Any], Any]) -> Any:
        # Devices differ in what they can be asked.
        try:
            return read(self._compiled.get_property(name))
        except RuntimeError:
            return None

    def _failure_of(self, error: Exception) -> ExecutionError:
        said = library.words(error)
        failure = ExecutionError(
            "SGK131",
            f"subgraph {self._subgraph.id!r} failed while running: {said}",
            backend=self._subgraph.backend,
            subgraph=self._subgraph.id,
        )
        if _OF_VALUES.search(said):
            failure.fault = "caller"
        return failure


class CountedOperator(OpenVINOOperator):
    """A region whose layers OpenVINO counts; it says how long each took, and not when it began."""

    def __init__(self, engine: _Engine, subgraph: Subgraph, guard: Guard, record: _Record) -> None:
        super().__init__(engine, subgraph, guard)
        self._plain = self._infer
        self._infer = self._infer_and_record
        self._record = record
        self._nodes_of = _nodes_of_layers(engine[0], subgraph)
        self._count = 0
        self._told: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def _infer_and_record(self, request: Any, *arguments: Any) -> Any:
        """Run, and record by how much the sums have grown.

        What OpenVINO says is the mean of all runs so far, whatever the request, in microseconds.
        """
        with self._lock:
            made = self._plain(request, *arguments)
            self._count += 1
            for layer in request.get_profiling_info():
                name = f"{layer.node_type} {layer.exec_type}"
                key = (layer.node_name, name)
                before = self._told.get(key, 0.0)
                whole = max(before, layer.real_time.total_seconds() * self._count)
                self._told[key] = whole
                if whole > before:
                    nodes = self._nodes_of.get(layer.node_name, ())
                    self._record(InnerTime(name, whole - before, nodes))
        return made


def _infer_apart(request: Any, feeds: Mapping[int, Any], *how: bool) -> Mapping[Any, Any]:
    """Run on a thread of OpenVINO, and wait.

    If OpenVINO (2026.4) has one thread only, a plain run is on the thread of the caller, and drops
    errors. Examples are sizes that do not fit and an index out of range. The outputs are then
    arbitrary, memory of others may be written to, and the process may crash later.
    """
    base = library.runtime().InferRequest.__base__
    try:
        base.start_async(request, feeds, None)
        base.wait(request)
    except BaseException:
        with suppress(Exception):
            base.wait(request)  # where Ctrl-C struck between the two, it still reads the arrays
        raise
    made = ((place, one.data) for place, one in enumerate(request.output_tensors))
    return {place: array if how[0] else array.copy() for place, array in made}


def _is_held(request: _Request) -> bool:
    return any(array() is not None for array in request[1])


def _may_fail(compiled: Any) -> bool:
    """Say whether a run may fail: for open sizes, or whole numbers, such as stored indices."""
    return any(
        port.get_partial_shape().is_dynamic or _type_name(port.get_element_type()) in _INDICES
        for layer in compiled.get_runtime_model().get_ops()
        for port in layer.outputs()
    )


def _nodes_of_layers(compiled: Any, subgraph: Subgraph) -> dict[str, tuple[int, ...]]:
    """Return the nodes that each layer computes, by its name."""
    makers, found = subgraph.graph.producers, {}
    for layer in compiled.get_runtime_model().get_ops():
        facts, name = layer.get_rt_info(), layer.get_friendly_name()
        origins = f"{facts['originalLayersNames'].astype(str)},{name}".split(",")
        nodes = {int(number) for one in origins for number in re.findall(r"#(\d+)", one)}
        nodes |= {makers[one] for one in origins if one in subgraph.outputs}  # named by the value
        found[name] = tuple(sorted(nodes.intersection(subgraph.nodes)))
    return found


class _Result:
    """What is known of one output before it is computed."""

    __slots__ = ("_seen_as_other", "_sizes", "dtype", "shape")

    def __init__(self, type_: ValueType | None, port: Any) -> None:
        if not isinstance(type_, TensorType):
            raise TypeError(f"an output of OpenVINO is a tensor, not {type_}")
        made = tuple(port.shape) if port.partial_shape.is_static else None
        sizes: Any = type_.shape if type_.element_count is not None else None
        self.dtype = type_.dtype.numpy
        # Where OpenVINO does not know the shape it makes an array of its own, though ONNX may know.
        self.shape: Any = sizes if made == sizes else None
        # OpenVINO loses axes of length one, and moves them, where it simplifies. Where it knows no
        # shape, as for axes that are fed, what the model declares may be wrong.
        self._sizes = sizes if made is not None and made != sizes else None
        self._seen_as_other = self.dtype.isbuiltin != 1

    def as_declared(self, array: Any) -> Any:
        """Return an array of OpenVINO with the dtype and the axes that ONNX gives it."""
        if self._sizes is not None and _without_ones(array.shape) == _without_ones(self._sizes):
            array = array.reshape(self._sizes)
        return array.view(self.dtype) if self._seen_as_other else array

    def buffer(self, array: Any, inputs: Sequence[Any]) -> Any:
        """Return an array for OpenVINO to write to: the one given, if it fits, or a new one."""
        fits = isinstance(array, np.ndarray) and array.flags.carray
        fits = fits and (array.shape, array.dtype) == (self.shape, self.dtype)
        is_apart = fits and not any(np.may_share_memory(array, one) for one in inputs)
        return array if is_apart else empty(self.shape, self.dtype)


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]


def seal_model(compiled: Any) -> bytes:
    """Return an exported model behind a header with a checksum.

    OpenVINO does not notice damaged weights, and may crash on other damage.
    """
    stream = io.BytesIO(_HEADER.pack(_SEAL, 0))
    stream.seek(_HEADER.size)
    compiled.export_model(stream)
    view = stream.getbuffer()
    _HEADER.pack_into(view, 0, _SEAL, crc32(view[_HEADER.size :]))
    view.release()
    return stream.getvalue()


def open_seal(blob: bytes | memoryview) -> memoryview:
    """Return the exported model inside what ``seal_model`` made; ValueError if damaged or other."""
    if len(blob) < _HEADER.size:
        raise ValueError("it is too short")
    seal, checksum = _HEADER.unpack_from(blob)
    if seal.rstrip(b"\0") != _SEAL:
        raise ValueError("it was not written by this version of the OpenVINO backend")
    exported = memoryview(blob)[_HEADER.size :]
    if crc32(exported) != checksum:
        raise ValueError("its checksum does not match its content")
    return exported


def _type_name(type_: Any) -> str:
    return str(type_.get_type_name())
