"""Models of a backend's claims: usual ones, and edge cases written anew with its operators.

The checks of the contract, of artefacts and of stress need any subgraph of the backend. They use
the first of the usual probes of which the backend takes a node. An edge case is a graph of cheap
nodes on ``float[4]``. A backend that takes none of them, or is made for others, has its own
instead. These have the element type and shape that it takes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Final

from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.cases import Outcome, Stopped
from subgraphkit.testing.probe_models import ProbeModel, all_probe_models
from subgraphkit.testing.small_models import ROWS, SmallModel
from subgraphkit.testing.subject import Subject

NOTHING: Final = (
    "it claims none of the models it was offered, alone, in other types, ranks and sizes, nor in "
    "chains; `subgraphkit plan MODEL --backend NAME` says why it refuses nodes"
)

_AXES_OF_PICTURES: Final = 4

_ROWS_PER_IMAGE: Final = 64
_USUAL: Final = (
    *("Gemm-Relu", "Conv-Relu", "MatMul", "Add-Relu-Mul", "Softmax", "MaxPool", "Add", "Transpose"),
)
"""Lines of the table that most backends take one of; most revealing first."""


@lru_cache(maxsize=1)
def usual_models() -> Sequence[ProbeModel]:
    """Return the probe models that every backend is asked about first."""
    known = {one.label: one for one in all_probe_models()}
    return [known[label] for label in _USUAL]


def model_taken(subject: Subject, rows: int = ROWS) -> SmallModel:
    """Return a usual or claimed model with a node the backend takes; Stopped if it takes none."""
    images = max(1, rows // _ROWS_PER_IMAGE)
    for probe in chain(usual_models(), _heavy_first(subject)):
        larger = probe.with_rows(rows if len(probe.shape) < _AXES_OF_PICTURES else images)
        for one in dict.fromkeys((larger, probe)):
            if _takes(subject, one.model()):
                return one.model()
    raise Stopped(Outcome.UNCLAIMED, NOTHING)


def models_taken(subject: Subject) -> Iterator[SmallModel]:
    """Yield models with a node the backend takes, the second of other operators; else Stopped."""
    first = model_taken(subject)
    yield first
    known = {node.op_type for node in first.proto.graph.node}
    probes = (one for one in _heavy_first(subject) if known.isdisjoint(one.operators))
    yield from (one.model() for one in islice(probes, 1))


def _heavy_first(subject: Subject) -> list[ProbeModel]:
    """Return its claims that onnx's own results can check, the heavy first."""
    claims = sorted(subject.claims, key=lambda probe: not probe.variant.is_heavy)
    return [probe for probe in claims if probe.rows is not None]


def _takes(subject: Subject, model: SmallModel) -> bool:
    try:
        partitioning = subject.partition(subject.bind(model.proto))
    except SubgraphkitError as error:
        raise Stopped(Outcome.FAIL_PROBE, str(error)) from error
    return bool(subject.nodes_taken(partitioning))


_ROLES: Final = ("Relu", "Sigmoid", "Tanh")
_PLAIN: Final = frozenset({*_ROLES, "Add", "Mul", "Carry", "If", "Loop", "Identity", "Constant"})
"""The operators of edge cases that others may stand for; types of values leave them a choice."""
_OPERATOR: Final = re.compile(r"= (?:[\w.]+\.)?([A-Z]\w*)\s*[<(]")
_UNARY: Final = re.compile(rf"(\w+) = ({'|'.join(_ROLES)})\((\w+)\)")
_DECLARED: Final = re.compile(r"(\)\s*)(?:<([^<>{}]*)>\s*)?\{")
_TYPED: Final = re.compile(r"\b(?:float|double|float16|u?int\d+|bool|string)\[[^\]]*\]")
_NUMBERS: Final = re.compile(r"\] \{[\d.]")
"""Values of a constant, which are of one type and shape."""
_LOGICAL: Final = "bool"
_FOR_LOGICAL: Final = {"Add": "Or", "Mul": "And"}


@dataclass(frozen=True)
class Substitution:
    """Probes of one element type and shape, in the places of an edge case's Relu, Sigmoid, Tanh."""

    probes: tuple[ProbeModel, ...]

    @property
    def name(self) -> str:
        """Their kinds."""
        return ", ".join(dict.fromkeys(probe.name for probe in self.probes))

    @property
    def opset(self) -> int:
        """The operator set in which all of them are defined."""
        return max(probe.variant.opset for probe in self.probes)

    def of(self, text: str, *, shares: bool = False) -> str:
        """Write an edge case anew."""
        types, operators = set(_TYPED.findall(text)), set(_OPERATOR.findall(text))
        open_ = "float[n,4]" in types
        plain = types <= {"float[n,4]" if open_ else "float[4]"} and operators <= _PLAIN
        if not plain or not _UNARY.search(text) or _NUMBERS.search(text):
            return ""
        first = self.probes[0].with_rows(None) if open_ else self.probes[0]
        if first.element_type == _LOGICAL:
            text = re.sub(r"\b(Add|Mul)\b", lambda found: _FOR_LOGICAL[found[1]], text)
        weights: dict[str, None] = {}

        def write_nodes(found: re.Match[str]) -> str:
            target, role, source = found.groups()
            probe = self.probes[_ROLES.index(role) % len(self.probes)]
            together = f"_of_{role}" if shares else ""
            declared, nodes = probe.between(source, target, f"_of_{target}", shared=together)
            weights.update(dict.fromkeys(declared))
            return nodes

        text = _TYPED.sub(first.type, _UNARY.sub(write_nodes, text))
        return _DECLARED.sub(lambda found: _with(weights, found), text, count=1)


def _with(weights: Iterable[str], found: re.Match[str]) -> str:
    declared = ", ".join(filter(None, ((found[2] or "").strip(), *weights)))
    return f"{found[1]}<{declared}> {{" if declared else found[0]


def substitution_of(subject: Subject) -> Substitution | None:
    """Return the operators for edge cases of a backend, first one that it is made for."""
    claims = sorted(subject.claims, key=lambda probe: (not probe.variant.is_heavy, probe.times))
    if not claims:
        return None
    lead = claims[0]
    fitting = [one for one in claims if one.type == lead.type and one.times == lead.times]
    others = [one for one in fitting if one.operators != lead.operators]
    return Substitution((lead, *others[:1], lead))
