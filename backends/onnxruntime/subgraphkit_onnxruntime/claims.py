"""Claims by asking: a node is taken if ONNX Runtime opens a session that consists of it.

What a build can run depends on its version, its providers and their kernels, and no list says it as
well as the build itself. Most models it runs whole, so the first question is about all nodes at
once; only where it refuses that, each is asked about alone. A session of one node takes a fraction
of a millisecond, and nodes that are alike are asked about once per process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import onnx

from subgraphkit.backend import Answer, Refusal, SubgraphSelector
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.ir import BoundGraph, Initializer, Node, make_subgraph
from subgraphkit.onnx_io import node_key, write_value_info
from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit.types import DataType, SequenceType, TensorType, ValueType
from subgraphkit_onnxruntime.deviations import BEYOND_DOUBLES, deviation, is_fed_sum
from subgraphkit_onnxruntime.library import newer_form, newest_opset, words_of, write_for_library
from subgraphkit_onnxruntime.settings import SessionSettings
from subgraphkit_onnxruntime.tensors import crosses

_ANSWERS: Final = Answers("answers")
"""For this process alone: a question takes little longer than a file takes to read."""

_SMALL: Final = 128
"""Constants of this many bytes and fewer are part of the question."""

_LACKS: Final = "op_unsupported"
_CODES: Final = (
    ("No Op registered", _LACKS),
    ("No opset import for domain", _LACKS),
    ("is not a registered function/op", _LACKS),
    ("Could not find an implementation", _LACKS),
    ("official released onnx opset", "opset"),
    ("Type Error", "dtype"),
    ("is invalid", "dtype"),
    ("not currently registered or supported", "dtype"),
)
"""What ONNX Runtime says, and the code of a refusal it amounts to."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a session of one node told.

    Attributes:
        types: Types of the outputs that are not left out, in order; None where not understood.
    """

    answer: Answer
    types: tuple[ValueType | None, ...] = ()


class Claims(SubgraphSelector):
    """Answers whether nodes of one graph can run, under the settings of one bind.

    Thread-safety: used by one thread at a time; what is remembered is shared safely.
    """

    stateless: ClassVar[bool] = True

    def __init__(self, graph: BoundGraph, settings: SessionSettings) -> None:
        self.graph = graph
        self._settings = settings
        self._types = graph.types
        self._whole: bool | None = None
        if not all(map(is_known, graph.types.values())):
            self._whole = False  # what is asked about needs types
            self._find_types()

    def type_of(self, value: str) -> ValueType | None:
        """Return the type of a value, from ONNX Runtime where the graph has none."""
        return self._types.get(value)

    def select(self, node: Node) -> Answer:
        """Say whether ONNX Runtime can run a node; a refusal has ONNX Runtime's own words."""
        return self._verdict(node).answer

    def may_cross(self, value: str) -> Answer:
        """Say whether a value can be handed to ONNX Runtime and back."""
        if (type_ := self.type_of(value)) is None:
            return Refusal("border", f"the type of value {value!r} is not known")
        if not crosses(type_):
            return Refusal("border", f"{type_} cannot be handed to ONNX Runtime from outside")
        return True

    def _find_types(self) -> None:
        """Follow the graph: operators that ONNX does not define hide the types behind them."""
        graph = self.graph
        self._types = found = {name: one for name, one in graph.types.items() if is_known(one)}
        for node in map(graph.nodes.__getitem__, graph.order):
            outputs = [name for name in node.outputs if name]
            if graph.is_constant_node(node.id) or found.keys() >= {*outputs}:
                continue
            for name, type_ in zip(outputs, self._verdict(node).types, strict=False):
                if type_ is not None:
                    found.setdefault(name, type_)

    def _opens_whole(self) -> bool:
        """Say whether ONNX Runtime opens a session of all nodes, which answers for each of them."""
        if self._whole is None:
            said = self._put(self._all_nodes)
            self._whole = isinstance(said, _Verdict) and said.answer is True
        return self._whole

    def _all_nodes(self) -> bytes:
        """Return a model of all nodes, without large constants."""
        subgraph = make_subgraph(self.graph, tuple(self.graph.order), "asked")
        model: onnx.ModelProto = subgraph.to_model(weights="outside", notes=False)
        graph = model.graph
        kept = [one for one in graph.initializer if one.data_location != one.EXTERNAL]
        outside = [one.name for one in graph.initializer if one.data_location == one.EXTERNAL]
        graph.ClearField("initializer")
        graph.initializer.extend(kept)
        stored = subgraph.constants
        graph.input.extend(write_value_info(name, stored[name].type) for name in outside)
        return write_for_library(model)

    def _verdict(self, node: Node) -> _Verdict:
        unknown = [n for n in self.graph.read_by(node.id) if n and n not in self._types]
        if unknown:
            return _Verdict(Refusal("dtype", f"the type of input {unknown[0]!r} is not known"))
        if changed := newer_form(node, newest_opset()):
            text = f"ONNX Runtime knows operator sets up to {newest_opset()}, {changed} is newer"
            return _Verdict(Refusal("opset", text))
        unseen = is_fed_sum(node) and not self._settings.is_on_processors
        wrong = BEYOND_DOUBLES if unseen else deviation(node)
        if wrong:
            return _Verdict(Refusal("deviates", f"ONNX Runtime's {node.op_type}: {wrong}"))
        if self._opens_whole():
            return _Verdict(answer=True)
        key = node_key(node, self._general_type, _is_small, with_output_types=False)
        question = f"{self._settings.key}\n{key}"
        verdict = _ANSWERS.recall(question, lambda: self._ask(node, exactly=False))
        if verdict.answer:
            return verdict
        # Where sizes and weights decide, the general question is answered too strictly.
        shapes = [str(self.type_of(name)) for name in node.inputs if name]
        exact = _ANSWERS.recall(f"{question}\n{shapes}", lambda: self._ask(node, exactly=True))
        lacks_kernel = isinstance(verdict.answer, Refusal) and verdict.answer.code == _LACKS
        return verdict if lacks_kernel and not exact.answer else exact

    def _general_type(self, value: str) -> ValueType | None:
        return _without_sizes(self.type_of(value))

    def _ask(self, node: Node, *, exactly: bool) -> _Verdict | Passing:
        return self._put(lambda: self._question(node, exactly=exactly))

    def _put(self, write: Callable[[], bytes]) -> _Verdict | Passing:
        try:
            session = self._settings.open_quickly(write())
        except BackendUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is ONNX Runtime's answer)
            verdict = _Verdict(_refusal(error))
            return Passing(verdict) if is_machine_fault(error) else verdict
        types = tuple(_read_type(output.type) for output in session.get_outputs())
        return _Verdict(answer=True, types=types)

    def _question(self, node: Node, *, exactly: bool) -> bytes:
        """Return a model of one node; unless ``exactly``, without sizes and large constants."""
        subgraph = make_subgraph(self.graph, (node.id,), "asked")
        model: onnx.ModelProto = subgraph.to_model(
            weights="inside" if exactly else "outside", notes=False
        )
        graph = model.graph
        stored = subgraph.constants
        weights = [name for name in stored if not exactly and not _is_small(stored[name])]
        kept = [tensor for tensor in graph.initializer if tensor.name not in weights]
        for field in ("initializer", "input", "output", "value_info"):
            graph.ClearField(field)
        graph.initializer.extend(kept)
        for name in (*subgraph.inputs, *weights):
            type_ = self.type_of(name)
            graph.input.append(write_value_info(name, type_ if exactly else _without_sizes(type_)))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.outputs if name)
        return write_for_library(model)


