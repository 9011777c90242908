"""If, Loop, Scan and SequenceMap: bodies compiled once, captured values passed as arguments.

Source: ONNX operators ``If``, ``Loop``, ``Scan`` (versions 8 and later), ``SequenceMap``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.leases import let_others_by
from subgraphkit_numpy.kernels.limits import check_size, output_limit
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

Body = Callable[..., tuple[Any, ...]]
_OFTEN: Final = 7
"""A loop looks once in 8 turns whether it is another's turn: where these bits are 0."""


def _single(function: Callable[..., tuple[Any, ...]], count: int) -> Callable[..., Any]:
    """Return what a node with ``count`` outputs returns."""
    if count == 1:
        return lambda *values: function(*values)[0]
    return lambda *values: function(*values)[:count]


@kernel("If", aliases=True)
def if_(site: Site) -> Made:
    """Run one of two bodies."""
    then, then_places = site.body("then_branch")
    otherwise, else_places = site.body("else_branch")

    def compute(condition: Array, *captured: Any) -> tuple[Any, ...]:
        if condition.item():
            return then(*[captured[place] for place in then_places])
        return otherwise(*[captured[place] for place in else_places])

    return _single(compute, site.output_count)


@kernel("Loop", aliases=True)
def loop(site: Site) -> Made:
    """Run a body a number of times or until it says stop; collect what it hands out."""
    body, _ = site.body("body")
    carried = max(0, len(site.node.inputs) - 2)
    has_count, has_condition = site.has(0), site.has(1)
    given = site.input_count
    limit = site.scope.options.max_loop_iterations
    empty = _empty_outputs(site, 1 + carried)
    most = output_limit(site.scope)

    def compute(*values: Any) -> tuple[Any, ...]:
        operands, outer = values[:given], values[given:]
        count = int(operands[0].item()) if has_count else None
        condition: Any = operands[1] if has_condition else np.array(True)  # noqa: FBT003 (data, not a switch)
        states = [*operands[2:], *(None,) * (carried - len(operands[2:]))]
        collected = _Collected(empty, most)
        iteration = 0
        while condition.item() and (count is None or iteration < count):
            if limit and iteration >= limit:
                raise RuntimeError(f"Loop exceeded {limit} iterations (max_loop_iterations)")
            if not iteration & _OFTEN:
                let_others_by()
            results = body(np.array(iteration, np.int64), condition, *states, *outer)
            condition, states = results[0], list(results[1 : 1 + carried])
            collected.add(results[1 + carried :])
            iteration += 1
        return (*states, *collected.stack_columns((0,) * len(empty)))

    return _single(compute, site.output_count)


def _empty_outputs(site: Site, first: int) -> list[Array]:
    """Return what is collected at a time, as far as types tell, for bodies that never run."""
    body, empty = site.node.bodies["body"], []
    for place, output in enumerate(body.outputs[first:], first - (site.node.op_type == "Loop")):
        type_, made = body.types.get(output), site.node.output_type(place)
        dims, dtype = getattr(type_, "shape", None), getattr(type_, "dtype", None)
        dims = (getattr(made, "shape", None) or ())[1:] if dims is None else dims
        sizes = [dim if isinstance(dim, int) else 0 for dim in dims]
        empty.append(np.empty(sizes, dtype.numpy if dtype else np.float32))
    return empty


class _Collected:
    """The values a body made so far, a list per output; ``most`` bytes is the limit of all."""

    def __init__(self, empty: Sequence[Array], most: int) -> None:
        self.columns: list[list[Any]] = [[] for _ in empty]
        self._empty, self._most, self._held = empty, most, 0

    def add(self, values: Sequence[Any]) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
            self._held += value.nbytes
        check_size((self._held,), np.dtype(np.uint8), self._most)

    def stack_columns(self, axes: Sequence[int]) -> list[Array]:
        return [
            np.stack(values, axis) if values else np.stack([one], axis).take([], axis)
            for values, one, axis in zip(self.columns, self._empty, axes, strict=True)
        ]


def _full(values: Sequence[int] | None, count: int) -> tuple[int, ...]:
    given = tuple(values or ())
    return given + (0,) * (count - len(given))


