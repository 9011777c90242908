"""Predictions of nodes' costs on a backend, which ``auto`` uses if no placement is stored.

A node costs something by itself, and something for each operation, or for each byte if memory is
the bound. Both are in a table by class of operator and backend, measured once by
``benchmarks/backends/bench_operators.py``. Nothing else moves a prediction: ``tune`` measures one
model, and says nothing of others. Predictions rank backends and weigh small regions; they are no
measurement.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.layers import processor_name
from subgraphkit.configuration.selection import AUTO, NONE
from subgraphkit.ir import Node, boundary
from subgraphkit.ir.costs import is_open, work_of
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.claiming.graph import PartitionState, Region
from subgraphkit.texts import count_of
from subgraphkit.types import Shape

NODE: Final = "node"
"""The class of the cost of every node, however small."""

RUN: Final = "run"
"""The class of the cost of a run of one region, however small."""

OPEN: Final = "open node"
"""The class of the cost of every node with open sizes: each run has to find its shapes."""

# Seconds for 10**9 operations or bytes on two quiet threads of an x86-64 processor with AVX2. The
# last rows are seconds for one node on one thread, and for a run. OpenVINO's for open sizes is the
# median of 12 networks, and the steps of a quantisation are those of 5 that ONNX Runtime's tool
# quantised. None stands for a class that the backend does not take.
_BACKENDS: Final = ("numpy", "onnxruntime", "openvino", "onednn", "tvm")
_MEASURED: Final[Mapping[str, tuple[float | None, ...]]] = {
    "convolution": (0.0093, 0.0061, 0.0063, 0.0074, 0.13),
    "volume": (0.014, 0.012, 0.0063, 0.0063, 0.13),
    "rows": (0.018, 0.0085, 0.0063, 0.0063, 0.13),
    "transposed": (0.04, 0.0157, 0.01, 0.0085, 0.13),
    "depthwise": (0.16, 0.021, 0.03, 0.038, 0.18),
    "depthwise rows": (0.3, 0.13, 0.06, 0.3, 0.04),
    "product": (0.0076, 0.0062, 0.0061, 0.0068, 0.032),
    "short product": (0.018, 0.0065, 0.0061, 0.0068, None),
    "recurrent": (0.07, 0.021, 0.026, None, None),
    "quantized": (0.81, 0.0057, None, None, None),
    "elementwise": (0.13, 0.058, 0.03, None, 0.37),
    "fourier": (0.19, 0.99, None, None, None),
    "power": (0.87, 4.3, 0.13, None, 1.6),
    "slope": (2.4, 1.2, 0.031, 0.22, 0.08),
    "logarithm": (0.8, 4.9, 0.25, None, 2.4),
    "exponential": (1.2, 1.4, 0.4, None, 2.8),
    "sine": (0.4, 1.2, 2.8, None, 2.7),
    "short": (1.5, 0.08, 0.05, None, 0.2),
    "short convolution": (0.0125, 0.0085, 0.0063, None, 0.13),
    "short curve": (8.0, 2.0, 0.1, None, 0.6),
    "choice": (3.0, 3.0, 0.3, None, 2.0),
    "extreme": (0.2, 0.6, 3.8, None, None),
    "running sum": (7.0, 0.2, 5.0, None, 0.2),
    "sampling": (7.0, 5.8, 1.0, None, 1.5),
    "columns": (0.7, 1.3, 0.1, None, 0.2),
    "cubic": (0.6, 50.0, 8.0, None, 2.0),
    "steps": (0.3, 0.02, 0.3, None, None),
    "movement": (0.16, 0.018, 0.022, None, 0.047),
    NODE: (8.7e-7, 4.6e-7, 5.8e-7, 5e-6, 3.2e-7),
    RUN: (8e-6, 1.1e-5, 4.1e-5, 7.8e-5, 1.1e-5),
    OPEN: (0.0, None, 2.5e-6, None, None),
}
_COSTS: Final[Mapping[str, Mapping[str, float]]] = {
    kind: {name: cost for name, cost in zip(_BACKENDS, row, strict=True) if cost is not None}
    for kind, row in _MEASURED.items()
}

_UNITS: Final = 1e9

# On one thread libraries take twice that. NumPy does so for these classes; all else it computes on
# one thread in any case.
_ALONE: Final = 2.0
_ALONE_ANYWAY: Final = 1.2
_SHARED: Final = frozenset(
    {"convolution", "product", "rows", "short product", "transposed", "volume"}
)
# The backend that has every class.
_TOTAL: Final = "numpy"

# Seconds for one more step of a run where nobody measured it, and for each value that crosses.
_STEP: Final = 20e-6
_VALUE: Final = 5e-6

# Cuts between regions prevent fusion. Each costs this part of a run inside the regions. Ten
# networks, cut in 2 to 14 regions and run by one library, lost 4 to 35 %.
_CUTTING: Final = 0.05

# The part of the work from which on a region is handed over in any case.
_SMALL: Final = 0.01

# A backend overtakes one of higher priority if its predicted time is less than this part of the
# other's. The second number is for cases with less to gain: short runs, below the third number in
# seconds, and one thread without wide vectors. It is also for open sizes, of which less is known:
# Magika took 2.1 times the best where 0.86 was predicted. Fusion is not in the predictions, which
# may be off by a fifth. With 0.8, 23 networks, each taken whole by a library, took 1.059 times the
# best in the mean and 1.36 at most, on two threads. With 0.95, they took 1.019 and 1.19. On one
# thread with AVX2, 0.95 takes more than 0.8. With AVX-512, 28 networks take 1.02 in the mean by
# 0.95, and 1.08 by 0.8.
MARGIN: Final = 0.95
_MARGIN_OF_UNSURE: Final = 0.8
_LEAST: Final = 1e-3


def _is_open_picture(shape: Shape | None) -> bool:
    """Say whether the input is pictures of open size: the cost of pixels outweighs the nodes'."""
    match shape:
        case (_, 1 | 3, height, width):
            return not (isinstance(height, int) and isinstance(width, int))
        case _:
            return False


