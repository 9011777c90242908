"""Every attribute and every whole number that operators read, one after the other, at its ends."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from tests.campaign import models
from tests.campaign.mutants import Mutants
from tests.campaign.trials import Case

_WHOLE: Final = (0, -1, 2**20, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**31) - 1, -(2**63))
_REAL: Final = (0.0, -1.0, 1e38, np.inf, -np.inf, np.nan)
_TEXT: Final = (b"", b"?", b"\xff")
_CASES_OF_AN_OPERATOR: Final = 3
_LONGEST: Final = 16
"""Elements of an input that is taken for axes, sizes or a count."""
_STRIDE: Final = 7919
"""Seeds that follow each other are of different operators."""
_LEFT_OUT: Final = object()


class Extremes(Mutants):
    """Put one attribute or input of an official case at an end; the seed says which."""

    name = "extremes"
    about = "each attribute and whole-number input of each operator, one by one, at its ends"

    def load(self) -> None:
        super().load()
        _changes()

    def case(self, seed: int) -> Case:
        place, change = _changes()[seed * _STRIDE % len(_changes())]
        drawn = models.official()[place]
        model = ModelProto.FromString(models.model_of(drawn))
        feeds = models.feeds_of(drawn)
        _change(model.graph, feeds, *change)
        return models.case_of(model.SerializeToString(), feeds)


@cache
def _changes() -> Sequence[tuple[int, tuple[str, int, str, Any]]]:
    """List the changes with the official case that each is made in."""
    found, seen = [], Counter[tuple[str, str]]()
    for place, case in enumerate(models.official()):
        model = ModelProto.FromString(models.model_of(case))
        (node, *_) = model.graph.node
        key = node.domain, node.op_type
        seen[key] += 1
        if seen[key] <= _CASES_OF_AN_OPERATOR:
            feeds = models.feeds_of(case)
            found += [(place, change) for change in _changes_of(model, node, feeds)]
    return found


def _changes_of(
    model: ModelProto, node: NodeProto, feeds: dict[str, Any]
) -> Iterator[tuple[str, int, str, Any]]:
    """Yield what may be changed of a node: how, where, by which name, and to what."""
    opset = next((one.version for one in model.opset_import if one.domain == node.domain), 1)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return
    stated = {one.name: one for one in node.attribute}
    for name, attribute in schema.attributes.items():
        default = stated.get(name, attribute.default_value)
        value = helper.get_attribute_value(default) if default.type else None
        yield from (("attribute", 0, name, end) for end in _ends(attribute.type.name, value))
        if name in stated:
            yield "attribute", 0, name, _LEFT_OUT
    for place, name in enumerate(node.input):
        yield "input", place, name, _LEFT_OUT
        fed = feeds.get(name)
        if isinstance(fed, np.ndarray) and fed.dtype.kind in "iu" and fed.size <= _LONGEST:
            limits = np.iinfo(fed.dtype)
            ends = sorted({min(max(end, limits.min), limits.max) for end in _WHOLE})
            yield from (("input", place, how, end) for how, end in product(("fed", "stored"), ends))


def _ends(kind: str, value: Any) -> Iterator[Any]:
    count = len(value) if isinstance(value, list) else 1
    match kind:
        case "INT":
            yield from _WHOLE
        case "FLOAT":
            yield from _REAL
        case "STRING":
            yield from (*_TEXT, *((value[:-1], value.swapcase()) if value else ()))
        case "INTS":
            yield from ([end] * count for end in _WHOLE)
            yield from ([], [1] * (count + 1), [*(value or [])[:-1], 2**31])
        case "FLOATS":
            yield from ([end] * count for end in _REAL)
            yield from ([], [1.0] * (count + 1))
        case "STRINGS":
            yield from ([end] * count for end in _TEXT)
            yield from ([], [b"a"] * (count + 1))


def _change(
    graph: onnx.GraphProto, feeds: dict[str, Any], how: str, place: int, name: str, end: Any
) -> None:
    node = graph.node[0]
    if how == "attribute":
        kept = [one for one in node.attribute if one.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if end is not _LEFT_OUT:
            node.attribute.append(_made(name, end, node))
    elif end is _LEFT_OUT:
        node.input[place] = ""
    else:
        value = node.input[place]
        feeds[value] = np.full_like(feeds[value], end)
        if name == "stored":
            graph.initializer.append(numpy_helper.from_array(feeds.pop(value), value))
            kept_inputs = [one for one in graph.input if one.name != value]
            del graph.input[:]
            graph.input.extend(kept_inputs)


def _made(name: str, value: Any, node: NodeProto) -> AttributeProto:
    if value != []:
        return helper.make_attribute(name, value)
    kind = onnx.defs.get_schema(node.op_type, domain=node.domain).attributes[name].type
    return helper.make_attribute(name, value, attr_type=int(kind.value))
