"""Checks of a session: runs, results that stay, threads, buffers.

Each check gets an open session and returns its fault, or None. It raises ``Stopped`` where a run
fails.
"""

import multiprocessing
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, takewhile
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InputError, SubgraphkitError
from subgraphkit.processes.child_process import crowd, how_it_ended
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome, Stopped, breach
from subgraphkit.testing.comparison import find_shared_memory, watch_feeds
from subgraphkit.testing.small_models import SmallModel
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.variants import LAYOUTS

_Array = npt.NDArray[Any]
_RUNS: Final = 5
_MANY_RUNS: Final = 130
_THREADS: Final = 8
_FORKED_SECONDS: Final = 20.0
_SWITCH_SECONDS: Final = 1e-4
_GUARD: Final = 77  # stands beside a buffer, and must stand there afterwards


@dataclass(frozen=True)
class Opened:
    """An open session of a model on the backend under test."""

    subject: Subject
    model: SmallModel
    session: Session

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once; Stopped if that fails, or a fed array was written to."""
        with watch_feeds(feeds):
            return self.subject.run(self.session, feeds)

    def verdict(self, feeds: Mapping[str, _Array], results: Sequence[Any]) -> Finding | None:
        """Compare; results share no memory with feeds or with one another."""
        native = {n: it.astype(it.dtype.newbyteorder("="), copy=False) for n, it in feeds.items()}
        wanted = self.model.expected_outputs(native)
        return self.subject.judge.verdict(self.session, native, wanted, results)

    def feed(self, feeds: Mapping[str, Any]) -> Finding | None:
        """Run once and compare."""
        return self.verdict(feeds, self.run(feeds))


Check = Callable[[Opened], Finding | None]
"""Finds fault with a session of a model, or returns None."""


def check_session(subject: Subject, model: SmallModel, check: Check, **road: Any) -> Finding:
    """Open a session of a model, have it checked, and return how that ended."""
    return subject.check(model.proto, lambda one: check(Opened(subject, model, one)), **road)


def fed_in_a_layout(layout: Callable[[_Array], _Array], opened: Opened) -> Finding | None:
    """Feed arrays of some layout or byte order."""
    feeds = opened.model.feeds()
    return opened.feed({n: layout(one) if one.ndim else one for n, one in feeds.items()})


def fed_one_array_for_several(opened: Opened) -> Finding | None:
    """Feed one array for all inputs of a row that have its shape and dtype."""
    several: dict[tuple[Any, ...], _Array] = {}
    feeds = dict(opened.model.feeds())
    for name, array in reversed(feeds.items()):
        key = name.rpartition("_")[2], array.shape, array.dtype
        feeds[name] = several.setdefault(key, array)
    return opened.feed(feeds)


def repeated_runs_are_right(opened: Opened) -> Finding | None:
    """Run on the same again and again, with something else in between; then on it alone.

    That is often enough for a library to change to faster code, or for a full counter. No backend
    promises the same bits; results that differ from the first run are judged anew.
    """
    feeds, others = opened.model.feeds(0), opened.model.feeds(1)
    first: list[bytes] = []
    for number in range(_RUNS + _MANY_RUNS):
        if number < _RUNS and (found := opened.feed(others)) is not None:
            return found
        results = opened.run(feeds)
        bits = [one.tobytes() for one in results]
        found = None if bits == first else opened.verdict(feeds, results)
        if found is not None:
            return found.about(f"run {number + 1} on the same" if first else "")
        first = first or bits
    return None


def results_stay(opened: Opened) -> Finding | None:
    """Keep the results of several runs: none may change or share memory with another."""
    kept: list[tuple[list[_Array], list[_Array]]] = []
    for seed in range(_RUNS):
        results = opened.run(opened.model.feeds(seed))
        kept.append((results, [array.copy() for array in results]))
    for number, (results, copies) in enumerate(kept):
        for name, one, other in zip(opened.session.graph.outputs, results, copies, strict=True):
            text = ""
            if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                text = f"output {name!r} of run {number} was overwritten by a later run"
            elif not one.flags.writeable:
                text = f"output {name!r} belongs to the caller and cannot be written to"
            if text:
                return Finding(Outcome.FAIL_ALIAS, text)
    return find_shared_memory({}, [array for results, _ in kept for array in results])


def written_in_place(opened: Opened) -> Finding | None:
    """Write to arrays that have been fed and feed them again: their new values count.

    They are filled anew, then one element of each changes. Then elements change places, which
    changes no sum of them.
    """
    feeds = {name: array.copy() for name, array in opened.model.feeds().items()}
    for change in (lambda _: None, *_CHANGES):
        for array in feeds.values():
            change(array)
        if (found := opened.feed(feeds)) is not None:
            return found.about("fed arrays that were written to")
    return None


def _change_one(array: _Array) -> None:
    if array.size:
        array.flat[array.size // 2] = array.flat[0]


_CHANGES: Final[Sequence[Callable[[_Array], None]]] = (
    lambda array: np.copyto(array, np.flip(array).copy()),
    _change_one,
    lambda array: np.copyto(array, np.roll(array, array.size // 2 + 1).copy()),
)


def good_run_after_refused_feeds(opened: Opened) -> Finding | None:
    """Feed wrong arrays, again and again; they are refused, and do no harm."""
    for wrong in ({}, {"x": np.zeros((1, 2, 3, 4, 5), np.float16)}, {"z": np.zeros(3)}):
        try:
            opened.session.run(None, wrong)
        except InputError:
            continue
        return breach(f"feeds that do not fit were accepted: {wrong}")
    return opened.feed(opened.model.feeds())


# -- several at once -----------------------------------------------------------------------------


def threads_share_a_session(opened: Opened) -> Finding | None:
    """Run one session from eight threads, each with feeds of its own."""
    return in_threads(opened.subject, opened.model, [lambda: opened.session] * _THREADS)


def in_threads(
    subject: Subject,
    model: SmallModel,
    entrances: Sequence[Callable[[], Session]],
    runs: int = _RUNS,
    seconds: float = 0.0,
) -> Finding | None:
    """Run a session in each of several threads, all at once, with feeds of its own.

    ``entrances``: Each is called in a thread of its own and returns that thread's session.
    ``runs``: How often each thread runs it at least.
    ``seconds``: How long each goes on at least, for threads meet where they take long enough.
    """
    start = threading.Barrier(len(entrances))
    fed = [model.feeds(number) for number in range(len(entrances))]
    wanted = [model.expected_outputs(feeds) for feeds in fed]

    def work(number: int) -> Finding | None:
        feeds, expected = fed[number], wanted[number]
        try:
            session = entrances[number]()
            start.wait()  # without a limit: a run has ended that passes it
            end = time.monotonic() + seconds
            turns = takewhile(lambda at: at < runs or time.monotonic() < end, count())
            results = (subject.run(session, feeds) for _ in turns)
            verdict = partial(subject.judge.verdict, session, feeds, expected)
            found = map(verdict, results)
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
            return finding.about(f"in thread {number} of {len(entrances)}")
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
            return breach(f"a forked child did not return from a run within {_FORKED_SECONDS:g} s")
        found = mine.recv()
    except EOFError:
        child.join()
        return breach(f"a forked child ended in a run: {how_it_ended(child.exitcode or 0)}")
    finally:
        child.kill()
        child.join()
    return found and Finding.from_dict(found).about("in a forked child")


def sessions_by_turns(one: Opened, other: Session) -> Finding | None:
    """Run two sessions in turn; the results of neither touch those of the other."""
    pairs = [(each, one.model.feeds(seed)) for seed, each in enumerate((one.session, other))]
    kept = [(replace(one, session=own), fed, one.subject.run(own, fed)) for own, fed in pairs * 2]
    found = next(filter(None, (each.verdict(fed, results) for each, fed, results in kept)), None)
    return found or find_shared_memory({}, [array for *_, results in kept for array in results])


def two_sessions_by_turns(opened: Opened) -> Finding | None:
    """Run a second session of the model in turn with the first."""
    with opened.subject.session(opened.model.proto) as other:
        return sessions_by_turns(opened, other)


def two_sessions_in_threads(opened: Opened) -> Finding | None:
    """Run a second session of the model beside the first."""
    with opened.subject.session(opened.model.proto) as other:
        entrances = [lambda: opened.session, lambda: other]
        return in_threads(opened.subject, opened.model, entrances)


# -- buffers -------------------------------------------------------------------------------------


def bound_outputs_are_new(opened: Opened) -> Finding | None:
    """Bind inputs, let outputs be allocated; those of one run outlive the next."""
    feeds, kept = [opened.model.feeds(seed) for seed in range(2)], []
    binding = opened.session.io_binding()
    for fed in feeds:
        for name in opened.session.graph.outputs:
            binding.bind_output(name)
        kept.append(_run_bound(opened, binding, fed))
    found = next(filter(None, map(opened.verdict, feeds, kept)), None)
    return found or find_shared_memory({}, [array for results in kept for array in results])


def buffers_are_filled(opened: Opened, *, spread: bool = False) -> Finding | None:
    """Have results written into buffers, the same ones for several runs.

    ``spread``: Whether those are every second column of larger arrays, and nothing else is written.
    """
    binding, names = opened.session.io_binding(), opened.session.graph.outputs
    step = 2 if spread else 1
    rooms: dict[int, _Array] = {}
    several = [opened.run(opened.model.feeds(seed)) for seed in range(2)]
    for place, (name, one, other) in enumerate(zip(names, *several, strict=True)):
        if one.shape == other.shape and one.ndim:
            shape = (*one.shape[:-1], step * one.shape[-1])
            rooms[place] = np.full(shape, _GUARD, one.dtype)
            binding.bind_output(name, rooms[place][..., ::step])
        else:
            binding.bind_output(name)
    for seed in range(2):
        feeds = opened.model.feeds(seed)
        results = _run_bound(opened, binding, feeds)
        for place, room in rooms.items():
            results[place] = room[..., ::step]
        if (found := opened.verdict(feeds, results)) is not None:
            return found.about("in the buffer")
        # beside truth values stands the guard in their type
        guards = ((one, np.full((), _GUARD, one.dtype)) for one in rooms.values())
        if spread and any((room[..., 1::2] != guard).any() for room, guard in guards):
            return Finding(Outcome.FAIL_ALIAS, "it wrote beside the elements of a buffer")
    return None


def _run_bound(opened: Opened, binding: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """Bind feeds and run once; Stopped if that fails, or a fed array was written to."""
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    try:
        with watch_feeds(feeds):
            opened.session.run_with_iobinding(binding)
    except SubgraphkitError as error:
        raise Stopped(Outcome.FAIL_RUN, str(error)) from error
    return list(binding.get_outputs())


USES: Final[Mapping[str, Check]] = {
    "runs/written_in_place": written_in_place,
    "runs/repeated": repeated_runs_are_right,
    "runs/results_stay": results_stay,
    **{f"feeds/{name}": partial(fed_in_a_layout, layout) for name, layout in LAYOUTS.items()},
    "feeds/one_for_several": fed_one_array_for_several,
    "io_binding/new_outputs": bound_outputs_are_new,
    "io_binding/buffers": buffers_are_filled,
    "io_binding/spread_buffers": partial(buffers_are_filled, spread=True),
}
"""The checks of a session of a small model, and of one of each family of operators."""
