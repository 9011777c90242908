"""The catalogue of small models that a backend is offered, to learn what it takes.

An offer is an operator, or a run of operators that libraries fuse, from an input ``x`` to an output
``y`` of the same type and shape, so that any two of one type and shape can stand one behind the
other. Where the operator alone would not give that, nodes around it do, which any backend may
leave.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import compose, helper, numpy_helper, shape_inference

from subgraphkit.comparing.operator_texts import FORMS, Form
from subgraphkit.comparing.small_models import ROWS, SmallModel, model_of

__all__ = [
    "OFFERS",
    "Ask",
    "Offer",
    "claims_whole",
    "offers_taken",
    "together",
    "variants",
    "variants_taken",
]

_SHAPES: Final = {
    "vector": "C",
    "sequence": "4,C",
    "heads": "2,4,C",
    "picture": "C,6,6",
    "volume": "C,4,4,4",
    "flat": "",
}
_PER_CHANNEL: Final = {"picture": "C,1,1", "volume": "C,1,1,1", "flat": "1"}
"""The shape of a weight for each channel; elsewhere it is that of the last axis."""

_WIDTHS: Final = {"vector": 8, "sequence": 8, "heads": 8, "picture": 4, "volume": 4, "flat": 1}
_OTHER_TYPES: Final = (
    "float16", "double", "bfloat16", "int8", "uint8", "int32", "int64", "bool",
)  # fmt: skip
_ANY_RANK: Final = ("vector", "picture", "sequence", "flat")
_WIDE: Final = 8
_FEW: Final = 8
_MOST_FAILURES: Final = 8
"""How often a backend is asked that fails and has not answered once."""
_TIMES: Final = (3, 8)
_HALVES: Final = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
_SIZED: Final = re.compile(r"\b(\d*)C\b")


@dataclass(frozen=True, slots=True)
class Offer:
    """A small model, from an input ``x`` to an output ``y`` of the same type and shape.

    Attributes:
        form: The operators, and how they are written.
        element_type: Type of ``x`` and ``y``, as onnx's text form has it.
        kind: Rank and meaning of the axes: ``vector`` is ``[N,C]``, ``picture`` ``[N,C,H,W]``.
        rows: Size of the first axis; None if the model leaves it open.
        width: Size of the axis of features.
        times: How many times the form stands one behind the other.
    """

    form: Form
    element_type: str
    kind: str
    rows: int | None = ROWS
    width: int = 8
    times: int = 1

    @property
    def name(self) -> str:
        """The operators, and what is unusual about their types and shapes."""
        words = [self.form.name]
        words += [self.element_type] if self.element_type != self.form.base_type else []
        words += [self.kind] if self.kind != self.form.kinds[0] else []
        words += ["open"] if self.rows is None else []
        words += [f"N={self.rows}"] if self.rows not in {None, ROWS} else []
        words += [f"C={self.width}"] if self.width != _WIDTHS[self.kind] else []
        return " ".join([*words, f"x{self.times}"] if self.times > 1 else words)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it is about, in order."""
        return self.form.operators

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of ``x`` and ``y``; an axis that the model leaves open is None."""
        rest = filter(None, self._sized(_SHAPES[self.kind]).split(","))
        return (self.rows, *map(int, rest))

    def with_rows(self, rows: int | None) -> "Offer":
        """Return the same with another size of the first axis."""
        return replace(self, rows=rows)

    def model(self) -> SmallModel:
        """Build the model; the same each time."""
        return SmallModel(_built(self))

    def text(self) -> str:
        """Return the graph in onnx's text form; weights are declared, and have no numbers."""
        weights, body = self.between("x", "y")
        declared = f"<{', '.join(weights)}>" if weights else ""
        return f"offer ({self.type} x) => ({self.type} y) {declared} {{ {body} }}"

    @property
    def type(self) -> str:
        """The type of ``x`` and ``y``, as onnx's text form has it."""
        axes = ",".join("N" if size is None else str(size) for size in self.shape)
        return f"{self.element_type}[{axes}]"

    def between(
        self, source: str, target: str, mark: str = "", *, shared: str = ""
    ) -> tuple[list[str], str]:
        """Write the nodes between two values in onnx's text form.

        Args:
            source: The value they read.
            target: The value they make.
            mark: What the names of all else end with.
            shared: What those of weights end with, if they are the weights of others as well.

        Returns:
            Declarations of weights, and the nodes.
        """
        weights, bodies = [], []
        for place in range(self.times):
            first, last = not place, place == self.times - 1
            ends = {
                "x": source if first else f"{target}_{place - 1}",
                "y": target if last else f"{target}_{place}",
            }
            at = f"_{place}" if self.times > 1 else ""
            names = {name: name + mark + at for name in self.form.made}
            names |= {name: name + (shared or mark) + at for name in self.form.declared}
            weights += [self._placed(text, names | ends) for text in self.form.weights]
            bodies.append(self._placed(self.form.body, names | ends))
        return weights, " ".join(bodies)

    def is_valid(self) -> bool:
        """Say whether ONNX defines its operators for its type, as it does for the usual one."""
        return self.element_type == self.form.base_type or _is_valid(self)

    def _placed(self, text: str, names: Mapping[str, str]) -> str:
        channels = self._sized(_PER_CHANNEL.get(self.kind, "C"))
        text = text.replace("CHANNELS", channels).replace("PLACES", self._places())
        text = re.sub(r"\bT\b", self.element_type, self._sized(text))
        return re.sub(
            rf"\b({'|'.join(names)})\b(?!\s*=\s*[\d\"\[])(?!\()",  # no attributes
            lambda found: names[found[1]],
            text,
        )

    def _sized(self, text: str) -> str:
        return _SIZED.sub(lambda found: str(int(found[1] or 1) * self.width), text)

    def _places(self) -> str:
        return ", ".join(map(str, reversed(range(self.width))))


