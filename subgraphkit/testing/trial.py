"""One small model down the whole road on a backend: does it compile, run, and compute rightly?

Each backend takes other nodes. So it is asked about a few common ones, then about the whole
catalogue, and the first that it claims is compiled. onnx's own implementation gives the expected
results, so no other backend is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from onnx import ModelProto

from subgraphkit.backend.differences import compare_values
from subgraphkit.backend.tolerances import tolerance_for
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.messages import wrong
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import NONE, BackendChoice
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.child_probe import end_of_traceback
from subgraphkit.finding.opening import open_fallback
from subgraphkit.finding.registry import find_record, load_record
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.testing.cases import Outcome, Stopped
from subgraphkit.testing.probe_models import (
    WHOLE,
    Ask,
    ProbeModel,
    all_probe_models,
    models_claimed,
    share_alone,
)
from subgraphkit.testing.subject import Subject

# Reduced precision is the user's choice; this looks for wrong results.
_NEAR: Final = 0.05

_FIRST: Final = ("Relu", "Add", "Mul", "MatMul", "Softmax", "Conv", "Gemm", "MatMul-Add-Relu")
"""Operators that most backends take, which are then asked about nothing else."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a backend on the first model offered that it took.

    Attributes:
        state: ``ok``; ``idle`` if it took nothing; ``wrong`` if results are not those of NumPy;
            ``error`` if claim, compile or run failed.
        operators: The operators that it took; empty if ``idle``.
        code: Code of the error, or an empty string.
        text: What happened, as a user would be told; empty if ``ok``.
        trace: The end of the traceback of the backend's own exception, if it raised one.
    """

    state: Literal["ok", "idle", "wrong", "error"]
    operators: str = ""
    code: str = ""
    text: str = ""
    trace: str = ""


def try_backend(
    backend: Any, starting: Callable[[str], None] = lambda _: None, *, runs: bool = True
) -> Trial:
    """Compile and run the first of the small models that a backend takes, and compare.

    Options are those that are configured for the backend.

    Args:
        backend: One backend, as in a selection.
        starting: Called with the operators before each model, for a waiting process.
        runs: Whether it can run here; else it compiles, and that is all.

    Returns:
        What became of it; this function does not raise because of a plugin.
    """
    subject, last = _Selected(backend=backend), ""

    def starts(operators: str) -> None:
        nonlocal last
        if operators != last:
            last = operators
            starting(operators)

    def ask(model: ModelProto) -> Sequence[tuple[str, str]]:
        starts(model.graph.name)
        return subject.nodes_claimed(model)

    try:
        for probe in _claims(ask):
            starts(probe.name)
            trial = _trial_of(subject, probe, runs=runs)
            if trial is not None:
                return trial
    except (Stopped, SubgraphkitError) as stop:
        error: Any = stop.__cause__ if isinstance(stop, Stopped) else stop
        trace = end_of_traceback(error.__cause__) if error.__cause__ is not None else ""
        return Trial("error", last, error.code, str(error), trace)
    except Exception as error:  # noqa: BLE001 (errors of plugins that are raised as they are)
        text = f"{type(error).__name__}: {error}"
        return Trial("error", last, text=text, trace=end_of_traceback(error))
    others = f"{len(all_probe_models()) - len(_FIRST)} more, in any type, rank or size"
    return Trial("idle", text=f"takes none of {', '.join(_FIRST)}, nor of {others}")


def try_installed(tell: Callable[[Any], None], name: str, builds_only: Any) -> Any:
    """Try a backend in a process that it may take down; return the fields of the ``Trial``.

    ``tell`` is given the operators of every model before it is tried.
    """
    return asdict(try_backend(_selection_of(name), tell, runs=not builds_only))


def _selection_of(name: str) -> str:
    """Return a backend's name with the options that the configured selection gives it."""
    named = name.partition("@")[0]
    chosen = (one for one in resolve().backends if one.name == named and one.options)
    return next((str(replace(one, optional=False)) for one in chosen), name)


@dataclass(frozen=True)
class _Selected(Subject):
    """A backend as it is named in a selection, with the options that are configured for it."""

    backend: Any = None

    @cached_property
    def choice(self) -> BackendChoice:
        return resolve(backend=[self.backend]).backends[0]

    @cached_property
    def name(self) -> str:
        return self.choice.name

    @cached_property
    def backend_class(self) -> Any:
        return load_record(find_record(self.choice, resolve()))

    def bind(self, source: ModelSource | Model, **settings: Any) -> BoundModel:
        return super().bind(source, **{"fallback": _healthy_fallback(), **settings})


def _claims(ask: Ask) -> Iterator[ProbeModel]:
    """Yield a backend's claims, looking no further than it is asked for."""
    by_name = {probe.name: probe for probe in all_probe_models()}
    first = [by_name[name] for name in _FIRST]
    yield from (one for one in first if share_alone(ask, one) == WHOLE)
    yield from (one for one in models_claimed(ask) if one not in first)


def _trial_of(subject: Subject, probe: ProbeModel, *, runs: bool) -> Trial | None:
    """Return the trial of one model; None if the backend gives it back."""
    model = probe.model()
    feeds = model.feeds()
    try:
        with subject.session(model.proto) as session:
            if not runs:
                return Trial("ok", probe.name)
            (y,) = subject.run(session, feeds)
    except Stopped as stop:
        if stop.finding.outcome in {Outcome.UNCLAIMED, Outcome.SKIP}:
            return None
        raise
    allowed = partial(tolerance_for, relative=_NEAR, absolute=_NEAR)
    (found,) = compare_values("y", y, model.expected_outputs(feeds)[0], allowed)
    if found.agrees:
        return Trial("ok", probe.name)
    what = found.problem or f"{found.got}, expected {found.expected}"
    error = wrong(subject.name, probe.name, what)
    return Trial("wrong", probe.name, error.code, str(error))


def _healthy_fallback() -> str:
    """Return the fallback, or none if it is the faulty one."""
    resolved = resolve()
    try:
        open_fallback(resolved)
    except SubgraphkitError:
        return NONE
    return str(resolved.fallback)
