"""Recurrent layers: RNN, GRU and LSTM, in both directions, with sequences of different lengths.

The products with the input are made for all time steps at once; only those with the state remain
inside the loop over time.

Source: ONNX operators ``RNN``, ``GRU`` and ``LSTM``, whose equations the step functions repeat.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.activation import ACTIVATIONS
from subgraphkit_numpy.kernels.elementwise import Block, blocked
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import widened

Activation = Callable[[Array], Any]
State = tuple[Array, ...]
StepFunction = Callable[["_Cell", Array, State], State]


def _whole(make: Callable[..., Block], *parameters: float) -> Activation:
    return partial(blocked, make(*parameters))


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


class _Cell:
    """The weights and functions of one direction, as the step functions need them.

    Attributes:
        peepholes: Weights from the cell to the gates i, o, f; empty if there are none.
    """

    def __init__(
        self,
        recurrence: Array,
        recurrence_bias: Array,
        functions: Sequence[Activation],
        peepholes: Sequence[Array],
        site: Site,
    ) -> None:
        self.recurrence = recurrence.T
        self.recurrence_bias = recurrence_bias
        self.functions = functions
        self.peepholes = peepholes
        self.size = recurrence.shape[1]
        self.linear_before_reset = bool(site.attribute("linear_before_reset", 0))
        self.coupled = bool(site.attribute("input_forget", 0))
        self._limit = site.attribute("clip")

    def clip(self, x: Array) -> Array:
        limit = self._limit
        return x if limit is None else np.clip(x, x.dtype.type(-limit), x.dtype.type(limit))


def _rnn_step(cell: _Cell, x: Array, state: State) -> State:
    (f,) = cell.functions
    return (f(cell.clip(x + state[0] @ cell.recurrence + cell.recurrence_bias)),)


def _gru_step(cell: _Cell, x: Array, state: State) -> State:
    f, g = cell.functions
    (h,) = state
    n = cell.size
    r_w, r_b = cell.recurrence, cell.recurrence_bias
    gates = f(cell.clip(x[:, : 2 * n] + h @ r_w[:, : 2 * n] + r_b[: 2 * n]))
    update, reset = gates[:, :n], gates[:, n:]
    if cell.linear_before_reset:
        hidden = reset * (h @ r_w[:, 2 * n :] + r_b[2 * n :])
    else:
        hidden = (reset * h) @ r_w[:, 2 * n :] + r_b[2 * n :]
    candidate = g(cell.clip(x[:, 2 * n :] + hidden))
    return ((1 - update) * candidate + update * h,)


def _lstm_step(cell: _Cell, x: Array, state: State) -> State:
    f, g, h = cell.functions
    hidden, memory = state
    n = cell.size
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
    "GRU": (_gru_step, 3, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, 4, ("Sigmoid", "Tanh", "Tanh")),
}


@kernel(*_LAYERS)
def recurrent(site: Site) -> Made:
    """Run a recurrent layer over time."""
    step, _, defaults = _LAYERS[site.node.op_type]
    direction = site.attribute("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = _activations(site, defaults, directions)
    batch_first = bool(site.attribute("layout", 0))
    state_count = 2 if site.node.op_type == "LSTM" else 1
    wanted = site.output_count

    def compute(x: Array, w: Array, r: Array, *optional: Any) -> Any:
        given = [*optional, *[None] * (5 - len(optional))]
        b, lengths, rest = given[0], given[1], given[2:]
        dtype = x.dtype
        inputs = [None if v is None else widened(v) for v in (x, w, r, b, *rest)]
        x, w, r = (v for v in inputs[:3] if v is not None)
        states = [_moved(state, batch_first) for state in inputs[4 : 4 + state_count]]
        x = x.swapaxes(0, 1) if batch_first else x
        outputs, finals = [], []
        for place in range(directions):
            own = [None if s is None else s[place] for s in states]
            weights = (w[place], r[place], None if inputs[3] is None else inputs[3][place])
            peephole = inputs[6][place] if state_count > 1 and inputs[6] is not None else None
            cell, bias = _cell(weights, functions[place], peephole, site)
            projected = multiply(x, weights[0].T) + bias
            backwards = direction == "reverse" or place == 1
            y, final = _over_time(step, cell, projected, own, lengths, backwards=backwards)
            outputs.append(y)
            finals.append(final)
        results = [
            np.stack(outputs, 1),
            *(np.stack(column) for column in zip(*finals, strict=True)),
        ]
        if batch_first:
            results = [results[0].transpose(2, 0, 1, 3), *(v.swapaxes(0, 1) for v in results[1:])]
        results = [np.ascontiguousarray(value).astype(dtype, copy=False) for value in results]
        return tuple(results[:wanted]) if wanted > 1 else results[0]

    return Kernel(compute, shares=True)


def _moved(state: Array | None, batch_first: bool) -> Array | None:  # noqa: FBT001 (local)
    return state.swapaxes(0, 1) if state is not None and batch_first else state


def _cell(
    weights: tuple[Array, Array, Array | None],
    functions: Sequence[Activation],
    peephole: Array | None,
    site: Site,
) -> tuple[_Cell, Array]:
    """Return the cell of one direction, and the bias of its input."""
    _, r, b = weights
    gates = r.shape[0]
    bias = np.zeros(2 * gates, r.dtype) if b is None else b
    peepholes = () if peephole is None else tuple(np.split(peephole, 3))
    return _Cell(r, bias[gates:], functions, peepholes, site), bias[:gates]


def _over_time(
    step: StepFunction,
    cell: _Cell,
    x: Array,
    initial: Sequence[Array | None],
    lengths: Array | None,
    *,
    backwards: bool,
) -> tuple[Array, State]:
    """Return the hidden state after every step, and the last state of every example."""
    steps, batch, _ = x.shape
    zero = np.zeros((batch, cell.size), x.dtype)
    state: State = tuple(zero if value is None else value for value in initial)
    y = np.zeros((steps, batch, cell.size), x.dtype)
    order = range(steps - 1, -1, -1) if backwards else range(steps)
    for time in order:
        following = step(cell, x[time], state)
        if lengths is None:
            state = following
            y[time] = state[0]
            continue
        # an example that is over keeps its state, and its output stays zero
        alive = (time < lengths)[:, None]
        state = tuple(np.where(alive, new, old) for new, old in zip(following, state, strict=True))
        y[time] = np.where(alive, state[0], 0)
    return y, state
