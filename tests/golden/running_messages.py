"""The messages of runs that end early, of operators that return what is not theirs, of batches."""

from collections.abc import Callable
from functools import partial

import numpy as np

import subgraphkit as sk
from subgraphkit.running.checking import Apart
from subgraphkit.running.messages import queue_full
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


def _fixed_batch() -> None:
    with sk.InferenceSession(model_of(_TEXT), "numpy") as session:
        sk.Batcher(session)


def _text_warmed_up() -> None:
    text = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
    with sk.InferenceSession(model_of(text), "numpy") as session:
        session.warm_up()


MESSAGES: dict[str, sk.SubgraphkitError | Callable[[], object]] = {
    "SGK138_deadline": partial(_run, sk.RunOptions(timeout_s=0)),
    "SGK139_cancelled": _cancelled,
    "SGK149_input_returned": partial(_returned, 0),
    "SGK149_returned_before": partial(_returned, 1),
    "SGK196_fixed_batch": _fixed_batch,
    "SGK197_text": _text_warmed_up,
    "SGK198_queue": queue_full(100),
}
