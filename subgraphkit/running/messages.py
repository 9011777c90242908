"""The errors of a session, worded."""

from collections.abc import Mapping
from typing import Any

from subgraphkit.errors import CallerError, ExecutionError, InputError
from subgraphkit.planning import Step

__all__ = ["not_feeds", "run_closed", "step_failed", "unknown_run_options"]


def step_failed(error: Exception, index: int, step: Step, *, in_operator: bool) -> ExecutionError:
    """Word an exception from a step, naming the subgraph (SGK131, SGK132).

    Args:
        error: The exception.
        index: Place of the step in the plan.
        step: The step.
        in_operator: Whether the operator raised it, and not the check of what it returned.
    """
    subgraph = step.subgraph
    nodes = f"{len(subgraph.nodes)} nodes from {subgraph.graph.nodes[subgraph.nodes[0]].label}"
    return ExecutionError(
        "SGK131" if in_operator else "SGK132",
        f"subgraph {subgraph.id!r} ({nodes}) "
        f"{'failed while running' if in_operator else 'returned the wrong number of outputs'} "
        f"on backend {subgraph.backend!r}: {type(error).__name__}: {error}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="The backend's own error is the cause above. To carry on without it, set "
        "on_run_error='fallback' or leave the backend out of the list.",
        step=index,
        operator=step.operator,
    )


def run_closed(feeds: Mapping[str, Any], buffers: Any = None) -> list[Any]:
    """Run a session that is closed.

    Raises:
        CallerError: Always (SGK144).
    """
    del feeds, buffers
    raise CallerError("SGK144", "the session is closed", hint="Make a new one, or close it later.")


def not_feeds(feeds: object) -> InputError:
    """Word that feeds are no mapping (SGK145)."""
    return InputError(
        "SGK145",
        f"the feeds are a {type(feeds).__name__}, expected a mapping from input names to arrays",
        hint='Pass a dict, such as {"x": array}.',
    )


def unknown_run_options(options: object) -> CallerError:
    """Word that run options are not understood (SGK142)."""
    return CallerError(
        "SGK142",
        f"run options of type {type(options).__name__} are not understood",
        hint="Settings are given when the session is made; leave run_options out.",
    )
