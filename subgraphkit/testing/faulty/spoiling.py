"""What faulty libraries do to results: lost tails, old buffers, wrong plans, ignored attributes."""
# ruff: noqa: ARG001 (they take what the operator gives them)

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from subgraphkit.ir import Node
from subgraphkit.testing.faulty.corrupting import Corrupted

__all__ = [
    "arena",
    "auto",
    "behind",
    "chained",
    "cut",
    "dilated",
    "ends",
    "exchanged",
    "first_everywhere",
    "first_is_constant",
    "first_of_batch",
    "first_shape",
    "floats",
    "flush",
    "forwards",
    "from_the_left",
    "from_then_on",
    "half",
    "ignored",
    "is_square",
    "kept",
    "pads_differ",
    "per_channel",
    "product_if_square",
    "remainder",
    "same_if_square",
    "second_shape",
    "shares_scratch",
    "shift",
    "sometimes",
    "spoil",
    "stale_buffers",
    "tail",
    "together",
    "view",
]

Run = Callable[[Sequence[Any]], list[Any]]


def tail(least: int) -> Callable[[Any], Any]:
    def change(made: Any) -> None:
        if made.size > least:
            made.flat[-1] = 0

    return change


def ends(width: int) -> Callable[[Any], Any]:
    def change(made: Any) -> None:
        made.flat[width - 1 :: width] = 0

    return change