class Predictions:
    """Predictions for one bound model."""

    def __init__(self, bound: BoundModel, settings: ResolvedConfig) -> None:
        self._bound = bound
        self._settings = settings
        self._names = frozenset(_COSTS[NODE])
        self._work: dict[int, tuple[str, int]] = {}
        self.left: Collection[int] = ()
        """Nodes that only a fallback backend would run so far."""
        self.divided = 0.0
        """The seconds of a run as it is divided so far; 0 where that is not known."""

    def of(self, backend: str, nodes: Iterable[int]) -> float | None:
        """Return the seconds that nodes would take; None for a backend that was never measured."""
        if backend not in self._names:
            return None
        return self._seconds(backend, self._by_class(nodes))

    def rank_backends(self, names: Sequence[str]) -> list[str]:
        """Return backends in the order to try them: those measured change places by prediction.

        ``names``: The backends by priority; one that was never measured keeps its place.
        """
        known = [name for name in names if name in self._names]
        if len(known) < 2:  # noqa: PLR2004 (nobody to change places with)
            return list(names)
        # If one counted element may be many, a run may have any length.
        opens = any(is_open(Node(self._bound, node)) for node in self._bound.order)
        extra = {OPEN: self._whole[NODE]} if opens else {RUN: 1}
        fed = map(self._bound.shape, self._bound.inputs)
        if "convolution" in self._whole and any(map(_is_open_picture, fed)):
            extra = {NODE: 0}
        predicted = {name: self._seconds(name, {**self._whole, **extra}) for name in known}
        is_slim = self._settings.threads == 1 and "avx512f" not in processor_name()
        is_unsure = opens or is_slim or min(predicted.values()) < _LEAST
        margin = _MARGIN_OF_UNSURE if is_unsure else MARGIN
        order: list[str] = []
        for name in known:
            slower = (predicted[name] < margin * predicted[other] for other in order)
            order.insert([*slower, True].index(True), name)
        following = iter(order)
        return [next(following) if name in self._names else name for name in names]

    def candidates(self, names: Sequence[str], fallback: str) -> Iterator[str]:
        """Yield the backends worth opening, each when it is its turn and nodes are ``left``."""
        for name in self.rank_backends(names):
            if name == fallback or self._can_win(name, fallback):
                yield name

    def _can_win(self, name: str, fallback: str) -> bool:
        if not self.left or fallback in {AUTO, NONE}:  # nobody else runs the rest
            return True
        here = self.of(fallback, self.left) or self._by_total(self.left)
        there = self.of(name, self.left) or 0.0
        if there < here and self._gains(name, [fallback], self.left, crossing=2):
            return True
        return (self.of(name, self._bound.order) or math.inf) < self.divided

    def total(self, state: PartitionState) -> float | None:
        """Return the seconds of a run as it was divided; None where they cannot be predicted."""
        seconds = 0.0
        for region in state.regions:
            name = state.properties[region.claim].claim.backend.name
            if (own := self.of(name, state.nodes_of(region))) is None:
                return None
            seconds += own + (_COSTS[RUN].get(name, _STEP) if len(state.regions) > 1 else 0.0)
        return seconds * (1 + _CUTTING * (len(state.regions) - 1))

    def worth(self, state: PartitionState, region: Region) -> Refusal | None:
        """Return why a region is not worth handing over; None if it is."""
        claims = [one.claim for one in state.properties[region.claim :]]
        name = claims[0].backend.name
        later = [one.backend.name for one in claims if one.backend.name != name]
        nodes = state.nodes_of(region)
        edge = boundary(self._bound, nodes)
        crossing = len(edge.inputs) + len(edge.outputs)
        if not later or self._gains(name, later, nodes, crossing):
            return None
        values = "1 value crosses" if crossing == 1 else f"{crossing} values cross"
        share = self._share(nodes)
        return Refusal(
            "not_worth",
            f"not worth handing over: {count_of(len(nodes), 'node')}, {share:.2%} of the work, "
            f"{values}",
        )

    def _gains(
        self, name: str, elsewhere: Sequence[str], nodes: Collection[int], crossing: int
    ) -> bool:
        """Say whether nodes are better off on a backend than on the best of others.

        A large part is, unless it costs more to hand over than all it takes elsewhere.
        """
        rest = min(self.of(one, nodes) or self._by_total(nodes) for one in elsewhere)
        price = _COSTS[RUN].get(name, _STEP) + crossing * _VALUE
        if self._share(nodes) < _SMALL:
            return rest - (self.of(name, nodes) or 0.0) > price
        # An open size counts as one element, but may be many.
        return rest > price or any(is_open(Node(self._bound, node)) for node in nodes)

    def _by_total(self, nodes: Iterable[int]) -> float:
        return self.of(_TOTAL, nodes) or 0.0

    def _share(self, nodes: Iterable[int]) -> float:
        return self._by_total(nodes) / (self._seconds(_TOTAL, self._whole) or 1.0)

    def _seconds(self, backend: str, units: Mapping[str, int]) -> float:
        seconds, is_alone = 0.0, self._settings.threads == 1
        for kind, count in units.items():
            row = _COSTS.get(kind, {})
            by = backend if backend in row else _TOTAL
            alone = _ALONE if by != _TOTAL or kind in _SHARED else _ALONE_ANYWAY
            scale = (alone if is_alone else 1.0) / _UNITS
            seconds += count * row.get(by, 0.0) * (1.0 if kind in {NODE, OPEN, RUN} else scale)
        return seconds

    @cached_property
    def _whole(self) -> Mapping[str, int]:
        """The work of the whole model by class."""
        return self._by_class(self._bound.order)

    def _by_class(self, nodes: Iterable[int]) -> dict[str, int]:
        known, units = self._work, {NODE: 0}
        for node in nodes:
            if not self._bound.is_constant_node(node):
                if node not in known:
                    known[node] = work_of(Node(self._bound, node))
                kind, count = known[node]
                units[NODE] += 1
                units[kind] = units.get(kind, 0) + count
        return units