def _is_small(constant: Initializer) -> bool:
    """Say whether a constant is axes, scales and the like, and so part of the question."""
    return constant.type.nbytes in range(_SMALL + 1)


def is_known(type_: ValueType | None) -> bool:
    """Say whether an element type is known, so that it can be given to ONNX Runtime."""
    return type_ is not None and getattr(type_, "dtype", None) is not DataType.UNDEFINED


def _without_sizes(type_: ValueType | None) -> ValueType | None:
    """Return a type without sizes, so that one answer serves all; vectors may be axes or sizes."""
    if isinstance(type_, TensorType) and type_.shape is not None and len(type_.shape) > 1:
        return TensorType(type_.dtype, (None,) * len(type_.shape))
    return type_


def _read_type(name: str) -> ValueType | None:
    """Read how ONNX Runtime writes a type, such as ``seq(tensor(float))``."""
    if name.startswith("seq("):
        element = _read_type(name.removeprefix("seq(").removesuffix(")"))
        return None if element is None else SequenceType(element)
    word = name.removeprefix("tensor(").removesuffix(")").upper()
    return TensorType(DataType[word]) if word in DataType.__members__ else None


def _refusal(error: Exception) -> Refusal:
    words = words_of(error)
    code = next((code for part, code in _CODES if part in words), "compile_failed")
    return Refusal(code, f"ONNX Runtime: {words}")
