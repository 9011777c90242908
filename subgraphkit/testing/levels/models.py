"""Level 4, models: those that ONNX ships, and a directory of the user's own.

ONNX stores expected outputs with its models. Its nine real networks have nearly equal weights, so
they answer the same on any input, and rounding decides. They run with seeded random weights
instead, and are compared with the NumPy backend.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import onnx

from subgraphkit.comparing import random_feeds
from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.comparison import REFERENCE, reference_results
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import OfficialCase, official_cases, stored_data
from subgraphkit.testing.subject import DataSet, Subject

_KINDS: Final = ("simple", "pytorch-converted", "pytorch-operator")
_LARGE: Final = 5.0  # how much longer than usual a real network may take


def cases(subject: Subject) -> Iterable[Case]:
    """Build the cases of this level."""
    for kind in _KINDS:
        for case in official_cases(kind):
            yield Case(f"L4/{kind}/{case.name}", partial(_run_official, case))
    for name in LIGHT_MODELS:
        yield Case(f"L4/seeded/{name}", partial(_run_seeded, name), timeout_factor=_LARGE)
    if subject.models:
        folder = Path(subject.models)
        for path in sorted(folder.rglob("*.onnx")):
            place = path.parent if path.name == "model.onnx" else path.with_suffix("")
            name = place.relative_to(folder).as_posix()
            yield Case(f"L4/own/{name}", partial(_run_own, path), timeout_factor=_LARGE)


def _run_official(case: OfficialCase, subject: Subject) -> Finding:
    data = [(case.feeds(inputs), outputs) for inputs, outputs in case.data_sets()]
    return subject.check_model(case.model, data, least=(case.rtol, case.atol))


def _run_seeded(name: str, subject: Subject) -> Finding:
    if subject.name == REFERENCE:
        return Finding(Outcome.SKIP, "the others are held against it here")
    model = seeded_model(name)
    feeds = seeded_feeds(model)
    return subject.check_model(model, [(feeds, reference_results(model, feeds))])


def _run_own(path: Path, subject: Subject) -> Finding:
    try:
        data = list(_data_of(path, subject))
    except SubgraphkitError as error:
        return Finding(Outcome.SKIP, f"there is nothing to compare with: {error}")
    return subject.check_model(path, data)


def _data_of(path: Path, subject: Subject) -> Iterator[DataSet]:
    """Yield the data stored beside a model, or else one random set with computed results."""
    model = onnx.load(path, load_external_data=False)
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    folders = sorted(path.parent.glob("test_data_set_*")) if path.name == "model.onnx" else []
    for folder in folders:
        inputs, outputs = stored_data(folder, model)
        yield dict(zip(names, inputs, strict=False)), outputs
    if not folders:
        feeds = random_feeds(subject.bind(path))
        yield feeds, reference_results(path, feeds)
