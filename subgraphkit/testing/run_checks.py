"""Checks of a session: runs, results that stay, threads, buffers.

Each check takes the subject, a small model and an open session of it, and returns what is wrong, or
None. It raises ``Stopped`` where a run fails.
"""

import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.comparing.small_models import SmallModel
from subgraphkit.errors import InputError, SubgraphkitError
from subgraphkit.processes.child_process import crowd, how_it_ended
from subgraphkit.running import Session
from subgraphkit.testing.aliasing import shared
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.subject import Stopped, Subject, untouched
from subgraphkit.testing.sweeps import Sweep

__all__ = [
    "Check",
    "bound_outputs_are_new",
    "buffers_are_filled",
    "fed_in_a_form",
    "fed_with",
    "good_run_after_refused_feeds",
    "hundreds_of_runs_are_equal",
    "in_a_forked_child",
    "in_threads",
    "in_turn",
    "repeated_runs_are_equal",
    "results_stay",
    "spread_buffers_are_filled",
    "threads_share_a_session",
    "written_in_place",
]

_Array = npt.NDArray[Any]
Check = Callable[[Subject, SmallModel, Session], Finding | None]
"""Finds fault with a session of a model, or returns None."""

_RUNS: Final = 5
_MANY_RUNS: Final = 130
_THREADS: Final = 8
_FORKED_SECONDS: Final = 20.0
_SWITCH_SECONDS: Final = 1e-4
_GUARD: Final = 77  # what stands beside a buffer, and must stand there afterwards


def fed_with(
    subject: Subject, model: SmallModel, session: Session, feeds: Mapping[str, Any]
) -> Finding | None:
    """Run once and compare; the feeds must stay as they are, and share nothing with the results."""
    native = {name: _native(array) for name, array in feeds.items()}
    expected = model.expected(native)
    with untouched(feeds):
        results = subject.run(session, feeds)
    found = _difference(subject, model, expected, results) or shared(feeds, results)
    if found is None or isinstance(model, Sweep):
        return found
    return subject.blame.blamed(session, model.proto, native, expected, results, found)


def _difference(
    subject: Subject, model: SmallModel, expected: Sequence[Any], results: Sequence[Any]
) -> Finding | None:
    if isinstance(model, Sweep):
        return model.difference(expected, results, subject.declarations.tolerances)
    return subject.difference(expected, results)