@lru_cache(maxsize=2048)
def _built(offer: Offer) -> onnx.ModelProto:
    proto = model_of(offer.text(), _header(offer.form.opset))
    proto.graph.name = offer.name
    for tensor in proto.graph.initializer:
        if tensor.data_type in _HALVES and tensor.int32_data:  # the text says 2, not the bits of 2
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            array = np.array(tensor.int32_data).astype(dtype).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto


def _header(opset: int) -> str:
    return f'<ir_version: 10, opset_import: ["" : {opset}]>'


@lru_cache(maxsize=4096)
def _is_valid(offer: Offer) -> bool:
    try:
        shape_inference.infer_shapes(_built(offer), check_type=True, strict_mode=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return False
    return True


def _plain(form: Form) -> Offer:
    kind = form.kinds[0]
    return Offer(form, form.base_type, kind, width=_WIDTHS[kind])


OFFERS: Final = tuple(map(_plain, FORMS))
"""The offers as they are made first: one for each form, in its usual type and shape."""


def variants(plain: Offer) -> tuple[Offer, ...]:
    """Return an offer in other types, ranks and sizes that ONNX defines, one thing differing."""
    changes: list[dict[str, Any]] = [{"rows": None}, {"rows": 1}]
    changes += [{"element_type": one} for one in _OTHER_TYPES if one != plain.element_type]
    changes += [{"kind": kind, "width": _WIDTHS[kind]} for kind in plain.form.kinds[1:]]
    changes += [{"width": plain.width * _WIDE}] if plain.kind != "flat" else []
    changes += [{"times": times} for times in _TIMES]
    made = (replace(plain, **change) for change in changes)
    return tuple(one for one in made if one.is_valid())


def together(offers: Sequence[Offer]) -> onnx.ModelProto:
    """Return a model in which offers stand side by side and have nothing to do with one another.

    Args:
        offers: What is offered, all of one operator set; names of the first begin with ``0:``.
    """
    whole = onnx.ModelProto()
    for place, offer in enumerate(offers):
        part = compose.add_prefix(_built(offer), f"{place}:")
        if not place:
            whole.CopyFrom(part)
            continue
        for field in ("node", "input", "output", "initializer"):
            getattr(whole.graph, field).extend(getattr(part.graph, field))
    whole.graph.name = f"{offers[0].name} and {len(offers) - 1} more"
    return whole


Ask = Callable[[onnx.ModelProto], Sequence[tuple[str, str]]]
"""Says what a backend claims of a model: operators, each with the name of the node's output."""


def offers_taken(ask: Ask) -> tuple[Offer, ...]:
    """Find out what a backend takes; nothing is compiled.

    Every form is offered in its usual type and shape. If it takes none, they are offered in others
    until it takes something; and so is what computes most, if it takes little of that.

    Returns:
        What it takes whole; or, if there is no such thing, what it takes a part of. See
        ``variants_taken`` for more.

    Raises:
        Exception: What the backend raised first when it was asked, if it takes nothing.
    """
    asking = _Patient(ask)
    taken = _offers_taken(asking)
    if asking.failure is not None and not taken:
        raise asking.failure
    return taken


class _Patient:
    """Goes on asking a backend that fails, unless it never answers.

    Attributes:
        failure: What it raised first.
    """

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


def _offers_taken(ask: Ask) -> tuple[Offer, ...]:
    shares = _side_by_side(ask, OFFERS)
    heavy = [offer for offer in OFFERS if offer.form.is_heavy]
    if _WHOLE not in shares.values():  # it may look at all of a model, and want nothing beside
        shares |= {offer: _alone(ask, offer) for offer in (*OFFERS[:_FEW], *heavy)}
    if _WHOLE in shares.values():
        tried = [offer for offer in heavy if shares[offer] < _WHOLE]
        ways = [(tried, vary) for vary in _SINGLE[: _ENOUGH + 1]]
    else:
        by_operators = {offer.operators: offer for offer in reversed(OFFERS)}
        tried = [offer for offer in OFFERS if by_operators[offer.operators] is offer]
        ways = [(tried, vary) for vary in _SINGLE] + [(heavy, vary) for vary in _DOUBLE]
    nothing = _WHOLE not in shares.values()
    for offers, vary in ways:
        found = _side_by_side(ask, [one for offer in offers if (one := vary(offer)) != offer])
        shares |= found
        if nothing and _WHOLE in found.values():
            break
    whole = tuple(offer for offer, share in shares.items() if share == _WHOLE)
    return whole or tuple(offer for offer, share in shares.items() if share)


def variants_taken(ask: Ask, plain: Offer) -> tuple[Offer, ...]:
    """Find out in which other types, ranks and sizes a backend takes an offer."""
    found = _side_by_side(ask, variants(plain))
    return tuple(offer for offer, share in found.items() if share == _WHOLE)


def _side_by_side(ask: Ask, offers: Iterable[Offer]) -> dict[Offer, int]:
    """Offer many at once, which takes a fraction of the time.

    What is taken so may be taken for the company it is in. The first is offered again alone, and if
    that makes a difference, so are the others.
    """
    found: dict[Offer, int] = {}
    by_opset: dict[int, list[Offer]] = {}
    for one in offers:
        if one.is_valid():
            by_opset.setdefault(one.form.opset, []).append(one)
    for group in by_opset.values():
        claimed: dict[str, list[tuple[str, str]]] = {}
        for operator, name in ask(together(group)):
            claimed.setdefault(name.partition(":")[0], []).append((operator, name))
        shares = {one: _share(one, claimed.get(str(at), ())) for at, one in enumerate(group)}
        taken = [one for one in group if shares[one]]
        if taken and _alone(ask, taken[0]) != shares[taken[0]]:
            shares |= {one: _alone(ask, one) for one in taken}
        found |= shares
    return found


def _alone(ask: Ask, offer: Offer) -> int:
    return _share(offer, ask(offer.model().proto))


_WHOLE: Final = 2


def claims_whole(offer: Offer, claimed: Iterable[tuple[str, str]]) -> bool:
    """Say whether the operators that an offer is about are among those claimed."""
    return _share(offer, claimed) == _WHOLE


def _share(offer: Offer, claimed: Iterable[tuple[str, str]]) -> int:
    """Return 2 if the operators of an offer are among the claimed ones, 1 if some are, or 0."""
    names = {operator for operator, _ in claimed}
    if names.issuperset(offer.operators):
        return _WHOLE
    return int(not names.isdisjoint(offer.operators))


def _in_type(element_type: str) -> Callable[[Offer], Offer]:
    return lambda plain: replace(plain, element_type=element_type)


def _in_kind(kind: str) -> Callable[[Offer], Offer]:
    def vary(plain: Offer) -> Offer:
        fits = kind in plain.form.kinds
        return replace(plain, kind=kind, width=_WIDTHS[kind]) if fits else plain

    return vary


def _one_row(plain: Offer) -> Offer:
    return replace(plain, rows=1)


def _thrice(plain: Offer) -> Offer:
    return replace(plain, times=_TIMES[0])


def _wide(plain: Offer) -> Offer:
    return replace(plain, width=plain.width * _WIDE) if plain.width > 1 else plain


def _eight(plain: Offer) -> Offer:
    return replace(plain, times=_TIMES[1])


_SINGLE: Final = (
    _in_type("float16"),
    _in_type("int8"),
    _one_row,
    _thrice,
    _wide,
    *(_in_kind(kind) for kind in _ANY_RANK),
    *(_in_type(one) for one in _OTHER_TYPES if one not in {"float16", "int8"}),
    _eight,
)
_DOUBLE: Final = tuple(
    lambda plain, one=one, other=other: one(other(plain))
    for one in (_in_type("float16"), _in_type("int8"), _one_row)
    for other in (_thrice, _wide)
)
_ENOUGH: Final = 3
"""The last of the first that is tried where something was taken already."""
