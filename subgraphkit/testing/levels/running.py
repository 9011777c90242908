"""Level 5, run-time: the promises of a session, run after run, for all feeds and threads."""

import copy
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.errors import CallerError, ExecutionError, SubgraphkitError
from subgraphkit.finding.registry import registered
from subgraphkit.placing import InferenceSession, SessionSpec
from subgraphkit.testing import run_checks
from subgraphkit.testing.cases import Case, Finding, Outcome, Stopped, breach
from subgraphkit.testing.claimed import model_taken, models_taken
from subgraphkit.testing.comparison import REFERENCE
from subgraphkit.testing.foreign import beside_foreign, is_own
from subgraphkit.testing.run_checks import Check, Opened, check_session
from subgraphkit.testing.small_models import SmallModel, graphs_of, model_of, random_graph
from subgraphkit.testing.subject import SETTINGS, Subject
from subgraphkit.testing.sweep_cases import sweep_cases

_RANDOM_GRAPHS: Final = 24

_SIZES: Final = (
    {"N": 2, "M": 5, "H": 7, "W": 9},
    {"N": 3, "M": 4, "H": 12, "W": 5},
    {"N": 5, "M": 2, "H": 9, "W": 7},
    {"N": 2, "M": 5, "H": 7, "W": 9},
)
"""Some of as many elements in another shape, and the first again at the end."""
_EMPTY: Final = ({"N": 0, "M": 5},)
_CONVOLVES: Final = "convolution"
"""Whether a convolution of no pictures means anything, runtimes do not agree."""

_PLACES: Final = (2, 0, 3, 1), (2, 0, 99, 1)
_COUNTS: Final = 5, 1 << 20
_LIMITS: Final = "max_value_bytes=1MiB"
_BY_NAME: Final = "under_test"
_NOT_IN_A_CHILD: Final = "SGK127"


def cases(subject: Subject) -> Iterable[Case]:
    """Build the cases of this level."""
    for name, check in _CHECKS.items():
        needs = ("threads",) if "in_threads" in name else ()
        yield Case(f"L5/{name}", partial(_on_models_taken, check), needs=needs)
    for name, text in graphs_of("open sizes").items():
        yield Case(f"L5/shapes/several/{name}", partial(_of_sizes, _SIZES, text), needs=_SHAPES)
        if name != _CONVOLVES:
            yield Case(f"L5/shapes/no_rows/{name}", partial(_of_sizes, _EMPTY, text), needs=_SHAPES)
    for name, text in graphs_of("odd shapes").items():
        yield Case(f"L5/shapes/{name}", partial(_of_sizes, ({},), text))
    values = graphs_of("values")
    yield Case("L5/values/not_finite", partial(_not_finite, values["not_finite"]))
    failing = partial(_failing, values["stumbles"], _PLACES)
    missed = f"it ran on {_PLACES[1]}, as if there were such rows"
    pinned = partial(failing, missed, pin={"Gather": REFERENCE})
    yield Case("L5/errors/good_run_after_a_bad_one", pinned)
    yield Case("L5/errors/travel", partial(failing, ""))  # a library may take a row for another one
    missed = f"it made as much as {_COUNTS[1]} asks for, with {_LIMITS}"
    for name, text in graphs_of("sized by values").items():
        yield Case(f"L5/limits/{name}", partial(_failing, text, _COUNTS, missed, limits=_LIMITS))
    yield Case("L5/processes/forked", _run_forked)
    yield Case("L5/processes/spec", _opened_by_spec)
    yield from sweep_cases(subject)
    first = subject.seed * _RANDOM_GRAPHS
    for seed in range(first, first + _RANDOM_GRAPHS):
        yield Case(f"L5/random_graphs/{seed}", partial(_random, seed))


_SHAPES: Final = ("dynamic_shapes",)
_CHECKS: Final[Mapping[str, Check]] = {
    **run_checks.USES,
    "runs/refused_feeds": run_checks.good_run_after_refused_feeds,
    "threads/one_session": run_checks.threads_share_a_session,
    "sessions/two_in_turn": run_checks.two_sessions_by_turns,
    "sessions/two_in_threads": run_checks.two_sessions_in_threads,
}


def _on_models_taken(check: Check, subject: Subject) -> Finding:
    """Do something with sessions of different models; a fault of one counts."""
    found = [check_session(subject, model, check) for model in models_taken(subject)]
    return next((one for one in found if one.is_wrong), found[0])


def _model(text: str) -> SmallModel:
    return SmallModel(model_of(f"g {text}"))