def _native(array: _Array) -> _Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def fed_in_a_form(
    form: Callable[[_Array], _Array], subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Feed arrays of some layout or byte order."""
    fed = {name: form(array) if array.ndim else array for name, array in model.feeds().items()}
    return fed_with(subject, model, session, fed)


def repeated_runs_are_equal(
    subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Run several times on the same, with something else in between."""
    feeds, others = model.feeds(0), model.feeds(1)
    found = fed_with(subject, model, session, feeds) or fed_with(subject, model, session, others)
    if found is not None:
        return found
    before = [array.copy() for array in subject.run(session, feeds)]
    for _ in range(_RUNS):
        subject.run(session, others)
        after = subject.run(session, feeds)
        for name, one, other in zip(session.graph.outputs, before, after, strict=True):
            if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                return Finding(Outcome.FAIL_VALUE, f"output {name!r} differs from run to run")
    return None


def hundreds_of_runs_are_equal(
    subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Run as often as it takes a library to change to faster code, or a counter to be full."""
    feeds = model.feeds()
    first = [one.tobytes() for one in subject.run(session, feeds)]
    for number in range(_MANY_RUNS):
        results = subject.run(session, feeds)
        for name, one, before in zip(session.graph.outputs, results, first, strict=True):
            if one.tobytes() != before:
                text = f"output {name!r} is another in run {number + 2} than in the first"
                return Finding(Outcome.FAIL_VALUE, text)
    return None


def results_stay(subject: Subject, model: SmallModel, session: Session) -> Finding | None:
    """Keep the results of several runs: none may change or share memory with another."""
    kept: list[tuple[list[_Array], list[_Array]]] = []
    for seed in range(_RUNS):
        results = subject.run(session, model.feeds(seed))
        kept.append((results, [array.copy() for array in results]))
    for number, (results, copies) in enumerate(kept):
        for name, one, other in zip(session.graph.outputs, results, copies, strict=True):
            if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                text = f"output {name!r} of run {number} was overwritten by a later run"
                return Finding(Outcome.FAIL_ALIAS, text)
            if not one.flags.writeable:
                text = f"output {name!r} belongs to the caller and cannot be written to"
                return Finding(Outcome.FAIL_ALIAS, text)
    return shared({}, [array for results, _ in kept for array in results])


def written_in_place(subject: Subject, model: SmallModel, session: Session) -> Finding | None:
    """Write to arrays that have been fed and feed them again: what is in them counts.

    They are filled anew; then one element of each is changed; then elements change places, by which
    no sum of them changes.
    """
    feeds = {name: array.copy() for name, array in model.feeds().items()}
    for change in (lambda _: None, *_CHANGES):
        change(feeds)
        found = fed_with(subject, model, session, feeds)
        if found is not None:
            return Finding(found.outcome, f"fed arrays that were written to: {found.detail}")
    return None


def _fill_anew(feeds: Mapping[str, _Array]) -> None:
    for array in feeds.values():
        array[...] = np.flip(array).copy()


def _change_one(feeds: Mapping[str, _Array]) -> None:
    for array in feeds.values():
        if array.size:
            array.flat[array.size // 2] = array.flat[0]


def _exchange(feeds: Mapping[str, _Array]) -> None:
    for array in feeds.values():
        array[...] = np.roll(array, array.size // 2 + 1).copy()


_CHANGES: Final = (_fill_anew, _change_one, _exchange)


def good_run_after_refused_feeds(
    subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Feed what does not fit, again and again; it is refused, and does no harm."""
    for wrong in ({}, {"x": np.zeros((1, 2, 3, 4, 5), np.float16)}, {"z": np.zeros(3)}):
        try:
            session.run(None, wrong)
        except InputError:
            continue
        return Finding(Outcome.FAIL_CONTRACT, f"feeds that do not fit were accepted: {wrong}")
    return fed_with(subject, model, session, model.feeds())


# -- several at once -----------------------------------------------------------------------------


def threads_share_a_session(
    subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Run one session from eight threads, each with feeds of its own."""
    return in_threads(subject, model, [lambda: session] * _THREADS)


def in_threads(
    subject: Subject,
    model: SmallModel,
    entrances: Sequence[Callable[[], Session]],
    runs: int = _RUNS,
) -> Finding | None:
    """Run a session in each of several threads, all at once, with feeds of its own.

    Args:
        subject: What is run.
        model: The model of all sessions.
        entrances: Each is called in a thread of its own and returns that thread's session.
        runs: How often each thread runs it.
    """
    start = threading.Barrier(len(entrances))
    fed = [model.feeds(number) for number in range(len(entrances))]
    wanted = [model.expected(feeds) for feeds in fed]

    def work(number: int) -> Finding | None:
        feeds, expected = fed[number], wanted[number]
        try:
            session = entrances[number]()
            start.wait()  # without a limit: who passes it has run
            results = (subject.run(session, feeds) for _ in range(runs))
            found = (_difference(subject, model, expected, one) for one in results)
            return next((finding for finding in found if finding is not None), None)
        except threading.BrokenBarrierError:
            return None  # another thread says why
        except Stopped as stop:
            start.abort()
            return stop.finding
        except BaseException:
            start.abort()
            raise

    with _switching_often(), ThreadPoolExecutor(len(entrances)) as pool:
        everything = list(pool.map(work, range(len(entrances))))
    for number, finding in enumerate(everything):
        if finding is not None:
            text = f"in thread {number} of {len(entrances)}: {finding.detail}"
            return Finding(finding.outcome, text)
    return None


@contextmanager
def _switching_often() -> Iterator[None]:
    """Have Python change threads after every few instructions, where one may meet another."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_a_forked_child(check: Callable[[], Finding | None]) -> Finding | None:
    """Carry a check out in a child that is forked here, and that ends with it."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)

    def answer() -> None:
        found = check()
        its.send(None if found is None else found.to_dict())

    child = context.Process(target=answer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are the point
        child.start()
    its.close()
    try:
        if not mine.poll(_FORKED_SECONDS * crowd()):
            text = f"a forked child did not return from a run within {_FORKED_SECONDS:g} s"
            return Finding(Outcome.FAIL_CONTRACT, text)
        told = mine.recv()
    except EOFError:
        child.join()
        text = f"a forked child ended in a run: {how_it_ended(child.exitcode or 0)}"
        return Finding(Outcome.FAIL_CONTRACT, text)
    finally:
        child.kill()
        child.join()
    if told is None:
        return None
    found = Finding.from_dict(told)
    return Finding(found.outcome, f"in a forked child: {found.detail}")


def in_turn(subject: Subject, model: SmallModel, one: Session, other: Session) -> Finding | None:
    """Run two sessions in turn; the results of neither touch those of the other."""
    feeds = [model.feeds(seed) for seed in range(2)]
    expected = [model.expected(fed) for fed in feeds]
    pairs = list(zip((one, other), feeds, expected, strict=True))
    kept = [(want, subject.run(session, fed)) for session, fed, want in pairs * 2]
    for want, results in kept:
        found = _difference(subject, model, want, results)
        if found is not None:
            return found
    return shared({}, [array for _, results in kept for array in results])


# -- buffers -------------------------------------------------------------------------------------


def bound_outputs_are_new(subject: Subject, model: SmallModel, session: Session) -> Finding | None:
    """Bind inputs, let outputs be allocated; those of one run outlive the next."""
    feeds, kept = [model.feeds(seed) for seed in range(2)], []
    binding = session.io_binding()
    for fed in feeds:
        for name, array in fed.items():
            binding.bind_cpu_input(name, array)
        for name in session.graph.outputs:
            binding.bind_output(name)
        _run_bound(session, binding)
        kept.append(binding.get_outputs())
    for fed, results in zip(feeds, kept, strict=True):
        found = _difference(subject, model, model.expected(fed), results)
        if found is not None:
            return found
    return shared({}, [array for results in kept for array in results])


def buffers_are_filled(subject: Subject, model: SmallModel, session: Session) -> Finding | None:
    """Have results written into buffers, the same ones for several runs."""
    return _filled(subject, model, session, spread=False)


def spread_buffers_are_filled(
    subject: Subject, model: SmallModel, session: Session
) -> Finding | None:
    """Have results written into every second column of larger arrays, and nowhere else."""
    return _filled(subject, model, session, spread=True)


def _filled(
    subject: Subject, model: SmallModel, session: Session, *, spread: bool
) -> Finding | None:
    binding = session.io_binding()
    step = 2 if spread else 1
    rooms: dict[int, _Array] = {}
    several = [subject.run(session, model.feeds(seed)) for seed in range(2)]
    for place, (name, one, other) in enumerate(zip(session.graph.outputs, *several, strict=True)):
        if one.shape == other.shape and one.ndim:
            shape = (*one.shape[:-1], step * one.shape[-1])
            rooms[place] = np.full(shape, _GUARD, one.dtype)
            binding.bind_output(name, rooms[place][..., ::step])
        else:
            binding.bind_output(name)
    for seed in range(2):
        feeds = model.feeds(seed)
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        with untouched(feeds):
            _run_bound(session, binding)
        results = binding.get_outputs()
        for place, room in rooms.items():
            results[place] = room[..., ::step]
        found = _difference(subject, model, model.expected(feeds), results)
        if found is not None:
            return Finding(found.outcome, f"in the buffer: {found.detail}")
        if spread and any(_is_touched(room) for room in rooms.values()):
            return Finding(Outcome.FAIL_ALIAS, "it wrote beside the elements of a buffer")
    return None


def _is_touched(room: _Array) -> bool:
    return bool((room[..., 1::2] != np.full((), _GUARD, room.dtype)).any())


def _run_bound(session: Session, binding: Any) -> None:
    try:
        session.run_with_iobinding(binding)
    except SubgraphkitError as error:
        raise Stopped(Outcome.FAIL_RUN, str(error)) from error