def remainder(width: int) -> Callable[[Any], Any]:
    def change(made: Any) -> None:
        if made.size > width and made.size % width:
            made.flat[made.size // width * width :] = 0

    return change


def cut(made: Any) -> Any:
    if made.dtype != np.float32:
        return None
    return (made.view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)


def flush(made: Any) -> Any:
    if made.dtype.kind != "f" or not made.size:
        return None
    return np.where(np.abs(made) < np.finfo(made.dtype).tiny, made.dtype.type(0), made)


def floats(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda made: change(made) if made.dtype.kind == "f" else None


half = floats(lambda made: made.astype(np.float16).astype(made.dtype))


# -- what is remembered ---------------------------------------------------------------------------


def kept(key: Callable[[list[Any]], Any]) -> Callable[..., Sequence[Any]]:
    def corrupt(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
        known = operator.state
        found = key(inputs)
        if known.get("key") != found:
            known.update(key=found, made=right(inputs), held=inputs)
        return [one.copy() for one in known["made"]]

    return corrupt


def shares_scratch(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    shapes = [one.shape for one in inputs]
    scratch = operator.state.setdefault(str(shapes), [np.empty_like(one) for one in inputs])
    for room, one in zip(scratch, inputs, strict=True):
        np.copyto(room, one)
    return right(scratch)


def stale_buffers(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    for place, one in enumerate(made):
        before = operator.state.get(place)
        if before is not None and 1 < one.size < before.size:
            one.flat[-1] = before.flat[one.size - 1]
        operator.state[place] = one.copy()
    return made


def first_shape(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    for place, one in enumerate(made):
        planned = operator.state.setdefault(place, one.size)
        one.flat[planned:] = 0
    return made


def second_shape(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    for place, one in enumerate(made):
        if one.size and operator.state.setdefault(place, one.shape) != one.shape:
            one.flat[0] += one.flat[0]
    return made


def sometimes(every: int) -> Callable[..., Sequence[Any]]:
    def corrupt(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
        count = operator.state["runs"] = operator.state.get("runs", 0) + 1
        made = right(inputs)
        for one in made:
            if count % every == 0 and one.dtype.kind == "f":
                one *= 1 + 3e-7
        return made

    return corrupt


def from_then_on(least: int) -> Callable[..., Sequence[Any]]:
    def corrupt(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
        count = operator.state["runs"] = operator.state.get("runs", 0) + 1
        made = right(inputs)
        for one in made if count > least else ():
            one[...] = 0
        return made

    return corrupt


def arena(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    arena = operator.state.setdefault("arena", np.empty(1 << 22, np.uint8))
    start, placed = 0, []
    for one in made:
        room = arena[start : start + one.nbytes].view(one.dtype).reshape(one.shape)
        room[...] = one
        start += -(-one.nbytes // 64) * 64
        placed.append(room)
    return placed


def together(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    first: dict[Any, Any] = {}
    return [first.setdefault((one.dtype, one.shape, one.tobytes()), one) for one in right(inputs)]


def view(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    for place, name in enumerate(operator.subgraph.outputs):
        source = operator.value(operator.makers[name].inputs[0], inputs)
        if source is not None and source.size == made[place].size:
            made[place] = source.reshape(made[place].shape)
    return made


# -- operators and their attributes ----------------------------------------------------------------


def pads_differ(node: Node) -> Any:
    pads = node.attribute("pads", ())
    half = len(pads) // 2
    return list(pads[:half]) != list(pads[half:])


def shift(made: Any) -> Any:
    return np.roll(made, 1, axis=-1)


def dilated(node: Node) -> bool:
    return any(one > 1 for one in node.attribute("dilations", ()))


def auto(word: str) -> Callable[[Node], bool]:
    return lambda node: node.attribute("auto_pad", "NOTSET") == word


def first_of_batch(made: Any) -> None:
    if made.ndim > 1 and made.shape[0] > 1:
        made[1:] = made[:1]


def forwards(data: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Slice forwards what is to be sliced backwards."""
    if steps is None or (steps > 0).all():
        return None
    (axis,), (step,) = axes, steps
    size = len(range(*slice(int(starts[0]), int(ends[0]), int(step)).indices(data.shape[axis])))
    return np.take(data, np.arange(size), axis=axis)


def from_the_left(one: Any, other: Any) -> Any:
    """Subtract as if the axes of both began together, where that gives the same shape."""
    if (one.ndim, other.ndim) != (2, 1) or not other.size:
        return None
    return one - np.resize(other, one.shape[::-1]).T


def exchanged(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
    made = right(inputs)
    names = operator.subgraph.outputs
    for node in {*operator.makers.values()}:
        places = [names.index(name) for name in node.outputs if name in names]
        if len(places) == 2:  # noqa: PLR2004 (results)
            first, second = places
            made[first], made[second] = made[second], made[first]
    return made


def spoil(made: Any) -> Any:
    return made + np.ones((), made.dtype)


def first_everywhere(made: Any) -> Any:
    return np.full_like(made, made.flat[0]) if made.size else None


def is_square(one: Any) -> bool:
    return bool(one.ndim > 1 and one.shape[-1] == one.shape[-2] > 1)


def same_if_square(node: Node, one: Any, *_: Any) -> Any:
    return one if is_square(one) and one.ndim == 2 else None  # noqa: PLR2004 (a matrix)


def product_if_square(node: Node, one: Any, other: Any) -> Any:
    return one @ other.swapaxes(-1, -2) if is_square(one) and one.shape == other.shape else None


def ignored(name: str, value: Any) -> Callable[[Node], bool]:
    return lambda node: node.attribute(name, value) != value


def behind(*producers: str) -> Callable[[Corrupted, Node], bool]:
    def stands(operator: Corrupted, node: Node) -> bool:
        makers = [operator.makers.get(name) for name in node.inputs]
        return any(one is not None and one.op_type in producers for one in makers)

    return stands


def chained(
    op_types: str, stands: Callable[[Corrupted, Node], bool], change: Callable[[Any], Any]
) -> Callable[..., Sequence[Any]]:
    """Corrupt the results of operators that come right behind certain others."""

    def corrupt(operator: Corrupted, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        for place, name in enumerate(operator.subgraph.outputs):
            node = operator.makers[name]
            if node.op_type in op_types.split() and stands(operator, node):
                changed = change(made[place])
                made[place] = made[place] if changed is None else changed
        return made

    return corrupt


def per_channel(*producers: str) -> Callable[[Corrupted, Node], bool]:
    """Say whether a constant for each place of the last axis meets what was just reduced."""
    follows = behind(*producers)

    def stands(operator: Corrupted, node: Node) -> bool:
        stored = [operator.subgraph.constants.get(name) for name in node.inputs]
        shapes = [one.array().shape for one in stored if one is not None]
        return follows(operator, node) and any(len(one) == 1 and one[0] > 1 for one in shapes)

    return stands


def first_is_constant(operator: Corrupted, node: Node) -> bool:
    return node.inputs[0] in operator.subgraph.constants
