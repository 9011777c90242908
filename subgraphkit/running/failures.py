"""Failures of runs: those of a step that is to move to the fallback, and all others."""

from collections.abc import Mapping
from typing import Any

from subgraphkit import errors
from subgraphkit.backend.operator import maker_of
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.boundary import pass_on, unforeseen
from subgraphkit.compiling import close_all, compile_elsewhere
from subgraphkit.planning import Plan, Step
from subgraphkit.running.emission import Emitted
from subgraphkit.running.messages import unfit
from subgraphkit.running.stopping import refuse_stopped


def movable(
    error: BaseException, emitted: Emitted, plan: Plan, feeds: Any, progress: Progress | None = None
) -> errors.ExecutionError:
    """Return the failure of a step that is to move to the fallback; raise any other.

    This raises the errors of ``refuse_stopped``. It raises ExecutionError for a step that failed
    (SGK131) or returned something wrong (SGK132), and does not move. InputError (SGK145) is for
    feeds that are no mapping, InvalidModelError (SGK219) for a failure outside of steps. The
    program's own exceptions, such as Ctrl-C, pass.
    """
    refuse_stopped(progress, error, emitted, plan)
    if (found := emitted.locate(error)) is None:
        if not isinstance(feeds, Mapping) and not isinstance(error, errors.SubgraphkitError):
            raise unfit(
                f"the feeds are a {type(feeds).__name__}, expected a mapping from input names to "
                "arrays",
                hint='Pass a dict, such as {"x": array}.',
            ) from error
        if isinstance(error, errors.SubgraphkitError | Warning):
            raise error
        pass_on(error)
        raise unforeseen("run", plan.graph.name, error) from error
    index, in_operator = found
    pass_on(error)
    step, settings = plan.steps[index], plan.graph.settings
    fault = _fault_of_a_step(error)
    moves = settings.on_run_error == "fallback" and step.subgraph.backend != settings.fallback
    if not moves and isinstance(error, errors.SubgraphkitError):
        raise error
    failure = _step_failed(error, index, step, in_operator=in_operator)
    failure.__cause__ = error
    failure.fault = fault
    if not moves:
        raise failure
    return failure


def made_elsewhere(plan: Plan, index: int, failure: errors.ExecutionError) -> Plan:
    """Return a plan with a step on the fallback; raise the failure if that fails or is there."""
    step = plan.steps[index]
    try:
        operator = compile_elsewhere(plan.partitioning, step.subgraph)
    except (Unsupported, LookupError, errors.InvalidModelError) as error:
        # the last: the weights are in the engine of a bundle and nowhere else
        raise failure from error
    if type(operator) is type(step.operator) and maker_of(operator) == maker_of(step.operator):
        close_all([operator])
        raise failure
    return plan.with_operator(index, operator)


def fails_again(emitted: Emitted, index: int, failure: errors.ExecutionError, feeds: Any) -> bool:
    """Say whether a step fails on the fallback as well, and have the failure say whose fault it is.

    ``emitted``: The code with the fallback in place.
    """
    try:
        emitted.execute(feeds)
    except Exception as error:  # noqa: BLE001 (any other failure comes up in the next run)
        found = emitted.locate(error)
        if found is not None and found[0] == index:
            failure.add_note(f"So does the fallback backend on the same feeds: {error}")
            failure.fault = "machine" if failure.fault == "machine" else "caller"
            return True
    if failure.fault == "caller":
        failure.fault = "backend"  # for the fallback takes these feeds
    return False


def _fault_of_a_step(error: BaseException) -> errors.Fault:
    """Return who is at fault for a step's error, and have the error say so."""
    coded = error.fault if isinstance(error, errors.SubgraphkitError) else None
    for at in errors.causes_of(error):
        if coded not in {None, "backend"}:
            break
        coded = errors.fault_of(at, running=True) or coded
    if isinstance(error, errors.SubgraphkitError) and coded is not None:
        error.fault = coded
    return coded or "backend"


def _step_failed(
    error: BaseException, at: int, step: Step, *, in_operator: bool
) -> errors.ExecutionError:
    """Word an exception from a step, naming the subgraph (SGK131, SGK132)."""
    subgraph = step.subgraph
    nodes = f"{len(subgraph.nodes)} nodes from {subgraph.graph.nodes[subgraph.nodes[0]].label}"
    return errors.ExecutionError(
        "SGK131" if in_operator else "SGK132",
        f"subgraph {subgraph.id!r} ({nodes}) "
        f"{'failed while running' if in_operator else 'returned the wrong number of outputs'} "
        f"on backend {subgraph.backend!r}: {type(error).__name__}: {errors.text_of(error)}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="The backend's own error is the cause above. To carry on without it, set "
        "on_run_error='fallback' or leave the backend out of the list.",
        step=at,
        operator=step.operator,
    )
