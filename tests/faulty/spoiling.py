"""Faults of libraries in results: lost tails, old buffers, wrong plans, ignored attributes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from subgraphkit.ir import Node
from tests.faulty.wrapping import Run, WrappedOperator


def raising(error: BaseException) -> Callable[..., Any]:
    """Return what raises an error, whatever it is given."""

    def act(*_: Any, **__: Any) -> Any:
        raise error

    return act


def besides(act: Callable[[], object]) -> Callable[..., Sequence[Any]]:
    """Return what computes as it should, and does something besides."""

    def run(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        act()
        return made

    return run


def tail(least: int) -> Callable[[Any], Any]:
    """Return what loses the last element of more than so many."""

    def change(made: Any) -> None:
        if made.size > least:
            made.flat[-1] = 0

    return change


def ends(width: int) -> Callable[[Any], Any]:
    """Return what loses the last element of each block."""

    def change(made: Any) -> None:
        made.flat[width - 1 :: width] = 0

    return change


def remainder(width: int) -> Callable[[Any], Any]:
    """Return what loses the elements behind the last whole block."""

    def change(made: Any) -> None:
        if made.size > width and made.size % width:
            made.flat[made.size // width * width :] = 0

    return change


def cut(made: Any) -> Any:
    """Cut the lower bits of fractions off."""
    if made.dtype != np.float32:
        return None
    return (made.view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)


def flush(made: Any) -> Any:
    """Make 0 of denormal numbers."""
    if made.dtype.kind != "f" or not made.size:
        return None
    return np.where(np.abs(made) < np.finfo(made.dtype).tiny, np.copysign(0, made), made)


def floats(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what changes fractions alone."""
    return lambda made: change(made) if made.dtype.kind == "f" else None


half = floats(lambda made: made.astype(np.float16).astype(made.dtype))


# -- what is remembered ---------------------------------------------------------------------------


def through(dtype: str, other: str) -> Callable[[Any], Any]:
    """Return what takes numbers of one type through another."""

    def change(made: Any) -> Any:
        return made.astype(other).astype(dtype) if made.dtype == dtype else None

    return change


def twos(made: Any) -> Any:
    """Make true of 2."""
    return (made.view(np.uint8) * 2).view(bool) if made.dtype == bool else None


