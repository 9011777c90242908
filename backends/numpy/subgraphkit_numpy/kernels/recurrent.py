"""Recurrent layers: RNN, GRU and LSTM, in both directions, with sequences of different lengths.

The products with the input are made for all time steps at once; only those with the state remain
inside the loop over time.

Source: ONNX operators ``RNN``, ``GRU`` and ``LSTM``, whose equations the step functions repeat;
``DynamicQuantizeLSTM`` of the domain ``com.microsoft``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.activation import ACTIVATIONS
from subgraphkit_numpy.kernels.elementwise import Block, in_blocks
from subgraphkit_numpy.kernels.integers import BytesFactor
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import pad_values, widen

Activation = Callable[[Array], Any]
State = tuple[Array, ...]
StepFunction = Callable[["_Cell", Array, State], State]


def _whole(make: Callable[..., Block], *parameters: float) -> Activation:
    return partial(in_blocks, make(*parameters))


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], Mapping[str, float]]]] = {
    "affine": (lambda a, b: lambda x: x * a + b, {"alpha": 1.0, "beta": 0.0}),
    "relu": (lambda: lambda x: np.maximum(x, 0), {}),
    "scaledtanh": (lambda a, b: lambda x: np.tanh(x * b) * a, {"alpha": 1.0, "beta": 1.0}),
    "tanh": (lambda: np.tanh, {}),
    # unlike the operator of that name, which leaves alpha out
    "thresholdedrelu": (lambda a: lambda x: np.where(x >= a, x, 0), {"alpha": 1.0}),
    **{
        name.lower(): (partial(_whole, ACTIVATIONS[name][0]), ACTIVATIONS[name][1])
        for name in ("Elu", "HardSigmoid", "LeakyRelu", "Sigmoid", "Softplus", "Softsign")
    },
}
"""By name in small letters: what makes an activation function, and its defaults."""


def _activations(site: Site, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return the activation functions of each direction; parameters are dealt out in order."""
    names = list(site.attribute("activations") or tuple(defaults) * directions)
    given = {word: list(site.attribute(f"activation_{word}") or ()) for word in ("alpha", "beta")}
    made = []
    for name in names:
        make, words = _FUNCTIONS[name.lower()]
        values = [given[word].pop(0) if given[word] else words[word] for word in words]
        made.append(make(*values))
    count = len(defaults)
    return [made[place : place + count] for place in range(0, len(made), count)]


@dataclass(frozen=True, slots=True)
class _Cell:
    """The weights and functions of one direction, as the step functions need them.

    Attributes:
        peepholes: Weights from the cell to the gates i, o, f; empty if there are none.
    """

    step: StepFunction
    linear_before_reset: bool
    coupled: bool
    limit: float | None
    functions: Sequence[Activation]
    recurrence: Any
    recurrence_bias: Array
    peepholes: Sequence[Array]

    def clip(self, x: Array) -> Array:
        limit = self.limit
        return x if limit is None else np.clip(x, x.dtype.type(-limit), x.dtype.type(limit))


def _rnn_step(cell: _Cell, x: Array, state: State) -> State:
    (f,) = cell.functions
    return (f(cell.clip(x + state[0] @ cell.recurrence + cell.recurrence_bias)),)


def _gru_step(cell: _Cell, x: Array, state: State) -> State:
    f, g = cell.functions
    (h,) = state
    n = cell.recurrence.shape[0]
    r_w, r_b = cell.recurrence, cell.recurrence_bias
    gates = f(cell.clip(x[:, : 2 * n] + h @ r_w[:, : 2 * n] + r_b[: 2 * n]))
    update, reset = gates[:, :n], gates[:, n:]
    if cell.linear_before_reset:
        hidden = reset * (h @ r_w[:, 2 * n :] + r_b[2 * n :])
    else:
        hidden = (reset * h) @ r_w[:, 2 * n :] + r_b[2 * n :]
    return ((1 - update) * g(cell.clip(x[:, 2 * n :] + hidden)) + update * h,)


def _lstm_step(cell: _Cell, x: Array, state: State) -> State:
    f, g, h = cell.functions
    hidden, memory = state
    n = cell.recurrence.shape[0]
    gates = x + hidden @ cell.recurrence + cell.recurrence_bias
    i, o, forget, c = (gates[:, k * n : (k + 1) * n] for k in range(4))
    p_i, p_o, p_f = cell.peepholes or (0, 0, 0)
    i = f(cell.clip(i + p_i * memory))
    forget = 1 - i if cell.coupled else f(cell.clip(forget + p_f * memory))
    memory = forget * memory + i * g(cell.clip(c))
    o = f(cell.clip(o + p_o * memory))
    # ONNX Runtime limits the gates, not the cell, and the specification leaves it open
    return (o * h(memory), memory)


