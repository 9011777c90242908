"""Probes: small models of lines of the tables, to learn which nodes a backend takes.

A probe goes from an input ``x`` to an output ``y`` of the same type and shape. So any two of one
type and shape can follow each other. If an operator has other outputs, nodes behind it restore type
and shape, and any backend may leave these.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser, printer, shape_inference

from subgraphkit.testing.operator_variants import Argument, OperatorVariant, probed_variants
from subgraphkit.testing.small_models import POSITIVE, ROWS, SmallModel, model_of, side_by_side

_KINDS: Final = {
    "vector": ("N,C", "C"),
    "picture": ("N,C,6,6", "C,1,1"),
    "sequence": ("N,4,C", "C"),
    "flat": ("N", "1"),
}
"""The shapes in which elementwise variants are offered, by name, and those of their weights."""
_FEW: Final = 8
_MOST_FAILURES: Final = 8
"""How often to ask a backend that fails and has never answered."""
_HALVES: Final = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
_ENDINGS: Final = (
    (),
    ("c_ = Cast<to=TYPE>(r_)", "y = Sub(x, c_)"),
    ("c_ = Cast<to=TYPE>(r_)", "m_ = ReduceMean<keepdims=0>(c_)", "y = Sub(x, m_)"),
)
"""Nodes that make a ``y`` like ``x`` of a result ``r_``: the first that can is used."""


@dataclass(frozen=True, slots=True)
class ProbeModel:
    """A small model, from an input ``x`` to an output ``y`` of the same type and shape.

    Attributes:
        variant: The line of the table.
        label: Its operators, and a number where others have the same.
        element_type: Type of ``x`` and ``y``, as onnx's text variant has it.
        kind: For an elementwise variant, the shape: ``vector`` is ``[N,C]``, ``picture``
            ``[N,C,H,W]``. Else empty.
        rows: Size of the first axis; None if the model leaves it open.
        wider: How many times more features it has than usual.
        times: How many times the variant stands one behind the other.
    """

    variant: OperatorVariant
    label: str
    element_type: str
    kind: str
    rows: int | None = ROWS
    wider: int = 1
    times: int = 1

    @property
    def name(self) -> str:
        """The operators, and their unusual types and shapes."""
        words = [self.label]
        words += [self.element_type] if self.element_type != self.variant.element_type else []
        words += [self.kind] if self.kind not in {"", "vector"} else []
        words += ["open"] if self.rows is None else []
        words += [f"N={self.rows}"] if self.rows not in {None, ROWS} else []
        words += [f"C={self.wider}x"] if self.wider > 1 else []
        return " ".join([*words, f"x{self.times}"] if self.times > 1 else words)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it is about, in order."""
        return self.variant.operators

    @property
    def _sized_variant(self) -> OperatorVariant:
        return self.variant.with_width(self.variant.width * self.wider)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of ``x`` and ``y``; an axis that the model leaves open is None."""
        dims = next(one.dims for one in self._arguments() if one.name == "x")
        return tuple(self.rows if dim == "N" else int(dim) for dim in dims)

    def with_rows(self, rows: int | None) -> "ProbeModel":
        """Return the same with another size of the first axis, where that is not stated."""
        return self if None not in replace(self, rows=None).shape else replace(self, rows=rows)

    def model(self) -> SmallModel:
        """Build the model; the same each time."""
        return SmallModel(_build(self))

    @property
    def type(self) -> str:
        """The type of ``x`` and ``y``, as onnx's text variant has it."""
        axes = ",".join("N" if size is None else str(size) for size in self.shape)
        return f"{self.element_type}[{axes}]"

    def between(
        self, source: str, target: str, mark: str = "", *, shared: str = ""
    ) -> tuple[list[str], str]:
        """Write nodes between two values in onnx's text variant, and the weights they declare.

        ``mark``: What all other names end with. ``shared``: What those of shared weights end with.
        """
        return self._write((source, target), mark, shared or mark, _ending(self) or ())

    def is_valid(self) -> bool:
        """Say whether ONNX defines its operators for its type."""
        return _ending(self) is not None

    def text(self, ending: Sequence[str]) -> str:
        """Return the graph in onnx's text variant; weights are declared, and have no numbers."""
        weights, body = self._write(("x", "y"), "", "", ending)
        declared = f"<{', '.join(weights)}>" if weights else ""
        return f"probe ({self.type} x) => ({self.type} y) {declared} {{ {body} }}"

    def _write(
        self, ends: tuple[str, str], mark: str, shared: str, ending: Sequence[str]
    ) -> tuple[list[str], str]:
        weights: list[str] = []
        bodies: list[str] = []
        stored = [one for one in self._arguments() if one.name != "x"]
        nodes = _with_ending(self._sized_variant, ending)
        for place in range(self.times):
            at = f"_{place}" if self.times > 1 else ""
            last = place == self.times - 1
            names = {
                one.name: f"{f'{POSITIVE}_' if one.kind else ''}{one.name}{shared}{at}"
                for one in stored
            }
            weights += [self._declare(one, names[one.name]) for one in stored]
            names["x"] = f"{ends[1]}_{place - 1}" if place else ends[0]
            names["y"] = ends[1] if last else f"{ends[1]}_{place}"
            bodies += [_rename_values(node, names, mark + at) for node in nodes]
        return weights, " ".join(bodies)

    def _arguments(self) -> tuple[Argument, ...]:
        if not self.kind:
            return self._sized_variant.arguments
        whole, channels = _KINDS[self.kind]
        width = str(self.variant.width * self.wider)

        def shape_argument(one: Argument) -> Argument:
            dims = (whole if one.name == "x" else channels).replace("C", width)
            return replace(one, dims=tuple(dims.split(","))) if one.dims == ("N",) else one

        return tuple(map(shape_argument, self.variant.arguments))

    def _declare(self, one: Argument, name: str) -> str:
        shape = f"[{','.join(one.dims)}]" if one.dims else ""
        values = f" = {{{one.values}}}" if one.values else ""
        return f"{one.element_type or self.element_type}{shape} {name}{values}"