def kept(key: Callable[[list[Any]], Any]) -> Callable[..., Sequence[Any]]:
    """Return what computes anew only if a key of what is fed is another."""

    def corrupt(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        known = operator.state
        found = key(inputs)
        if known.get("key") != found:
            known.update(key=found, made=right(inputs), held=inputs)
        return [one.copy() for one in known["made"]]

    return corrupt


def shares_scratch(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    """Compute on copies that all threads share."""
    shapes = [one.shape for one in inputs]
    scratch = operator.state.setdefault(str(shapes), [np.empty_like(one) for one in inputs])
    for room, one in zip(scratch, inputs, strict=True):
        np.copyto(room, one)
    return right(scratch)


def plans_by_count(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    """Compute in the shape that as many elements had at first."""
    shape = operator.state.setdefault(inputs[0].size, inputs[0].shape)
    return [one.reshape(inputs[0].shape) for one in right([inputs[0].reshape(shape)])]


def pairs(_: Node, a: Any, b: Any, *points: Any) -> Any:
    """Multiply bytes, and let the sum of each two products end at 16 bits."""
    points = (*points, 0, 0)
    x, w = a.astype(np.int32) - points[0], b.astype(np.int32) - points[1]
    even = x.shape[-1] // 2 * 2
    products = x[..., :even, None] * w[:even]
    added = np.clip(products[..., ::2, :] + products[..., 1::2, :], -(2**15), 2**15 - 1)
    return added.sum(axis=-2) + x[..., even:] @ w[even:]


def later(change: Callable[[dict[Any, Any], int, Any], object]) -> Callable[..., Sequence[Any]]:
    """Return what changes each result by what is remembered of earlier runs."""

    def corrupt(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        for place, one in enumerate(made):
            change(operator.state, place, one)
        return made

    return corrupt


def stale(known: dict[Any, Any], place: int, one: Any) -> None:
    """Leave the last element of an earlier, larger result in place."""
    before = known.get(place)
    if before is not None and 1 < one.size < before.size:
        one.flat[-1] = before.flat[one.size - 1]
    known[place] = one.copy()


def as_many(known: dict[Any, Any], place: int, one: Any) -> None:
    """Compute as many elements as there were at first."""
    one.flat[known.setdefault(place, one.size) :] = 0


def second_shape(known: dict[Any, Any], place: int, one: Any) -> None:
    """Double the first element in every other shape than the first."""
    if one.size and known.setdefault(place, one.shape) != one.shape:
        one.flat[0] += one.flat[0]


def grown_from_one(known: dict[Any, Any], place: int, one: Any) -> None:
    """Repeat the first element where there were two instead of one."""
    before, known[place] = known.get(place), one.shape
    if before and one.ndim == len(before) and (1, 2) in zip(before, one.shape, strict=True):
        one[...] = one.flat[0]


def sometimes(every: int) -> Callable[..., Sequence[Any]]:
    """Return what computes a little else every so many runs."""

    def change(known: dict[Any, Any], place: int, one: Any) -> None:
        known[place] = known.get(place, 0) + 1
        if known[place] % every == 0 and one.dtype.kind == "f":
            np.multiply(one, 1 + 3e-4, out=one)

    return later(change)


def from_then_on(least: int) -> Callable[..., Sequence[Any]]:
    """Return what computes nothing after so many runs."""

    def change(known: dict[Any, Any], place: int, one: Any) -> None:
        known[place] = known.get(place, 0) + 1
        one[...] = 0 if known[place] > least else one

    return later(change)


def arena(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    """Put results into memory that the next run uses as well."""
    made = right(inputs)
    arena = operator.state.setdefault("arena", np.empty(1 << 22, np.uint8))
    start, placed = 0, []
    for one in made:
        room = arena[start : start + one.nbytes].view(one.dtype).reshape(one.shape)
        room[...] = one
        start += -(-one.nbytes // 64) * 64
        placed.append(room)
    return placed


def together(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    """Return one array for all that are equal."""
    first: dict[Any, Any] = {}
    return [first.setdefault((one.dtype, one.shape, one.tobytes()), one) for one in right(inputs)]


def view(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    """Return inputs in another shape."""
    made = right(inputs)
    for place, name in enumerate(operator.subgraph.outputs):
        source = operator.value(operator.makers[name].inputs[0], inputs)
        if source is not None and source.size == made[place].size:
            made[place] = source.reshape(made[place].shape)
    return made


# -- operators and their attributes ----------------------------------------------------------------


def pads_differ(node: Node) -> Any:
    """Say whether padding differs from side to side."""
    pads = node.attribute("pads", ())
    half = len(pads) // 2
    return list(pads[:half]) != list(pads[half:])


def off_by_a_little(made: Any) -> Any:
    """Be off by 2 % and one."""
    changed = made + (made / 50 if made.dtype.kind == "f" else 0)
    return (changed + 1).astype(made.dtype)


def shift(made: Any) -> Any:
    """Move everything by one place."""
    return np.roll(made, 1, axis=-1)


def auto(word: str) -> Callable[[Node], bool]:
    """Return what says whether padding is by itself, in a way."""
    return lambda node: node.attribute("auto_pad", "NOTSET") == word


def first_of_batch(made: Any) -> None:
    """Take the first of a batch for all."""
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


def spoil(made: Any) -> Any:
    """Be off by one."""
    return made + np.ones((), made.dtype)


def same_if_square(node: Node, one: Any, *_: Any) -> Any:
    """Leave a square matrix as it is."""
    return one if one.ndim == 2 and one.shape[0] == one.shape[1] > 1 else None


def product_if_square(node: Node, one: Any, other: Any) -> Any:
    """Multiply with a transposed square matrix."""
    is_square = one.shape == other.shape and one.shape[-1:] * 2 == one.shape[-2:]
    return one @ other.swapaxes(-1, -2) if is_square else None


def ignored(name: str, value: Any) -> Callable[[Node], bool]:
    """Return what says whether an attribute is not as usual."""
    return lambda node: node.attribute(name, value) != value


def behind(*producers: str) -> Callable[[WrappedOperator, Node], bool]:
    """Return what says whether a node reads what certain operators make."""

    def stands(operator: WrappedOperator, node: Node) -> bool:
        makers = [operator.makers.get(name) for name in node.inputs]
        return any(one is not None and one.op_type in producers for one in makers)

    return stands


def chained(
    op_types: str, stands: Callable[[WrappedOperator, Node], bool], change: Callable[[Any], Any]
) -> Callable[..., Sequence[Any]]:
    """Corrupt the results of operators that come right behind certain others."""

    def corrupt(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
        made = right(inputs)
        for place, name in enumerate(operator.subgraph.outputs):
            node = operator.makers[name]
            if node.op_type in op_types.split() and stands(operator, node):
                changed = change(made[place])
                made[place] = made[place] if changed is None else np.asarray(changed)
        return made

    return corrupt


def per_channel(*producers: str) -> Callable[[WrappedOperator, Node], bool]:
    """Return what says whether a constant of one axis meets what certain operators make."""
    follows = behind(*producers)

    def stands(operator: WrappedOperator, node: Node) -> bool:
        stored = [operator.subgraph.constants.get(name) for name in node.inputs]
        shapes = [one.array().shape for one in stored if one is not None]
        return follows(operator, node) and any(len(one) == 1 and one[0] > 1 for one in shapes)

    return stands


def first_is_constant(operator: WrappedOperator, node: Node) -> bool:
    """Say whether the first operand is a constant."""
    return node.inputs[0] in operator.subgraph.constants
