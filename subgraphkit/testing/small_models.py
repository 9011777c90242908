"""Small models, of which every backend that does anything should take one.

The checks of the contract, of artefacts and of stress need a subgraph of the backend, whatever it
is; they use the first of these models of which the backend takes a node.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from subgraphkit.comparing.offers import OFFERS, Offer
from subgraphkit.comparing.small_models import ROWS, SmallModel, model_of
from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.cases import Outcome, Stopped
from subgraphkit.testing.subject import Subject

__all__ = [
    "NOTHING",
    "model_taken",
    "models_taken",
    "small_models",
]

NOTHING: Final = (
    f"it claims none of the {len(OFFERS)} models it was offered, alone, in other types, ranks and "
    "sizes, nor in chains; `subgraphkit plan MODEL --backend NAME` says why it refuses nodes"
)
"""What is said of a backend that takes nothing at all."""

_AXES_OF_PICTURES: Final = 4

_ROWS_PER_IMAGE: Final = 64
_TEXTS: Final = (
    """mlp (float[N,16] x) => (float[N,8] y)
       <float[16,32] w1, float[32] b1, float[32,8] w2, float[8] b2>
       { h = Gemm(x, w1, b1) r = Relu(h) y = Gemm(r, w2, b2) }""",
    """convolution (float[I,3,16,16] x) => (float[I,8,16,16] y)
       <float[8,3,3,3] w, float[8] b>
       { c = Conv<pads=[1,1,1,1], kernel_shape=[3,3]>(x, w, b) y = Relu(c) }""",
    """product (float[N,16] x) => (float[N,8] y)
       <float[16,8] w>
       { y = MatMul(x, w) }""",
    """elementwise (float[N,8] x) => (float[N,8] y)
       <float[8] w>
       { a = Add(x, w) m = Mul(a, x) r = Relu(m) y = Sigmoid(r) }""",
    """normalised (float[N,8] x) => (float[N,8] y)
       { s = Softmax<axis=1>(x) y = Sqrt(s) }""",
    """pooled (float[I,3,8,8] x) => (float[I,3,4,4] y)
       { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }""",
    """integers (int64[N,8] x) => (int64[N,8] y)
       { a = Add(x, x) y = Mul(a, x) }""",
    """moved (float[N,8] x) => (float[8,N] y)
       { t = Transpose<perm=[1,0]>(x) y = Identity(t) }""",
)


@lru_cache(maxsize=2)
def small_models(rows: int = ROWS) -> tuple[SmallModel, ...]:
    """Return the models, the most revealing first.

    Args:
        rows: Size of the first axis of ``x``; of pictures there are fewer.
    """
    images = max(1, rows // _ROWS_PER_IMAGE)
    texts = (text.replace("[N,", f"[{rows},").replace(",N]", f",{rows}]") for text in _TEXTS)
    return tuple(SmallModel(model_of(text.replace("[I,", f"[{images},"))) for text in texts)


def model_taken(subject: Subject, rows: int = ROWS) -> SmallModel:
    """Return the first model of which the backend takes a node, offers of the catalogue behind.

    Args:
        subject: The backend.
        rows: Size of the first axis of ``x``, where the backend leaves a choice.

    Raises:
        Stopped: It takes none of any (``UNCLAIMED``), or fails when it is asked.
    """
    for model in small_models(rows):
        if _takes(subject, model):
            return model
    images = max(1, rows // _ROWS_PER_IMAGE)
    for offer in _in_turn(subject):
        larger = offer.with_rows(rows if len(offer.shape) < _AXES_OF_PICTURES else images)
        for one in (larger.model(), offer.model()):
            if _takes(subject, one):
                return one
    raise Stopped(Outcome.UNCLAIMED, NOTHING)


def models_taken(subject: Subject) -> Iterator[SmallModel]:
    """Yield models of which the backend takes a node: the first, and one of other operators.

    Raises:
        Stopped: As for ``model_taken``.
    """
    first = model_taken(subject)
    yield first
    known = {node.op_type for node in first.proto.graph.node}
    offers = (one for one in _in_turn(subject) if known.isdisjoint(one.operators))
    yield from (one.model() for one in islice(offers, 1))


def _in_turn(subject: Subject) -> list[Offer]:
    """Return what it claims, the heavy first, that can be compared with onnx's own results."""
    claims = sorted(subject.claims, key=lambda offer: not offer.form.is_heavy)
    return [offer for offer in claims if offer.rows is not None]


def _takes(subject: Subject, model: SmallModel) -> bool:
    try:
        partitioning = subject.partitioned(subject.bound(model.proto))
    except SubgraphkitError as error:
        raise Stopped(Outcome.FAIL_PROBE, str(error)) from error
    return bool(subject.nodes_taken(partitioning))