_LAYERS: dict[str, tuple[StepFunction, int, tuple[str, ...]]] = {
    "RNN": (_rnn_step, 1, ("Tanh",)),
    "GRU": (_gru_step, 1, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, 2, ("Sigmoid", "Tanh", "Tanh")),
}
"""By operator: what makes a step, how many arrays its state has, and the default functions."""


@kernel(*_LAYERS)
def recurrent(site: Site) -> Made:
    """Run a recurrent layer over time."""
    run = _layer(site, site.node.op_type)

    def compute(x: Array, w: Array, r: Array, *optional: Any) -> Any:
        factors = (widen(weights).swapaxes(1, 2) for weights in (w, r))
        return run(x, *factors, *pad_values(optional, 5))

    return Kernel(compute, shares=True)


@kernel("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(site: Site) -> Made:
    """Run an LSTM whose input and state are quantised by their own ranges before products.

    As ONNX Runtime does on one thread: all time steps of the input have one range, and all examples
    of the state. On several threads it gives parts of a batch a range each.
    """
    run = _layer(site, "LSTM")

    def factors(given: Sequence[Any]) -> Iterator[list[BytesFactor]]:
        for places in ((1, 8, 9), (2, 10, 11)):  # weights, scales and zero points by direction
            rows = zip(*(given[place] for place in places), strict=True)
            yield [BytesFactor(*row) for row in rows]

    constants = [site.constant(place) for place in range(12)]
    known = list(factors(constants)) if site.settled(1, 2, 8, 9, 10, 11) else []

    def compute(*given: Any) -> Any:
        return run(given[0], *(known or factors(given)), *given[3:8])

    return Kernel(compute, shares=True)


def _layer(site: Site, kind: str) -> Callable[..., Any]:
    """Return what runs a layer over time.

    It takes the input, the two right factors by direction, and the other inputs of the operator.
    """
    step, state_count, defaults = _LAYERS[kind]
    direction = site.attribute("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = _activations(site, defaults, directions)
    is_linear, is_coupled = site.attribute("linear_before_reset"), site.attribute("input_forget")
    make_cell = partial(_Cell, step, bool(is_linear), bool(is_coupled), site.attribute("clip"))
    batch_first, wanted = site.attribute("layout", 0), site.output_count

    def run(x: Array, w: Any, r: Any, b: Array | None, lengths: Array | None, *rest: Any) -> Any:
        dtype = x.dtype
        given: list[Any] = [None if v is None else widen(v) for v in (x, *rest, b)]
        if batch_first:
            given[:3] = (None if v is None else v.swapaxes(0, 1) for v in given[:3])
        x, *states, peephole, b = given
        outputs, finals = [], []
        for place in range(directions):
            own = [None if s is None else s[place] for s in states[:state_count]]
            gates = w[place].shape[1]
            bias = np.zeros(2 * gates, x.dtype) if b is None else b[place]
            peepholes = () if peephole is None else np.split(peephole[place], 3)
            cell = make_cell(functions[place], r[place], bias[gates:], peepholes)
            product = multiply(x, w[place]) if isinstance(w, np.ndarray) else x @ w[place]
            backwards = direction == "reverse" or place == 1
            projected = product + bias[:gates]
            y, final = _over_time(cell, projected, own, lengths, backwards=backwards)
            outputs.append(y)
            finals.append(final)
        results = [np.stack(outputs, 1), *map(np.stack, zip(*finals, strict=True))]
        if batch_first:
            results = [results[0].transpose(2, 0, 1, 3), *(v.swapaxes(0, 1) for v in results[1:])]
        results = [np.ascontiguousarray(value).astype(dtype, copy=False) for value in results]
        return tuple(results[:wanted]) if wanted > 1 else results[0]

    return run


def _over_time(
    cell: _Cell, x: Array, given: Sequence[Array | None], lengths: Array | None, *, backwards: bool
) -> tuple[Array, State]:
    """Return the hidden state after every step, and the last state of every example."""
    steps, batch, _ = x.shape
    zero = np.zeros((batch, cell.recurrence.shape[0]), x.dtype)
    state: State = tuple(zero if value is None else value for value in given)
    y = np.zeros((steps, *zero.shape), x.dtype)
    for time in range(steps - 1, -1, -1) if backwards else range(steps):
        following = cell.step(cell, x[time], state)
        if lengths is None:
            state = following
            y[time] = state[0]
            continue
        # an example that is over keeps its state, and its output stays zero
        alive = (time < lengths)[:, None]
        state = tuple(np.where(alive, new, old) for new, old in zip(following, state, strict=True))
        y[time] = np.where(alive, state[0], 0)
    return y, state
