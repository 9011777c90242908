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
_SIZES: Final = (1, 2, 2, 3, 3, 4, 5, 6)
_MOST_ELEMENTS: Final = 600
_BOLD: Final = 0.15
"""The share of graphs with nodes that one judge alone computes, or both in different ways."""
_MAGNITUDE: Final = 3e3
_ROUNDED: Final = 0.6
"""How far noise may carry a value, as a part of what is allowed."""
_WEIGHTS: Final = {
    "float32": 24,
    "float64": 4,
    "float16": 6,
    "bfloat16": 3,
    "int64": 7,
    "int32": 6,
    "int8": 3,
    "uint8": 4,
    "bool": 4,
    **dict.fromkeys(("int16", "uint16", "uint32", "uint64"), 1.0),
    "object": 0.5,
}
_RARE: Final = 0.1
_WORDS: Final = ("", "a", "ab", "b a", "A.B", "été", "x1", "10", "the end")
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

_OF_ANY_SIZE: Final = judges.MOVING | set(
    judges.named(
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
        if now.size > _MOST_ELEMENTS * 4 or now.shape != noisy.shape:
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


class Draw:
    """A node that is being drawn: its inputs, attributes and outputs so far."""

    def __init__(self, growth: Growth, schema: onnx.defs.OpSchema) -> None:
        self.growth, self.schema, self.rng = growth, schema, growth.rng
        self.opset = growth.manner.opset
        self.types: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.attributes: dict[str, Any] = {}
        self.outputs = [True]
        self._allowed = {
            one.type_param_str: one.allowed_type_strs for one in schema.type_constraints
        }

    def pick(self, *choices: Any) -> Any:
        """Return one of these."""
        return self.rng.choice(choices)

    def chance(self, share: float = 0.5) -> bool:
        """Say yes so often."""
        return self.rng.random() < share

    def size(self) -> int:
        """Return how large an axis is."""
        return 0 if self.chance(self.growth.manner.empty) else self.rng.choice(_SIZES)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Return a shape of so many axes."""
        while True:
            shape = tuple(self.size() for _ in range(self.rng.randint(least, most)))
            if np.prod(shape) <= _MOST_ELEMENTS:
                return shape

    def set(self, name: str, value: Any, share: float = 0.6) -> None:
        """State an attribute, so often, if this version of the operator has it."""
        known = self.schema.attributes.get(name)
        if known is not None and (known.required or self.rng.random() < share):
            self.attributes[name] = value

    def knows(self, attribute: str) -> bool:
        """Say whether this version of the operator has an attribute."""
        return attribute in self.schema.attributes

    def allowed(self, place: int) -> tuple[str, list[Any]]:
        """Return the parameter of the type of an input, and the dtypes that it may have."""
        formal = self.schema.inputs[min(place, len(self.schema.inputs) - 1)]
        strings = self._allowed.get(formal.type_str, [formal.type_str])
        found = [dtype for text in strings if (dtype := numpy_type(text)) is not None]
        return formal.type_str, [self.types[formal.type_str]] if (
            formal.type_str in self.types
        ) else found

    def read(  # noqa: PLR0913 (what an operator may ask of its input)
        self,
        shape: Any = None,
        *,
        new: tuple[int, ...] | None = None,
        rank: tuple[int, int] = (0, 4),
        fit: Callable[[Any], bool] = lambda _: True,
        kind: str = "any",
        dtypes: Sequence[str] = (),
        reuse: float = 0.65,
    ) -> Any:
        """Read a value as the next input, one that exists or a new one; return its elements.

        ``shape`` may be a function that says whether one will do; ``new`` is one that does.
        """
        parameter, allowed = self.allowed(len(self.inputs))
        narrow = [one for one in allowed if str(one) in dtypes]
        allowed = narrow or allowed
        wanted = shape if callable(shape) else lambda s: shape is None or s == tuple(shape)
        if self.rng.random() < reuse:
            found = [
                one
                for one in self.growth.visible()
                if one.is_tensor
                and one.now.dtype in allowed
                and rank[0] <= one.now.ndim <= rank[1]
                and wanted(one.now.shape)
                and _within(one.now, kind)
                and fit(one.now)
            ]
            if found:
                return self._take(found[-min(self.rng.randint(1, 5), len(found))], parameter)
        if new is not None or shape is None:
            shape = self.shape(*rank) if new is None else new
        if not allowed:
            raise Skip
        dtype = self._drawn_type(allowed)
        array = elements(self.rng, dtype, tuple(shape), kind, self.growth.manner)
        if not fit(array):
            raise Skip
        name = self.growth.fresh(array)
        return self._take(self.growth.seen(name), parameter)

    def _take(self, value: Value, parameter: str) -> Any:
        self.types.setdefault(parameter, value.now.dtype)
        if value.now.dtype == np.float32 and self.chance(self.growth.manner.quantised):
            value = _through_integers(self.growth, value)
        self.inputs.append(value.name)
        return value.now

    def _drawn_type(self, allowed: Sequence[Any]) -> Any:
        weights = [_WEIGHTS.get(str(one), _RARE) for one in allowed]
        return self.rng.choices(allowed, weights)[0]

    def give(self, array: Any, fed: float = 0.2) -> None:
        """Give elements that are known as the next input, or a value that happens to have them."""
        same = [
            one.name
            for one in self.growth.visible()
            if one.is_tensor
            and (one.now.dtype, one.now.shape) == (array.dtype, array.shape)
            and one.noisy is one.now
            and (one.now == array).all()
        ]
        self.inputs.append(self.rng.choice(same) if same and self.chance(0.3) else "")
        if not self.inputs[-1]:
            self.inputs[-1] = self.growth.fresh(array, fed * (self.growth.manner.fed > 0))

    def integers(self, values: Any, dtype: Any = np.int64) -> None:
        """Give whole numbers, such as axes, as the next input."""
        self.give(np.array(values, dtype))

    def skip(self) -> None:
        """Leave the next input out."""
        self.inputs.append("")

    def axis(self, rank: int, *, negative: bool = True) -> int:
        """Return an axis, counted from the end as often as not."""
        if not rank:
            raise Skip
        axis = self.rng.randrange(rank)
        return axis - rank if negative and self.chance(0.4) else axis

    def node(self) -> NodeProto:
        """Return the node."""
        names = [self.growth.name() if wanted else "" for wanted in self.outputs]
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        return helper.make_node(self.schema.name, self.inputs, names, **self.attributes)


def _within(array: Any, kind: str) -> bool:
    """Say whether all elements are of a kind."""
    if kind == "any" or array.dtype.kind in "Ob":
        return True
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        return bool(
            {
                "positive": (wide > 0.01).all(),
                "nonzero": (np.abs(wide) > 0.05).all(),
                "unit": (np.abs(wide) < 0.95).all(),
                "above": (wide > 1.05).all(),
                "small": (np.abs(wide) < 8).all(),
                "distinct": np.unique(wide).size == wide.size,
            }[kind]
        )


_AWAY_FROM_0: Final = {"positive": 0.5, "nonzero": 0.5, "above": 1.5}
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 100.0, -1e4, 1e-6)


def elements(rng: random.Random, dtype: Any, shape: tuple[int, ...], kind: str, manner: Any) -> Any:
    """Draw elements of a kind."""
    draw, size = np.random.default_rng(rng.getrandbits(32)), int(np.prod(shape))
    if dtype.kind == "O":
        return np.array([rng.choice(_WORDS) for _ in range(size)], object).reshape(shape)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if kind == "distinct":
        return ((draw.permutation(size) - size // 2) / 2).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        return _whole(draw, dtype, shape, (kind in _AWAY_FROM_0, kind == "any", manner.large))
    found = draw.integers(-8, 9, shape) / 4 if rng.random() < 0.6 else draw.standard_normal(shape)
    if kind in _AWAY_FROM_0:
        found = np.abs(found) + _AWAY_FROM_0[kind]
    elif kind == "unit":
        found = np.clip(found / 4, -0.9, 0.9)
    elif kind == "any" and size and rng.random() < manner.specials:
        found = np.array(found)
        found.reshape(-1)[rng.randrange(size)] = rng.choice(_SPECIAL)
    return np.array(found).astype(dtype)


def _whole(draw: Any, dtype: Any, shape: tuple[int, ...], kind: tuple[bool, bool, float]) -> Any:
    is_positive, is_any, large = kind
    found = draw.integers(0 if dtype.kind == "u" else -4, 6, shape).astype(dtype)
    if is_any and found.size and draw.random() < large:
        limits = np.iinfo(dtype)
        odd = (limits.min, limits.max, limits.max // 2 + 1, min(limits.max, 2**31))
        found.reshape(-1)[draw.integers(found.size)] = odd[draw.integers(len(odd))]
    return np.abs(found) + dtype.type(1) if is_positive else found


def _through_integers(growth: Growth, value: Value) -> Value:
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
    ends = [name for name in made if name not in read]
    outputs = list(dict.fromkeys([*ends, *(name for name in made if rng.random() < 0.1)]))
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