class _Scan:
    """A scan over slices of its inputs."""

    def __init__(self, site: Site, body: Body, state_count: int) -> None:
        graph = site.node.bodies["body"]
        self.body = body
        self.state_count = state_count
        self.input_count = site.attribute("num_scan_inputs")
        self.output_count = len(graph.outputs) - state_count
        self.in_axes = _full(site.ints("scan_input_axes"), self.input_count)
        self.in_backwards = _full(site.ints("scan_input_directions"), self.input_count)
        self.out_axes = _full(site.ints("scan_output_axes"), self.output_count)
        self.out_backwards = _full(site.ints("scan_output_directions"), self.output_count)
        self.empty = _empty_outputs(site, state_count)
        self.most = output_limit(site.scope)

    def run(self, states: Sequence[Any], scanned: Sequence[Array], outer: Sequence[Any]) -> Any:
        """Return the final states and what was collected."""
        slices = [
            np.moveaxis(array, axis, 0)[:: -1 if backwards else 1]
            for array, axis, backwards in zip(scanned, self.in_axes, self.in_backwards, strict=True)
        ]
        lengths = [array.shape[0] for array in slices]
        if len(set(lengths)) > 1:
            raise ValueError(f"the scanned inputs have lengths {lengths}, expected the same")
        collected = _Collected(self.empty, self.most)
        for step in range(lengths[0]):
            if not step & _OFTEN:
                let_others_by()
            results = self.body(*states, *[array[step, ...] for array in slices], *outer)
            states = results[: self.state_count]
            collected.add(results[self.state_count :])
        for place, backwards in zip(collected.columns, self.out_backwards, strict=True):
            if backwards:
                place.reverse()
        return (*states, *collected.stack_columns(self.out_axes))


@kernel("Scan", since=9, aliases=True)
def scan(site: Site) -> Made:
    """Run a body over slices of arrays, carrying state."""
    body, _ = site.body("body")
    count = site.input_count
    states = count - site.attribute("num_scan_inputs")
    scanning = _Scan(site, body, states)

    def compute(*values: Any) -> Any:
        return scanning.run(values[:states], values[states:count], values[count:])

    return _single(compute, site.output_count)


@kernel("Scan", until=8, aliases=True)
def scan_8(site: Site) -> Made:
    """Scan every example of a batch; inputs may be shorter than the longest of the batch."""
    body, _ = site.body("body")
    count = len(site.node.inputs)
    states = count - 1 - site.attribute("num_scan_inputs")
    scanning = _Scan(site, body, states)
    scanning.in_backwards = _full(site.ints("directions"), scanning.input_count)

    def compute(lengths: Array | None, *values: Any) -> tuple[Any, ...]:
        operands, outer = values[: count - 1], values[count - 1 :]
        size = operands[states].shape[1]
        rows = []
        for example in range(operands[0].shape[0]):
            length = size if lengths is None else int(lengths[example])
            scanned = [array[example, :length] for array in operands[states:]]
            results = scanning.run([s[example] for s in operands[:states]], scanned, outer)
            rows.append([*results[:states], *(_pad_rows(one, size) for one in results[states:])])
        return tuple(np.stack(column) for column in zip(*rows, strict=True))

    return _single(compute, site.output_count)


def _pad_rows(value: Array, size: int) -> Array:
    """Fill a collected output of a short example with zeros up to the longest."""
    return np.concatenate((value, np.zeros((size - len(value), *value.shape[1:]), value.dtype)))


@kernel("SequenceMap", aliases=True)
def sequence_map(site: Site) -> Made:
    """Run a body on every element of a sequence; further sequences go along with it."""
    body, _ = site.body("body")
    count = site.input_count
    output_count = site.output_count

    def compute(*values: Any) -> tuple[Any, ...]:
        first, others, outer = values[0], values[1:count], values[count:]
        lengths = [len(value) for value in values[:count] if isinstance(value, list)]
        if len(set(lengths)) > 1:
            raise ValueError(f"the sequences have lengths {lengths}, expected the same")
        rows = []
        for place, element in enumerate(first):
            along = [other[place] if isinstance(other, list) else other for other in others]
            rows.append(body(element, *along, *outer))
        if not rows:
            return ([],) * output_count
        return tuple(list(column) for column in zip(*rows, strict=True))

    return _single(compute, output_count)