def _of_sizes(several: Sequence[Mapping[str, int]], text: str, subject: Subject) -> Finding:
    """Run a model whose dimensions may have no size in some sizes, one after the other."""
    dims = _model(text).proto.graph.input[0].type.tensor_type.shape.dim
    shapes = [[sizes.get(dim.dim_param, dim.dim_value) for dim in dims] for sizes in several]
    drawn = [np.random.default_rng(seed).standard_normal(one) for seed, one in enumerate(shapes)]
    return _feed_several(text, [{"x": one.astype(np.float32)} for one in drawn], subject)


def _not_finite(text: str, subject: Subject) -> Finding:
    feeds = _model(text).feeds()
    feeds["x"].flat[:3] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        return _feed_several(text, [feeds], subject)


def _feed_several(text: str, several: Sequence[Mapping[str, Any]], subject: Subject) -> Finding:
    """Run a model on several feeds, one after the other, in one session."""

    def check(opened: Opened) -> Finding | None:
        return next(filter(None, map(opened.feed, several)), None)

    return check_session(subject, _model(text), check)


def _failing(
    text: str, numbers: tuple[Any, Any], missed: str, subject: Subject, **road: Any
) -> Finding:
    """Feed the first of two numbers, the other with which a run fails, and the first again.

    Its error arrives in another process. Without an error, ``missed`` says so, if it is given.
    """
    model = _model(text)
    *others, last = model.proto.graph.input
    shape = [dim.dim_value for dim in last.type.tensor_type.shape.dim]
    drawn = model.feeds() if others else {}
    right, wrong = ({**drawn, last.name: np.full(shape, one)} for one in numbers)

    def check(opened: Opened) -> Finding | None:
        found = opened.feed(right)
        try:
            opened.session.run(None, wrong)
        except ExecutionError as error:
            return found or _pickle_fault(error) or opened.feed(right)
        return found or (breach(missed) if missed else None)

    return check_session(subject, model, check, **road)


def _pickle_fault(error: SubgraphkitError) -> Finding | None:
    """Take an error apart and make it anew, as pickling does, without the bytes between."""
    try:
        arrived = copy.deepcopy(error)
    except Exception as trouble:  # noqa: BLE001 (any act of a plugin's class)
        said = f"cannot be pickled: {type(trouble).__name__}: {trouble}"
        return breach(f"{type(error).__name__} {said}")
    if (arrived.code, arrived.fault, str(arrived)) == (error.code, error.fault, str(error)):
        return None
    said = f"[{error.code}] becomes {arrived!r:.200} when it is pickled"
    return breach(f"{type(error).__name__} {said}")


def _run_forked(subject: Subject) -> Finding:
    """A forked child runs a session of its parent, or says that it cannot (SGK127)."""
    if not hasattr(os, "fork"):
        return Finding(Outcome.SKIP, "this system does not fork")

    def check(opened: Opened) -> Finding | None:
        opened.run(opened.model.feeds())  # threads that start at the first run are there now
        return run_checks.in_a_forked_child(partial(_feed_or_refuse, opened))

    return check_session(subject, model_taken(subject), check)


def _feed_or_refuse(opened: Opened) -> Finding | None:
    try:
        return opened.feed(opened.model.feeds(1))
    except CallerError as error:
        return None if error.code == _NOT_IN_A_CHILD else Finding(Outcome.FAIL_RUN, str(error))
    except Stopped as stop:
        return stop.finding


def _opened_by_spec(subject: Subject) -> Finding:
    """A session opened beside another by its spec computes the same."""
    model = model_taken(subject)
    named = subject
    registering: AbstractContextManager[object] = nullcontext()
    if subject.target:  # a spec has names, no classes
        named = replace(subject, installed=_BY_NAME, target="")
        registering = registered(subject.backend_class, _BY_NAME, replace=True)
    with tempfile.TemporaryDirectory() as folder, registering:
        path = Path(folder, "model.onnx")
        path.write_bytes(model.proto.SerializeToString())
        name = f"{named.name}@{named.distribution}".removesuffix("@")
        options = {named.name: dict(named.options)}
        with InferenceSession(path, name, options=options, **SETTINGS) as session:
            taken = named.operators_taken(session.partitioning)
            try:
                other = SessionSpec.from_json(session.spec.to_json()).open()
            except SubgraphkitError as error:
                return breach(f"its spec cannot be opened: {error}", taken)
            with other:
                found = run_checks.sessions_by_turns(Opened(subject, model, session), other)
    return found or Finding(Outcome.RIGHT if taken else Outcome.UNCLAIMED, taken=taken)


def _random(seed: int, subject: Subject) -> Finding:
    model = random_graph(seed)
    feeds = model.feeds()
    data = [(feeds, model.expected_outputs(feeds))]
    return subject.check_model(model.proto, data, of=is_own, **beside_foreign(subject.choice))
