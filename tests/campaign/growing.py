"""Valid graphs, grown node by node: each is computed as it is added, so that the next one fits.

Every value is computed twice, once with a little noise in what rounds. A node by which the two come
apart is left out: there a last digit decides, and two right answers differ.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from subgraphkit.backend.tolerances import tolerance_for
from subgraphkit.types import DataType
from tests.campaign import judges

LARGEST_OPSET: Final = 25
_IR_VERSION: Final = 10
MOST_ELEMENTS: Final = 600
"""Elements of a value that is drawn."""
_BOLD: Final = 0.15
"""The share of graphs with nodes that one judge alone computes, or both in different ways."""
_DEFAULT: Final = 0.05
"""The share of stored values that a caller might feed instead, and of inputs that are outputs."""
_MAGNITUDE: Final = 3e3
_ROUNDED: Final = 0.6
"""How far noise may carry a value, as a part of what is allowed."""
_EXACT_STEPS: Final = {"float32": (64, 512), "float64": (64, 512), "float16": (4, 100)}
"""Parts and largest size of numbers of which sums and products are exact."""
EXACT: Final = frozenset(
    judges.named(
        "Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Compress Concat "
        "ConcatFromSequence Constant ConstantOfShape Conv ConvTranspose CenterCropPad "
        "Col2Im CumSum DepthToSpace DequantizeLinear Dropout Einsum Expand EyeLike "
        "Flatten Floor Gather GatherElements GatherND Gemm GlobalMaxPool Hardmax Identity "
        "If Loop MatMul Max MaxPool MaxUnpool Min Mul Neg OneHot Optional "
        "OptionalGetElement PRelu Pad QuantizeLinear Range ReduceL1 ReduceMax ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare Relu Reshape ReverseSequence Round Scan "
        "Scatter ScatterElements ScatterND SequenceAt SequenceConstruct SequenceErase "
        "SequenceInsert SequenceMap Shrink Sign Slice SpaceToDepth Split SplitToSequence "
        "Squeeze Sub Sum Tile TensorScatter ThresholdedRelu TopK Transpose Trilu Unique "
        "Unsqueeze Upsample Where"
    )
)
"""Operators that round nothing where what they make is a number of few digits."""

_BY_STEPS: Final = frozenset(
    judges.named(
        "ArgMax ArgMin Ceil DynamicQuantizeLinear Equal Floor Greater GreaterOrEqual Hardmax Less "
        "LessOrEqual MaxPool Mod NonMaxSuppression NonZero QuantizeLinear Round Sign TopK Unique"
    )
)
"""Operators of which a result jumps where an input moves a little."""
_OF_ANY_SIZE: Final = judges.MOVING | set(
    judges.named(
        "Add Sub Mul Sum ReduceSum ReduceProd ReduceSumSquare CumSum MatMul "
        "ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike "
        "Clip Constant DequantizeLinear Equal Greater GreaterOrEqual IsInf IsNaN Less "
        "LessOrEqual Loop NonZero Scan SequenceLength SequenceMap Shape Sign Size Slice "
        "QuantizeLinear DynamicQuantizeLinear ConvInteger MatMulInteger QLinearConv "
        "QLinearMatMul"
    )
)
"""Operators of which whole numbers may be as large as their type has them."""


class Skip(Exception):  # noqa: N818 (it is no error: another draw is taken)
    """What was drawn makes no valid node."""


@dataclass(frozen=True)
class Value:
    """A value with what it is when the graph is run, and what it is with noise."""

    name: str
    type: TypeProto
    now: Any
    noisy: Any

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.now, np.ndarray) and self.type.HasField("tensor_type")


@dataclass
class Manner:
    """What a graph is like as a whole."""

    opset: int
    open_sizes: float
    fed: float
    specials: float
    large: float
    empty: float
    quantised: float
    bold: bool


@dataclass
class Growth:
    """A graph or body that is being grown; a body sees what its surroundings have made so far."""

    rng: random.Random
    manner: Manner
    outer: "Growth | None" = None
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, Any] = field(default_factory=dict)
    count: list[int] = field(default_factory=lambda: [0])

    def name(self, stem: str = "v") -> str:
        """Return a name that nothing has."""
        self.count[0] += 1
        return f"{stem}{self.count[0]}"

    def body(self) -> "Growth":
        """Return a body within this graph."""
        return Growth(self.rng, self.manner, self, count=self.count)

    def visible(self) -> list[Value]:
        """Return what a node here may read, what is oldest first."""
        return [*(self.outer.visible() if self.outer else ()), *self.values.values()]

    def seen(self, name: str) -> Value:
        """Return the value of a name."""
        if name in self.values or self.outer is None:
            return self.values[name]
        return self.outer.seen(name)

    def hold(self, name: str, now: Any, noisy: Any = None, kind: TypeProto | None = None) -> Value:
        """Keep a value under a name."""
        kind = kind or type_of(now)
        self.values[name] = Value(name, kind, now, now if noisy is None else noisy)
        return self.values[name]

    def fresh(self, array: Any, fed: float | None = None) -> str:
        """Return the name of a new value with these elements: fed, stored, or of a Constant."""
        name, fed = self.name("x"), self.manner.fed if fed is None else fed
        if self.outer is None and self.rng.random() < fed:
            self.feeds[name] = array
            self.inputs.append(helper.make_value_info(name, self._opened(array)))
        elif self.rng.random() < 0.7 or not self._may_be_constant(array):
            self.stored.append(numpy_helper.from_array(array, name))
            if self.outer is None and self.rng.random() < _DEFAULT:
                self.inputs.append(helper.make_value_info(name, self._opened(array)))
        else:
            tensor = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        self.hold(name, array)
        return name

    def _may_be_constant(self, array: Any) -> bool:
        kinds = "f" if self.manner.opset < 9 else "fiub"
        return array.dtype.kind in kinds and array.dtype.itemsize > int(array.dtype.kind == "f")

    def _opened(self, array: Any) -> TypeProto:
        """Return the type of an input, some of its sizes open."""
        rng, symbols = self.rng, (f"same{size}" for size in array.shape)
        shape: list[Any] = [
            rng.choice((symbol, self.name("n"))) if rng.random() < self.manner.open_sizes else size
            for symbol, size in zip(symbols, array.shape, strict=True)
        ]
        return helper.make_tensor_type_proto(onnx_type(array.dtype), shape)

    def add(self, node: NodeProto) -> list[Value]:
        """Compute a node and add it; raises ``Skip`` where that does not go well."""
        read = {name: self.seen(name) for name in judges.read_names(node)}
        if node.op_type not in _OF_ANY_SIZE and any(_is_large(one.now) for one in read.values()):
            raise Skip  # what overflows, nobody defines
        if node.op_type in _BY_STEPS and any(
            is_float(one.now) and one.noisy is not one.now for one in read.values()
        ):
            raise Skip  # a last digit decides
        now = self._computed(node, {name: one.now for name, one in read.items()}, read)
        noisy = now
        if any(one.noisy is not one.now for one in read.values()):
            noisy = self._computed(node, {name: one.noisy for name, one in read.items()}, read)
        made = [name for name in node.output if name]
        with np.errstate(all="ignore"):
            pairs = [self._rounded(node.op_type, *pair) for pair in zip(now, noisy, strict=True)]
        if not all(map(self._is_steady, pairs)):
            raise Skip
        self.nodes.append(node)
        kinds = {name: one.type for name, one in read.items()}
        inferred = judges.inferred(node, kinds, self.manner.opset)
        pairs_of_types = zip(now, made, strict=True)
        if node.op_type == "Loop" and any(
            _is_untold(a, inferred.get(n)) for a, n in pairs_of_types
        ):
            raise Skip
        return [
            self.hold(name, *pair, inferred.get(name))
            for name, pair in zip(made, pairs, strict=True)
        ]

    def _computed(
        self, node: NodeProto, feeds: Mapping[str, Any], read: Mapping[str, Value]
    ) -> list[Any]:
        kinds = {name: one.type for name, one in read.items()}
        found, is_sure = judges.node_results(node, kinds, feeds, self.manner.opset)
        if found is None or not (is_sure or self.manner.bold):
            raise Skip
        return found

    def _rounded(self, operator: str, now: Any, noisy: Any) -> tuple[Any, Any]:
        """Add what another library may round otherwise."""
        if not is_float(now) or (operator in EXACT and now is noisy):
            parts = _EXACT_STEPS.get(str(now.dtype), (1, 32)) if is_float(now) else (1, 1)
            if not is_float(now) or _is_plain(now, *parts) or operator in judges.MOVING:
                return now, noisy
        allowed = tolerance_for(DataType.of(now.dtype))
        share = 0.01 if now.dtype.itemsize >= 4 else 0.25
        sign = np.where(np.arange(now.size).reshape(now.shape) % 3 == 0, -1.0, 1.0)
        wide = noisy.astype(np.float64)
        noise = (allowed.relative * np.abs(wide) + allowed.scaled * _largest(wide) * 0.5) * share
        return now, np.array((wide + sign * noise).astype(now.dtype))

    def _is_steady(self, pair: tuple[Any, Any]) -> bool:
        now, noisy = pair
        if isinstance(now, list):
            return len(now) == len(noisy) and all(
                self._is_steady(both) for both in zip(now, noisy, strict=True)
            )
        if not isinstance(now, np.ndarray):
            return now is noisy
        if now.size > MOST_ELEMENTS * 4 or now.shape != noisy.shape:
            return False
        if not is_float(now):
            return now is noisy or bool((now == noisy).all())
        with np.errstate(all="ignore"):
            wide, other = now.astype(np.float64), noisy.astype(np.float64)
            bound = _MAGNITUDE if now.dtype.itemsize > 2 else 200.0
            if not self.manner.specials and not (np.abs(wide) < bound).all():
                return False
            allowed = tolerance_for(DataType.of(now.dtype))
            limit = allowed.limit(np.abs(wide), _largest(wide)) * _ROUNDED
            same = (
                (np.abs(wide - other) <= limit)
                | (wide == other)
                | (np.isnan(wide) & np.isnan(other))
            )
        return bool(same.all())

    def graph(self, outputs: Sequence[str], name: str = "g") -> GraphProto:
        """Return what has grown as a graph with these outputs."""
        infos = []
        for output in outputs:
            value, kind = self.values[output], TypeProto()
            kind.CopyFrom(value.type)
            open_sizes = self.outer is not None or self.rng.random() < max(
                self.manner.open_sizes, 0.3
            )
            if value.is_tensor and (open_sizes or not kind.tensor_type.HasField("shape")):
                kind = helper.make_tensor_type_proto(
                    kind.tensor_type.elem_type, [None] * value.now.ndim
                )
            infos.append(helper.make_value_info(output, kind))
        return helper.make_graph(self.nodes, name, self.inputs, infos, self.stored)


def _is_untold(now: Any, kind: TypeProto | None) -> bool:
    """Say whether a loop without rounds made it, so that nobody says how long other axes are."""
    dims = [] if kind is None else kind.tensor_type.shape.dim[1:]
    is_empty = isinstance(now, np.ndarray) and now.ndim > 1 and not len(now)
    return is_empty and not (dims and all(one.HasField("dim_value") for one in dims))


def is_float(array: Any) -> bool:
    """Say whether something is a tensor of floating-point numbers."""
    return isinstance(array, np.ndarray) and (
        array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    )


def _is_large(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or not array.size:
        return False
    return float(np.abs(array.astype(np.float64)).max()) > (11 if array.dtype.itemsize < 2 else 999)


def _is_plain(array: Any, parts: int, largest: int) -> bool:
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return bool((finite * parts == np.round(finite * parts)).all() and _largest(wide) <= largest)


def _largest(wide: Any) -> float:
    finite = np.abs(wide[np.isfinite(wide)])
    return float(finite.max()) if finite.size else 0.0


def onnx_type(dtype: Any) -> int:
    """Return the element type of ONNX."""
    if np.dtype(dtype).kind in "OUS":
        return int(TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def numpy_type(text: str) -> Any:
    """Return the dtype of ``tensor(float)``, None if it is no tensor or of few bits."""
    label = text.removeprefix("tensor(").removesuffix(")")
    if not text.startswith("tensor(") or label.startswith("complex"):
        return None
    if label == "string":
        return np.dtype(object)
    kind = TensorProto.DataType.Value(label.upper())
    return np.dtype(helper.tensor_dtype_to_np_dtype(kind))


def type_of(value: Any) -> TypeProto:
    """Return the type of a value; an empty sequence is of floats."""
    if isinstance(value, list):
        array = value[0] if value else np.zeros((), np.float32)
        return helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(onnx_type(array.dtype), None)
        )
    return helper.make_tensor_type_proto(onnx_type(value.dtype), value.shape)


def through_integers(growth: Growth, value: Value) -> Value:
    """Return a value after it went through eight bits."""
    rng, opset = growth.rng, growth.manner.opset
    if opset < 10 or not is_float(value.now) or not np.isfinite(value.now).all():
        return value
    dtype: Any = rng.choice((np.int8, np.uint8))
    per_axis = opset >= 13 and value.now.ndim > 0 and rng.random() < 0.3
    axis = rng.randrange(value.now.ndim) if per_axis else 0
    shape = (value.now.shape[axis],) if per_axis else ()
    scale = np.array(np.random.default_rng(rng.getrandbits(32)).choice([0.125, 0.25, 0.5], shape))
    zero = np.full(shape, 128 if dtype is np.uint8 else 0, dtype)
    names = [growth.fresh(scale.astype(np.float32), 0.0), growth.fresh(zero, 0.0)]
    axes = {"axis": axis} if per_axis else {}
    made = value
    for operator in ("QuantizeLinear", "DequantizeLinear"):
        node = helper.make_node(operator, [made.name, *names], [growth.name()], **axes)
        (made,) = growth.add(node)
    return made


def manner_of(rng: random.Random) -> Manner:
    """Draw what a graph is like."""
    return Manner(
        opset=rng.randint(7, LARGEST_OPSET),
        open_sizes=rng.choice((0.0, 0.0, 0.3, 1.0)),
        fed=rng.choice((0.7, 0.7, 0.3, 1.0)),
        specials=rng.choice((0.0,) * 12 + (0.3,)),
        large=rng.choice((0.0,) * 8 + (0.3,)),
        empty=rng.choice((0.0,) * 5 + (0.05, 0.2)),
        quantised=rng.choice((0.0,) * 8 + (0.5,)),
        bold=rng.random() < _BOLD,
    )


def grown(seed: int, grow: Callable[[Growth], None]) -> tuple[ModelProto, dict[str, Any]] | None:
    """Grow a graph by so many steps; None if what came out is no valid model."""
    rng = random.Random(seed)
    growth = Growth(rng, manner_of(rng))
    for _ in range(rng.choice((1, 1, 2, 3, 4, 6, 8, 12, 20, 40))):
        grow(growth)
    read = {name for node in growth.nodes for name in judges.read_names(node)}
    made = [name for node in growth.nodes for name in node.output if name]
    optional = {n for n, one in growth.values.items() if one.type.HasField("optional_type")}
    ends = [name for name in made if name not in read | optional]
    more = [name for name in made if name not in optional and rng.random() < 0.1]
    more += [name for name in growth.values if name not in made and rng.random() < _DEFAULT / 4]
    outputs = list(dict.fromkeys([*ends, *more]))
    if not outputs:
        return None
    model = helper.make_model(
        growth.graph(outputs),
        opset_imports=[helper.make_opsetid("", growth.manner.opset)],
        ir_version=_IR_VERSION,
    )
    used = read | set(outputs)
    for items in (model.graph.input, model.graph.initializer):
        kept = [one for one in items if one.name in used]
        del items[:]
        items.extend(kept)
    if not judges.is_valid(model):
        return None
    return model, {name: value for name, value in growth.feeds.items() if name in used}