def _with_ending(variant: OperatorVariant, ending: Sequence[str]) -> Sequence[onnx.NodeProto]:
    nodes = variant.nodes
    result = "y" if "y" in nodes[-1].output else nodes[-1].output[0]
    last = {result: "r_" if ending else "y"}
    for node in nodes:
        node.output[:] = [last.get(name, name) for name in node.output]
    return (*nodes, *map(parser.parse_node, ending))


def _rename_values(node: onnx.NodeProto, names: Mapping[str, str], mark: str) -> str:
    renamed = deepcopy(node)
    for values in (renamed.input, renamed.output):
        values[:] = [name and names.get(name, name + mark) for name in values]
    return str(printer.to_text(renamed))


@lru_cache(maxsize=2048)
def _build(probe: ProbeModel) -> onnx.ModelProto:
    proto = model_of(probe.text(_ending(probe) or ()), _header(probe))
    proto.graph.name = probe.name
    for tensor in proto.graph.initializer:
        if tensor.data_type in _HALVES and tensor.int32_data:  # the text says 2, not the bits of 2
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            array = np.array(tensor.int32_data).astype(dtype).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto


def _header(probe: ProbeModel) -> str:
    return f'<ir_version: 10, opset_import: ["" : {probe.variant.opset}]>'


def _ending(probe: ProbeModel) -> Sequence[str] | None:
    """Return the end of a probe; None if ONNX does not define its operators for its type."""
    return _ending_of_one(replace(probe, rows=ROWS, times=1))


@lru_cache(maxsize=4096)
def _ending_of_one(probe: ProbeModel) -> Sequence[str] | None:
    code = onnx.TensorProto.DataType.Value(probe.element_type.upper())
    for steps in _ENDINGS:
        ending = [step.replace("TYPE", str(code)) for step in steps]
        with suppress(parser.ParseError, shape_inference.InferenceError, RuntimeError, ValueError):
            model = parser.parse_model(f"{_header(probe)} {probe.text(ending)}")
            shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
            return ending
    return None


@lru_cache(maxsize=1)
def all_probe_models() -> tuple[ProbeModel, ...]:
    """Return the probes as they are made first: one for each line, in its usual type and shape."""
    found: list[ProbeModel] = []
    seen: Counter[str] = Counter()
    for variant in probed_variants():
        kind = "vector" if variant.is_elementwise else ""
        name = "-".join(variant.operators)
        seen[name] += 1
        label = name if seen[name] == 1 else f"{name} {seen[name]}"
        probe = ProbeModel(variant, label, variant.element_type, kind)
        found += [probe] if probe.is_valid() else []
    return tuple(found)


Ask = Callable[[onnx.ModelProto], Sequence[tuple[str, str]]]
"""Returns a backend's claims of a model: operators, each with the name of the node's output."""


def models_claimed(ask: Ask) -> tuple[ProbeModel, ...]:
    """Find the variants that a backend takes whole, or else in part; nothing is compiled.

    Every variant is offered in its usual type and shape. If it takes none, they are offered in
    others until it takes something. So are heavy ones, if it takes few of these. If it takes
    nothing, its first error is raised.
    """
    asking = _Patient(ask)
    taken = _probes_taken(asking)
    if asking.failure is not None and not taken:
        raise asking.failure
    return taken


