"""The messages of runs that end early, and of operators that return what is not theirs."""

from collections.abc import Callable
from functools import partial

import numpy as np

import subgraphkit as sk
from subgraphkit.running.checking import Apart
from subgraphkit.testing.small_models import model_of

_TEXT = "g (float[4] x) => (float[4] y) { y = Relu(x) }"
_X = np.ones(4, np.float32)


def _run(options: sk.RunOptions) -> None:
    with sk.InferenceSession(model_of(_TEXT), "numpy") as session:
        session.run(None, {"x": _X}, options)


def _cancelled() -> None:
    options = sk.RunOptions()
    options.cancel()
    _run(options)


def _returned(place: int) -> None:
    (subgraph,) = sk.partition(sk.bind(sk.load(model_of(_TEXT)), backend="numpy")).subgraphs
    apart = Apart(subgraph)
    before = np.ones(4, np.float32)
    apart((_X,), (before,))
    apart((_X,), ((_X, before[1:])[place],))


MESSAGES: dict[str, Callable[[], object]] = {
    "SGK138_deadline": partial(_run, sk.RunOptions(timeout_s=0)),
    "SGK139_cancelled": _cancelled,
    "SGK149_input_returned": partial(_returned, 0),
    "SGK149_returned_before": partial(_returned, 1),
}
