"""A child that carries trials out, with limits, and is started again when it dies of one."""

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.campaign.trials import Attack, Outcome, answer_of

ADDRESSES: Final = 10 << 30
"""Bytes of address space that a child may have: libraries take much more than they use."""

_SELF: Final = Path("/proc/self")
_JUDGING: Final = 30.0
"""Seconds that judges are given at least: they are not those who are tried."""
_READY: Final = b"\n"
_DIE_WITH_PARENT: Final = 1


class Child:
    """A forked process that answers requests in their order; used by one thread.

    A fork inherits what was imported, so that it is ready in a few milliseconds.

    ``work``: What is done in it with every request; what it raises is an outcome.
    """

    def __init__(
        self,
        work: Callable[[Any], Outcome],
        wall: float,
        scratch: Path | None = None,
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._work, self._begin, self._wall = work, begin, wall
        self._said = (scratch or Path()) / f"said-{os.urandom(4).hex()}.txt"
        self._is_quiet = scratch is not None
        self._pid = 0
        self.waiting: deque[Any] = deque()

    def send(self, request: Any) -> None:
        """Ask for something; the answer comes out of ``answers``."""
        if not self._pid:
            self._start()
        if not self.waiting:
            self._since = time.monotonic()
        self.waiting.append(request)
        with suppress(BrokenPipeError):
            os.write(self._down, json.dumps(request).encode() + b"\n")

    def answers(self, seconds: float) -> Iterator[tuple[Any, Outcome]]:
        """Yield the requests that were answered within so many seconds, or met an end."""
        if not self.waiting:
            return
        ready, _, _ = select.select([self._up], [], [], seconds)
        data = os.read(self._up, 1 << 16) if ready else None
        if data:
            self._since = time.monotonic()
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                yield self.waiting.popleft(), Outcome(**json.loads(line))
        elif data == b"":
            yield self._died(how_it_died(self._reap()))
        elif time.monotonic() - self._since > self._wall:
            self.stop()
            yield self._died(Outcome("hang", "wall", f"silent for {self._wall:g} s"))

    def only(self, request: Any) -> Outcome:
        """Ask for one thing and wait for it."""
        self.send(request)
        while True:
            for _, outcome in self.answers(1.0):
                return outcome

    def stop(self) -> None:
        """End the process; what waits is lost unless it is sent again."""
        if self._pid:
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:  # it has not come so far as to have a group
                os.kill(self._pid, signal.SIGKILL)
            self._reap()

    def said(self) -> str:
        """Return the end of what the last process printed."""
        with suppress(OSError):
            return self._said.read_bytes()[-2000:].decode(errors="replace")
        return ""

    def _died(self, outcome: Outcome) -> tuple[Any, Outcome]:
        """Blame the request that was being answered, and go on with the others in a new process."""
        outcome.text = f"{outcome.text}; {self.said()}"[:600]
        culprit, *others = self.waiting
        self.waiting.clear()
        for request in others:
            self.send(request)
        return culprit, outcome

    def _start(self) -> None:
        below, self._down = os.pipe()
        self._up, above = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._down)
            os.close(self._up)
            self._serve(below, above)
        os.close(below)
        os.close(above)
        self._rest, self._since = b"", time.monotonic()
        if self._begin is not None and os.read(self._up, 1) != _READY:
            raise RuntimeError(f"a child cannot begin: {self.said()}")

    def _serve(self, below: int, above: int) -> None:
        """Answer until nothing is asked any more; never returns."""
        status = 1
        try:
            os.setsid()
            die_with_parent()
            if self._is_quiet:
                said = os.open(self._said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
                for descriptor in (1, 2):
                    os.dup2(said, descriptor)
                faulthandler.disable()  # pytest's writes to the screen whatever descriptor 2 is
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
            if self._begin is not None:
                self._begin()
                os.write(above, _READY)
            with os.fdopen(below, "rb") as requests:
                for line in requests:
                    outcome = answer_of(partial(self._work, json.loads(line)))
                    os.write(above, json.dumps(asdict(outcome)).encode() + b"\n")
            status = 0
        except BaseException as error:  # noqa: BLE001 (whatever it is, the parent reads it)
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(status)

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        os.close(self._down)
        os.close(self._up)
        return os.waitstatus_to_exitcode(status)


def trial_child(attack: Attack, backend: str, scratch: Path) -> Child:
    """Return a child that answers ``{"seed": n}`` and ``{"case": ...}`` with outcomes."""

    def begin() -> None:
        attack.prepare(scratch, backend)

    return Child(partial(_measured, attack, backend), attack.wall, scratch, begin)


def judge_child(attack: Attack, scratch: Path) -> Child:
    """Return a child that judges answers; ``ran`` says that they are right or nobody knows."""

    def work(request: Any) -> Outcome:
        _allow(attack.cpu)
        case = request["case"] if "case" in request else attack.case(request["seed"])
        return attack.judged(case, request["answers"]) or Outcome("ran", "unjudged")

    return Child(work, max(attack.wall, _JUDGING), scratch)


def in_fork(step: Callable[[], Outcome | None], seconds: float = 30.0) -> Outcome:
    """Carry a step out in a fork of this process, which may lose its limits, its disk or its life.

    ``seconds``: After how long it hangs, and is killed.
    """

    def work(_: object) -> Outcome:
        try:
            return step() or Outcome("ran")
        finally:  # what came of it takes some room to be written
            for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
                resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)

    child = Child(work, seconds)
    try:
        return child.only(None)
    finally:
        child.stop()


def killed_after(step: Callable[[], Outcome], seconds: float) -> None:
    """Begin a step in a fork, and kill that after so long, wherever it is."""
    child = Child(lambda _: step(), seconds)
    child.send(None)
    time.sleep(seconds)
    child.stop()


def die_with_parent() -> None:
    """Let the system end this process as soon as the one that started it has gone."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def how_it_died(code: int) -> Outcome:
    """Tell a crash from a limit on processor time."""
    if code == -signal.SIGXCPU:
        return Outcome("hang", "cpu", "took all the processor time it was given")
    if code < 0:
        name = signal.Signals(-code).name
        return Outcome("crash", name, f"ended by {name}")
    return Outcome("crash", f"exit {code}", f"ended with status {code}")


def _measured(attack: Attack, backend: str, request: Any) -> Outcome:
    case = request["case"] if "case" in request else attack.case(request["seed"])
    _allow(attack.cpu * 2)
    before, start = _forget_peak(), time.process_time()
    outcome = answer_of(lambda: attack.attempt(case, backend))
    if outcome.kind == "coded" and not attack.may_refuse:
        outcome.kind = "wrong"
    outcome.seconds = round(time.process_time() - start, 3)
    outcome.bytes = _status("VmHWM") - before
    if outcome.kind in {"ran", "coded"}:
        over = [("cpu", outcome.seconds > attack.cpu), ("memory", outcome.bytes > attack.bytes)]
        for key in (key for key, is_over in over if is_over):
            text = f"{outcome.seconds} s, {outcome.bytes >> 20} MiB; {outcome.kind} {outcome.key}"
            return Outcome("over-limit", key, text, seconds=outcome.seconds, bytes=outcome.bytes)
    return outcome


def _allow(seconds: float) -> None:
    """Let this process use so much more processor time, before the system ends it."""
    used = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, resource.RLIM_INFINITY))


def _forget_peak() -> int:
    """Measure the peak of memory from now on; return what is in use."""
    with suppress(OSError):
        (_SELF / "clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    _, _, rest = (_SELF / "status").read_text().partition(f"{field}:")
    return int(rest.split()[0]) * 1024
