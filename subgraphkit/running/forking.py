"""Sessions in a forked child: what goes on there, and what is refused instead of never returning.

A child has the memory of its parent and one thread of it. Locks that other threads held stay locked
there, and libraries wait for threads that are not there. Nothing of this costs a run anything: all
is done once, by the child, before its first line of code.
"""

import os
import weakref
from collections.abc import Mapping
from typing import Any, Final, Protocol

from subgraphkit.backend.operator import maker_of
from subgraphkit.errors import CallerError
from subgraphkit.finding.messages import forked
from subgraphkit.finding.registry import forbid
from subgraphkit.planning import Plan
from subgraphkit.running.gate import Gate


class _Threaded(Protocol):
    """What is told that it is in a child now."""

    def leave_parent(self) -> None:
        """Go on without the threads of the parent, or refuse to."""


class Forkable(_Threaded, Protocol):
    """What runs a plan, and is told that it is in a child now."""

    @property
    def plan(self) -> Plan:
        """What it runs."""


_FOLLOWED: "Final[weakref.WeakKeyDictionary[Forkable, Gate]]" = weakref.WeakKeyDictionary()
_THREADED: "Final[weakref.WeakSet[_Threaded]]" = weakref.WeakSet()
_KEPT: Final[list[Forkable]] = []
"""Sessions of the parent: what frees them in the child would wait for their threads as well."""


_AT_WORK: Final[set[str]] = set()
"""Backends in which another thread was when a fork began, and that keep threads and locks."""


def follow(session: Forkable, gate: Gate) -> Gate:
    """Have ``leave_parent`` called in every child that is forked from now on."""
    _FOLLOWED[session] = gate
    return gate


def start_over_in_children(owner: _Threaded) -> None:
    """Have ``leave_parent`` called in every child for what has threads and locks, and no plan."""
    _THREADED.add(owner)


def goes_on(plan: Plan) -> bool:
    """Say whether a plan can be run in a child of the process that made it."""
    return not _kept_from_children(plan)


def _kept_from_children(plan: Plan) -> set[str]:
    """Return the backends of a plan whose operators a child cannot run."""
    return {
        maker_of(step.operator) or step.subgraph.backend
        for step in plan.steps
        if not (step.operator.traits.fork_safe and step.operator.traits.thread_safe)
    }


def run_forked(feeds: Mapping[str, Any], buffers: Any = None) -> list[Any]:
    """Run a session of the parent process in a forked child.

    Raises:
        CallerError: Always (SGK127).
    """
    del feeds, buffers
    raise CallerError(
        "SGK127",
        "the session was opened by the process that this one was forked from, and its backends "
        "have threads that are not here",
        hint="Open the session in the child, or fork before anything is opened. With\n"
        "multiprocessing: set_start_method('spawn'), or 'forkserver'.",
    )


def _before() -> None:
    _AT_WORK.clear()
    for session, gate in list(_FOLLOWED.items()):
        if gate.is_held_elsewhere():
            _AT_WORK.update(_kept_from_children(session.plan))


def _in_child() -> None:
    _KEPT.extend(_FOLLOWED)
    for session in _KEPT:
        session.leave_parent()
    for owner in list(_THREADED):
        owner.leave_parent()
    for name in _AT_WORK:
        forbid(name, forked(name))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
