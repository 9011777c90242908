"""A gate between many runs and the rare change that must have the session to itself; and forks.

A forked child has the memory of its parent and one thread of it. Locks that other threads held stay
locked there, and libraries wait for threads that are not there. The child decides once, before its
first line of code, which sessions may go on. That costs a run nothing.
"""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from subgraphkit.backend.operator import maker_of
from subgraphkit.backend.progress import Progress
from subgraphkit.errors import CallerError
from subgraphkit.finding.messages import forked_library
from subgraphkit.finding.registry import forbid
from subgraphkit.planning import Plan

_A = TypeVar("_A")
_T = TypeVar("_T")

_LOOK_SECONDS: Final = 0.01


class Gate:
    """Lets any number of runs through at once, or one change and no run.

    ``gate.through(progress, run)`` is a run, and ``gate.alone(change)`` makes a change. A waiting
    change keeps new runs out, so that a busy session cannot put it off for ever.

    Every thread has a passage of its own, and a change takes them all. A passage is a lock written
    in C, not a counter kept in Python, because Ctrl-C may strike between any two steps of Python
    code: a run that was counted in would then never be counted out. It also costs a run less.

    Thread-safety: safe. A change inside a run of the same thread does not wait for that run.
    """

    __slots__ = ("_is_taken", "_mine", "_passages", "_turn")

    def __init__(self) -> None:
        # Held by a change from its first wait to its end.
        self._turn = threading.RLock()
        self._is_taken = False
        self._mine = threading.local()
        self._passages: weakref.WeakSet[Any] = weakref.WeakSet()  # they end with their threads

    def through(
        self, run: Callable[[_A], _T], argument: _A, progress: Progress | None = None
    ) -> _T:
        """Call a run when no change is being made, and keep changes waiting until it is over."""
        if self._is_taken:
            wait_for(self._turn, int if progress is None else progress.check)
        try:
            passage: Any = self._mine.passage
        except AttributeError:
            passage = self._open_passage()
        # as in ``_holding``, without the cost of one more call
        try:
            passage.acquire()
            return run(argument)
        finally:
            try:  # noqa: SIM105 (nothing may come before the release)
                passage.release()
            except RuntimeError:
                pass

    def _open_passage(self) -> Any:
        passage = threading.RLock()
        _holding(self._turn, partial(self._passages.add, passage))
        self._mine.passage = passage
        return passage

    @property
    def was_used(self) -> bool:
        """Whether a thread that is still there has ever been inside."""
        return bool(len(self._passages))

    def is_held_elsewhere(self) -> bool:
        """Say whether another thread is inside."""
        mine = getattr(self._mine, "passage", None)
        return self._is_taken or any(_is_held(it) for it in list(self._passages) if it is not mine)

    def count_inside(self) -> int:
        """Count the threads that are inside."""
        return sum(map(_is_held, list(self._passages)))

    def alone(self, change: Callable[[], _T]) -> _T:
        """Keep new runs out, wait for those inside, and make a change."""
        return _holding(self._turn, partial(self._alone, change))

    def _alone(self, change: Callable[[], _T]) -> _T:
        passages = list(self._passages)
        try:
            self._is_taken = True
            for passage in passages:
                passage.acquire()
            return change()
        finally:
            self._is_taken = False
            try:
                _give_back(passages)
            except KeyboardInterrupt:
                _give_back(passages)
                raise


def _holding(lock: Any, work: Callable[..., _T], *arguments: object) -> _T:
    """Call something while a reentrant lock is held; Ctrl-C never leaves it locked.

    A ``with`` block may: from Python 3.14 on, an exception may come between the call that takes the
    lock and the block. Here Python looks for one right after each call. So it comes when the lock
    is sure to be released, or before this thread has it.
    """
    try:
        lock.acquire()
        return work(*arguments)
    finally:
        try:  # noqa: SIM105 (nothing may come before the release)
            lock.release()
        except RuntimeError:
            pass


def wait_for(lock: Any, check: Callable[[], object]) -> None:
    """Wait until a reentrant lock is free, and ask now and then whether to go on.

    ``lock``: The lock; taken for a moment, and never left locked.
    """
    try:
        while not lock.acquire(timeout=_LOOK_SECONDS):
            check()
    finally:
        try:  # noqa: SIM105 (as above)
            lock.release()
        except RuntimeError:
            pass


def _is_held(passage: Any) -> bool:
    # a look that takes nothing: an interrupted taker would keep its thread out
    return repr(passage).startswith("<locked")


def _give_back(passages: list[Any]) -> None:
    while passages:
        # an interruption may have come before it was taken, or before it was taken off the list
        with suppress(RuntimeError):
            passages[-1].release()
        passages.pop()


class _Threaded(Protocol):
    """Something to tell that it is in a child now."""

    def leave_parent(self) -> None:
        """Go on without the threads of the parent, or refuse to."""


class Forkable(_Threaded, Protocol):
    """A runner of a plan, to tell that it is in a child now."""

    @property
    def plan(self) -> Plan:
        """Its plan."""


_FOLLOWED: "Final[weakref.WeakKeyDictionary[Forkable, Gate]]" = weakref.WeakKeyDictionary()
_THREADED: "Final[weakref.WeakSet[_Threaded]]" = weakref.WeakSet()
_KEPT: Final[list[Forkable]] = []
"""Sessions of the parent: freeing them in the child would wait for their threads as well."""


_AT_WORK: Final[set[str]] = set()
"""Backends in which another thread was when a fork began, and that keep threads and locks."""


def follow(session: Forkable, gate: Gate) -> Gate:
    """Have ``leave_parent`` called in every child that is forked from now on."""
    _FOLLOWED[session] = gate
    return gate


def start_over_in_children(owner: _Threaded) -> None:
    """Call ``leave_parent`` in every child, for an object with threads and locks but no plan."""
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


def run_forked(*_: object) -> list[Any]:
    """Refuse to run a session of the parent process in a forked child (CallerError, SGK127)."""
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
        forbid(name, forked_library(name))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