class _Patient:
    """Goes on asking a backend that fails, unless it never answers."""

    def __init__(self, ask: Ask) -> None:
        self.failure: Exception | None = None
        self._ask = ask
        self._failed = 0
        self._answered = False

    def __call__(self, model: onnx.ModelProto) -> Sequence[tuple[str, str]]:
        try:
            claimed = self._ask(model)
        except Exception as error:  # noqa: BLE001 (whatever a backend raises)
            self.failure = self.failure or error
            self._failed += 1
            if self._failed == _MOST_FAILURES and not self._answered:
                raise self.failure from None
            return ()
        self._answered = True
        return claimed


def _probes_taken(ask: Ask) -> tuple[ProbeModel, ...]:
    plain = all_probe_models()
    shares = _side_by_side(ask, plain)
    heavy = [probe for probe in plain if probe.variant.is_heavy]
    if WHOLE not in shares.values():  # it may look at all of a model, and want nothing beside
        shares |= {probe: share_alone(ask, probe) for probe in (*plain[:_FEW], *heavy)}
    if WHOLE in shares.values():
        tried = [probe for probe in heavy if shares[probe] < WHOLE]
        ways = [(tried, change) for change in _CHANGES[: _ENOUGH + 1]]
    else:
        by_operators = {probe.operators: probe for probe in reversed(plain)}
        tried = [probe for probe in plain if by_operators[probe.operators] is probe]
        ways = [(tried, one) for one in _CHANGES] + [(heavy, two) for two in _DOUBLE]
    nothing = WHOLE not in shares.values()
    for probes, change in ways:
        found = _side_by_side(ask, (replace(one, **change) for one in probes if _fits(one, change)))
        shares |= found
        if nothing and WHOLE in found.values():
            break
    whole = tuple(probe for probe, share in shares.items() if share == WHOLE)
    return whole or tuple(probe for probe, share in shares.items() if share)


def _side_by_side(ask: Ask, probes: Iterable[ProbeModel]) -> dict[ProbeModel, int]:
    """Probe many at once, which takes a fraction of the time.

    A backend may take a probe only because of its company. So the first is offered again alone. If
    that makes a difference, so are the others.
    """
    found: dict[ProbeModel, int] = {}
    by_opset: dict[int, list[ProbeModel]] = {}
    for one in probes:
        if one.is_valid():
            by_opset.setdefault(one.variant.opset, []).append(one)
    for group in by_opset.values():
        claimed: dict[str, list[tuple[str, str]]] = {}
        name = f"{group[0].name} and {len(group) - 1} more"
        for operator, output in ask(side_by_side(map(_build, group), name)):
            claimed.setdefault(output.partition(":")[0], []).append((operator, output))
        shares = {one: _share(one, claimed.get(str(at), ())) for at, one in enumerate(group)}
        taken = [one for one in group if shares[one]]
        if taken and share_alone(ask, taken[0]) != shares[taken[0]]:
            shares |= {one: share_alone(ask, one) for one in taken}
        found |= shares
    return found


WHOLE: Final = 2


def share_alone(ask: Ask, probe: ProbeModel) -> int:
    """Return how much a backend claims of a probe alone: 2 for all of its operators, 1 for some."""
    return _share(probe, ask(probe.model().proto))


def _share(probe: ProbeModel, claimed: Iterable[tuple[str, str]]) -> int:
    """Return 2 if the operators of a probe are among the claimed ones, 1 if some are, or 0."""
    names = {operator for operator, _ in claimed}
    if names.issuperset(probe.operators):
        return WHOLE
    return int(not names.isdisjoint(probe.operators))


def _fits(plain: ProbeModel, change: Mapping[str, Any]) -> bool:
    return ("kind" not in change or bool(plain.kind)) and replace(plain, **change) != plain


_CHANGES: Final[Sequence[Mapping[str, Any]]] = (
    {"element_type": "float16"},
    {"element_type": "int8"},
    {"rows": 1},
    {"times": 3},
    {"wider": 8},
    *({"kind": kind} for kind in _KINDS),
    *({"element_type": one} for one in ["double", "bfloat16", "uint8", "int32", "int64", "bool"]),
    {"times": 8},
)
_DOUBLE: Final = [{**one, **other} for one in _CHANGES[:3] for other in _CHANGES[3:5]]
_ENOUGH: Final = 3
"""The last of the first that is tried where something was taken already."""
