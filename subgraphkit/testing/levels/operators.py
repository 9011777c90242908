"""Level 3, operators: the official node cases of ONNX, each in several forms.

*alone* is the model of one node that ONNX has. *sandwiched* is between nodes of a foreign backend:
every input and output crosses a boundary, in the least convenient layout. *folded* has the inputs
behind the first stored as initializers. Function bodies (``_expanded``) are run alone and count for
no operator, for a backend may take their nodes without knowing the function.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import onnx

from subgraphkit.running import Session
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.comparison import DRAWING, difference_of_draws, draws, repeat_rows
from subgraphkit.testing.execution import Part, batch_key
from subgraphkit.testing.foreign import beside_foreign, is_own
from subgraphkit.testing.official_cases import OfficialCase, official_cases
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.variants import VARIANTS, fold_inputs, foldable, sandwich, sandwiched_feeds
from subgraphkit.types import DataType

_HOLDS_BODIES: Final = frozenset({"If", "Loop", "Scan"})
_STATED: Final = "Constant"
"""The operator that nobody is offered: the core reads its value."""


def cases(_: Subject) -> Iterable[Case]:
    """Build the cases of this level."""
    for case in official_cases("node"):
        for variant in VARIANTS[:1] if case.is_expanded else VARIANTS:
            if variant != "folded" or foldable(case.model):
                yield _case(case, variant)


def _case(case: OfficialCase, variant: str) -> Case:
    operator = "" if case.is_expanded else case.operator
    versions = {entry.domain: entry.version for entry in case.model.opset_import}
    return Case(
        id=f"L3/{case.operator}/{case.name}/{variant}",
        run=partial(_run, case, variant),
        operator=operator,
        domain=case.domain,
        version=versions.get(case.domain, 0),
        dtypes=tuple(dict.fromkeys(_label_of(value.type) for value in case.model.graph.input)),
        needs=("control_flow",) if case.operator in _HOLDS_BODIES else (),
        offers=case.operator != _STATED,
        batch_key=_batch_key_of(case, variant),
        part=partial(_part, case, variant),
    )


def _batch_key_of(case: OfficialCase, variant: str) -> str:
    """Return the common key of cases in one model; empty if one must be alone."""
    if case.operator in {_STATED, *DRAWING} or case.data_count != 1:
        return ""
    return (key := batch_key(case.model)) and f"{variant} {key}"


def _part(case: OfficialCase, variant: str) -> Part:
    ((inputs, expected),) = case.data_sets()
    return *_as_variant(variant, case.model, case.feeds(inputs)), expected


def _as_variant(
    variant: str, model: onnx.ModelProto, feeds: Mapping[str, Any]
) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    if variant == "sandwiched":
        return sandwich(model), sandwiched_feeds(feeds)
    return fold_inputs(model, feeds) if variant == "folded" else (model, feeds)


def _label_of(type_: onnx.TypeProto) -> str:
    """Return the element type, also of a sequence or an optional."""
    while not type_.HasField("tensor_type"):
        type_ = getattr(type_, type_.WhichOneof("value")).elem_type
    return DataType(type_.tensor_type.elem_type).label


def _run(case: OfficialCase, variant: str, subject: Subject) -> Finding:
    found = [_run_set(case, variant, subject, *data) for data in case.data_sets()]
    worst = next((finding for finding in found if finding.is_wrong), found[0])
    if case.operator == _STATED and worst.outcome is Outcome.UNCLAIMED:
        return Finding(Outcome.PASSED, worst.detail)
    return worst


def _run_set(
    case: OfficialCase, variant: str, subject: Subject, inputs: list[Any], expected: list[Any]
) -> Finding:
    model, fed = case.model, case.feeds(inputs)
    if is_random := draws(case, fed):
        model, fed = repeat_rows(model, fed)
    model, feeds = _as_variant(variant, model, fed)
    road = beside_foreign(subject.choice) if variant == "sandwiched" else {}
    if not is_random:
        return subject.check_model(model, [(feeds, expected)], of=is_own, **road)

    def check(session: Session) -> Finding | None:
        results = subject.run(session, feeds)
        found = difference_of_draws(case, fed, results, subject.declarations.tolerance_for)
        return None if found is None else Finding(Outcome.wrong_at(found.stage), found.text)

    return subject.check(model, check, of=is_own, **road)
