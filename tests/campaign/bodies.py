"""How operators with bodies, and those on sequences and optionals, are given what is legal."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from tests.campaign import layers, movements, pictures
from tests.campaign.drawing import Draw, elements
from tests.campaign.growing import Growth, Skip, Value, onnx_type
from tests.campaign.recipes import RECIPES, recipe

MODULES: Final = (layers, movements, pictures)
"""What has put its recipes into the table by now."""
_TRIES: Final = 30
_DEEPEST: Final = 2
_MORE: Final = {"If": 3, "Loop": 3, "Scan": 3, "Conv": 2, "MatMul": 2, "Gemm": 2}
"""How often some operators are drawn, others being drawn once."""


@lru_cache
def drawable(opset: int) -> Sequence[onnx.defs.OpSchema]:
    """Return the operators of a version that there is a recipe for, by name."""
    found = []
    for name in sorted(RECIPES):
        try:
            schema = onnx.defs.get_schema(name, opset)
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            found += [schema] * _MORE.get(name, 1)
    return found


def grow(growth: Growth) -> None:
    """Add a node of any operator, with what it reads."""
    for _ in range(_TRIES):
        draw = Draw(growth, growth.rng.choice(drawable(growth.manner.opset)))
        before = len(growth.nodes), len(growth.stored), len(growth.inputs)
        try:
            RECIPES[draw.schema.name](draw)
            growth.add(draw.node())
        except (Skip, IndexError, ValueError):
            _forget(growth, before)
            continue
        return


def _forget(growth: Growth, before: tuple[int, int, int]) -> None:
    """Take away what a node that was not added would have read."""
    nodes, stored, inputs = before
    gone = [name for node in growth.nodes[nodes:] for name in node.output]
    gone += [one.name for one in (*growth.stored[stored:], *growth.inputs[inputs:])]
    del growth.nodes[nodes:], growth.stored[stored:], growth.inputs[inputs:]
    for name in gone:
        growth.values.pop(name, None)
        growth.feeds.pop(name, None)


def _depth(growth: Growth) -> int:
    return 0 if growth.outer is None else 1 + _depth(growth.outer)


def _body(d: Draw, values: Sequence[tuple[Any, Any]] = ()) -> tuple[Growth, list[str]]:
    """Return a body with inputs of these types, grown by some nodes."""
    if _depth(d.growth) >= _DEEPEST:
        raise Skip
    body = d.growth.body()
    names = []
    for now, noisy in values:
        name = body.name("b")
        names.append(name)
        body.hold(name, now, noisy)
        body.inputs.append(helper.make_value_info(name, _unshaped(now, d)))
    for _ in range(d.pick(0, 1, 1, 2, 3)):
        grow(body)
    return body, names


def _unshaped(now: Any, d: Draw) -> onnx.TypeProto:
    shape = now.shape if d.chance(0.6) else [None] * now.ndim
    return helper.make_tensor_type_proto(onnx_type(now.dtype), shape)


def _end(body: Growth, name: str) -> str:
    """Return a name that a body may return: one that a node of its own makes."""
    if any(name in node.output for node in body.nodes):
        return name
    made = body.name()
    body.add(helper.make_node("Identity", [name], [made]))
    return made


def _like(body: Growth, now: Any, shape: Any) -> str:
    """Return a value of a body of some dtype, and shape if that matters."""
    found = [
        one.name
        for one in body.visible()
        if one.is_tensor and one.now.dtype == now.dtype and shape in (None, one.now.shape)
    ]
    if found and body.rng.random() < 0.9:
        return _end(body, found[-body.rng.randint(1, min(4, len(found)))])
    array = elements(body.rng, now.dtype, now.shape, "any", body.manner)
    return _end(body, body.fresh(array, 0.0))


@recipe("If")
def _if(d: Draw) -> None:
    condition = d.read(rank=(0, 1), fit=lambda a: a.size == 1, new=())
    bodies = [_body(d)[0], _body(d)[0]]
    tensors = [one for one in bodies[0].visible() if one.is_tensor]
    if not tensors:
        raise Skip
    wanted = [d.rng.choice(tensors[-4:]) for _ in range(d.pick(1, 1, 2))]
    ends = [[_like(body, one.now, None) for one in wanted] for body in bodies]
    ends = [_distinct(body, one) for body, one in zip(bodies, ends, strict=True)]
    d.outputs = [True] * len(wanted)
    chosen = bool(condition.reshape(-1)[0])
    order = (0, 1) if chosen or d.chance() else (1, 0)
    for attribute, place in zip(("then_branch", "else_branch"), order, strict=True):
        d.attributes[attribute] = bodies[place].graph(ends[place])


def _distinct(body: Growth, names: Sequence[str]) -> list[str]:
    """Give what is returned twice another name the second time."""
    found: list[str] = []
    for name in names:
        if name in found:
            made = body.name()
            body.add(helper.make_node("Identity", [name], [made]))
            found.append(made)
        else:
            found.append(name)
    return found


def _pairs(d: Draw, names: Sequence[str]) -> list[tuple[Any, Any]]:
    return [(one.now, one.noisy) for one in map(d.growth.seen, names)]


@recipe("Loop")
def _loop(d: Draw) -> None:
    trips = d.pick(0, 1, 2, 3, 3)
    if counted := d.chance(0.8):
        d.integers(d.pick(trips, [trips]) if d.chance(0.1) else trips)
    else:
        d.skip()
    if d.chance():
        d.give(np.array(d.chance(0.9)))
    else:
        d.skip()
    states = _states(d, d.pick(0, 1, 1, 2))
    values = [(np.array(0, np.int64),) * 2, (np.ones((), bool),) * 2, *_pairs(d, states)]
    body, (step, go, *_) = _body(d, values)
    if counted and d.chance(0.7):
        going = body.name()
        body.add(helper.make_node("Identity", [go], [going]))
    else:
        most = body.fresh(np.array(trips if not counted else d.pick(1, 2, 9), np.int64), 0.0)
        going = body.name()
        body.add(helper.make_node("Less", [step, most], [going]))
        if d.opset < 9:
            raise Skip
    ends = [_like(body, d.growth.seen(one).now, d.growth.seen(one).now.shape) for one in states]
    ends += _scanned(d, body, at_least=int(not states))
    d.outputs = [True] * len(ends)
    d.attributes["body"] = body.graph(_distinct(body, [going, *ends]))


def _states(d: Draw, count: int) -> list[str]:
    names = []
    for _ in range(count):
        d.types.clear()
        mark = len(d.inputs)
        d.read(rank=(0, 3), dtypes=("float32", "float32", "int64", "float64", "float16", "bool"))
        names.append(d.inputs[mark])
    return names


def _scanned(d: Draw, body: Growth, at_least: int) -> list[str]:
    """Return what a body makes anew in each round."""
    tensors = [one for one in body.visible() if one.is_tensor]
    if not tensors:
        raise Skip
    return [
        _like(body, d.rng.choice(tensors[-4:]).now, None)
        for _ in range(max(at_least, d.pick(0, 1, 1, 2)))
    ]


@recipe("Scan")
def _scan(d: Draw) -> None:
    if d.opset < 9:
        raise Skip
    states = _states(d, d.pick(0, 1, 1, 2))
    d.types.clear()
    x = d.read(rank=(1, 3), fit=lambda a: a.size > 0, dtypes=("float32", "int64", "float64"))
    sources, axes = [d.inputs[-1]], [d.axis(x.ndim, negative=d.opset >= 11)]
    if d.chance(0.3):
        d.types.clear()
        length = x.shape[axes[0]]
        d.read(lambda s: s[:1] == (length,), new=(length, *d.shape(0, 1)), rank=(1, 3))
        sources, axes = [*sources, d.inputs[-1]], [*axes, 0]
    pairs = _pairs(d, sources)
    slices = [
        tuple(np.array(np.take(one, 0, axis)) for one in pair)
        for pair, axis in zip(pairs, axes, strict=True)
    ]
    slices = [
        (now, now) if whole[0] is whole[1] else (now, noisy)
        for (now, noisy), whole in zip(slices, pairs, strict=True)
    ]
    body, _ = _body(d, [*_pairs(d, states), *slices])
    ends = [_like(body, d.growth.seen(one).now, d.growth.seen(one).now.shape) for one in states]
    made = _scanned(d, body, at_least=int(not states))
    d.set("num_scan_inputs", len(sources))
    d.set("scan_input_axes", axes, float(any(axes)) or 0.5)
    d.set("scan_input_directions", [d.pick(0, 1) for _ in axes])
    d.set("scan_output_directions", [d.pick(0, 1) for _ in made], 0.4)
    if d.chance(0.3) and d.opset >= 11:
        d.set("scan_output_axes", [d.axis(body.seen(one).now.ndim + 1) for one in made], 1.0)
    d.outputs = [True] * (len(ends) + len(made))
    d.attributes["body"] = body.graph(_distinct(body, [*ends, *made]))


@recipe("SequenceConstruct", "SequenceEmpty")
def _sequence(d: Draw) -> None:
    if d.schema.name == "SequenceEmpty":
        d.set("dtype", d.pick(1, 7, 11, 10))
        return
    x = d.read()
    for _ in range(d.pick(0, 1, 2, 3)):
        d.read(rank=(x.ndim, x.ndim))


def _list(d: Draw, *, filled: bool = False) -> Value:
    """Read a sequence, which is made if there is none."""
    found = [
        one
        for one in d.growth.visible()
        if isinstance(one.now, list)
        and (one.now or not filled)
        and one.type.HasField("sequence_type")
    ]
    if not found or d.chance(0.2):
        inner = Draw(d.growth, onnx.defs.get_schema("SequenceConstruct", d.opset))
        _sequence(inner)
        found = d.growth.add(inner.node())
    value = d.rng.choice(found)
    d.inputs.append(value.name)
    return value


@recipe("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength", "ConcatFromSequence")
def _of_sequence(d: Draw) -> None:
    name = d.schema.name
    items = _list(d, filled=name not in {"SequenceInsert", "SequenceLength"}).now
    count = len(items)
    if name == "SequenceInsert":
        if not items:
            raise Skip
        d.types[d.schema.inputs[1].type_str] = items[0].dtype
        d.read(rank=(items[0].ndim, items[0].ndim))
        if d.chance(0.6):
            d.integers(d.rng.randint(-count, count), d.pick(np.int32, np.int64))
    elif name == "SequenceAt" or (name == "SequenceErase" and d.chance(0.7)):
        d.integers(d.rng.randint(-count, count - 1), d.pick(np.int32, np.int64))
    elif name == "ConcatFromSequence":
        new = d.pick(0, 0, 1)
        d.set("new_axis", new, float(new))
        d.set("axis", d.axis(items[0].ndim + new))


@recipe("SequenceMap")
def _map(d: Draw) -> None:
    items = _list(d, filled=True)
    body, _ = _body(d, [(items.now[0], items.noisy[0])])
    for dim in (dim for one in body.inputs for dim in one.type.tensor_type.shape.dim):
        dim.Clear()
    ends = _scanned(d, body, at_least=1)
    d.outputs = [True] * len(ends)
    d.attributes["body"] = body.graph(_distinct(body, ends))


@recipe("Optional", "OptionalHasElement", "OptionalGetElement")
def _optional(d: Draw) -> None:
    if d.schema.name == "Optional":
        d.read(dtypes=("float32", "int64"))
        return
    found = [one for one in d.growth.visible() if one.type.HasField("optional_type")]
    if not found or d.opset >= 18:
        inner = Draw(d.growth, onnx.defs.get_schema("Optional", d.opset))
        inner.read(dtypes=("float32", "int64"))
        found = d.growth.add(inner.node())
    d.inputs.append(d.rng.choice(found).name)
