"""One small model down the whole road on a backend: does it compile, run, and compute rightly?

A backend takes the nodes it likes, so it is asked about a few common ones, and then about the whole
catalogue; the first that it claims is compiled. What that is to compute onnx's own implementation
says, so that no other backend is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from onnx import ModelProto

from subgraphkit.backend.differences import compare_values
from subgraphkit.backend.tolerances import tolerance_for
from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.messages import wrong
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import NONE
from subgraphkit.errors import SubgraphkitError, UnclaimedNodesError
from subgraphkit.finding.child_probe import end_of_traceback
from subgraphkit.finding.opening import open_fallback
from subgraphkit.onnx_io import load
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.running import Session
from subgraphkit.testing.loopback import Stub
from subgraphkit.testing.probe_models import (
    Ask,
    ProbeModel,
    all_probe_models,
    claims_whole,
    models_claimed,
)

# Reduced precision is a choice of the user's; what is looked for here are results that are wrong.
_RELATIVE: Final = 0.05
_ABSOLUTE: Final = 0.05


_FIRST: Final = ("Relu", "Add", "Mul", "MatMul", "Softmax", "Conv", "Gemm", "MatMul-Add-Relu")
"""What most backends take, which are asked about nothing else."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a backend on the first model offered that it took.

    Attributes:
        state: ``ok``; ``idle`` if it took nothing; ``wrong`` if results are not those of NumPy;
            ``error`` if it failed to claim, to compile or to run.
        operators: What it took; empty if ``idle``.
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
        starting: Called with the operators before each model, for those who wait outside.
        runs: Whether it can run here; else it compiles, and that is all.

    Returns:
        What became of it; this function does not raise because of a plugin.
    """
    last = ""

    def starts(operators: str) -> None:
        nonlocal last
        if operators != last:
            last = operators
            starting(operators)

    def ask(model: ModelProto) -> Sequence[tuple[str, str]]:
        starts(model.graph.name)
        return _claimed(backend, model)

    try:
        for offer in _claims(ask):
            starts(offer.name)
            trial = _tried(backend, offer, runs=runs)
            if trial is not None:
                return trial
    except SubgraphkitError as error:
        trace = end_of_traceback(error.__cause__) if error.__cause__ is not None else ""
        return Trial("error", last, error.code, str(error), trace)
    except Exception as error:  # noqa: BLE001 (errors of plugins that are raised as they are)
        text = f"{type(error).__name__}: {error}"
        return Trial("error", last, text=text, trace=end_of_traceback(error))
    others = len(all_probe_models()) - len(_FIRST)
    text = f"takes none of {', '.join(_FIRST)}, nor of {others} more, in any type, rank or size"
    return Trial("idle", text=text)


def try_installed(tell: Callable[[Any], None], name: str, builds_only: Any) -> Any:
    """Try a backend in a process that it may take down; return the fields of the ``Trial``.

    ``tell`` is given the operators of every model before it is tried.
    """
    return asdict(try_backend(_as_selected(name), tell, runs=not builds_only))


def _as_selected(name: str) -> str:
    """Return a backend's name with the options that the configured selection gives it."""
    named = name.partition("@")[0]
    chosen = (one for one in resolve().backends if one.name == named and one.options)
    return next((str(replace(one, optional=False)) for one in chosen), name)


def _claims(ask: Ask) -> Iterator[ProbeModel]:
    """Yield what a backend claims, looking no further than it is asked for."""
    by_name = {offer.name: offer for offer in all_probe_models()}
    first = [by_name[name] for name in _FIRST]
    yield from (one for one in first if claims_whole(one, ask(one.model().proto)))
    yield from (one for one in models_claimed(ask) if one not in first)


def _claimed(backend: Any, model: ModelProto) -> list[tuple[str, str]]:
    bound = _bound(backend, model, Stub)
    name = bound.settings.backends[0].name
    mine = [one for one in partition(bound).subgraphs if one.backend == name]
    return [
        (node.op_type, next(filter(None, node.outputs), "")) for one in mine for node in one.members
    ]


def _bound(backend: Any, model: ModelProto, *others: Any) -> BoundModel:
    return bind(
        load(model),
        backend=[backend, *others],
        on_run_error="raise",
        on_compile_error="raise",
        strict=False,
        on_fallback="ok",
        require={},
        cache=False,  # an engine of another day would hide that it no longer compiles
        fallback=_healthy_fallback(),
    )


def _tried(backend: Any, offer: ProbeModel, *, runs: bool) -> Trial | None:
    """Return what became of one model; None if the backend gives it back."""
    model = offer.model()
    bound = _bound(backend, model.proto)
    name = bound.settings.backends[0].name
    try:
        partitioning = partition(bound)
        planned = plan(partitioning, compile_subgraphs(partitioning))
    except UnclaimedNodesError:  # it gave back what it had claimed, and there is no fallback
        return None
    feeds = model.feeds()
    with Session(planned) as session:
        if all(one.backend != name for one in session.partitioning.subgraphs):
            return None
        if not runs:
            return Trial("ok", offer.name)
        (y,) = session.run(None, feeds)
    (found,) = compare_values(
        "y", y, model.expected(feeds)[0], lambda dtype: tolerance_for(dtype, _RELATIVE, _ABSOLUTE)
    )
    if found.agrees:
        return Trial("ok", offer.name)
    error = wrong(name, offer.name, found.problem or f"{found.got}, expected {found.expected}")
    return Trial("wrong", offer.name, error.code, str(error))


def _healthy_fallback() -> str:
    """Return the fallback, or none if it is what is ill."""
    resolved = resolve()
    try:
        open_fallback(resolved)
    except SubgraphkitError:
        return NONE
    name: str = resolved.fallback
    return name
