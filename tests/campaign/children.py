"""A child that carries trials out, with limits, and is started again when it dies of one."""

import ctypes
import faulthandler
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Final

from tests.campaign.trials import Attack, Outcome, answer_of

ADDRESSES: Final = 10 << 30
"""Bytes of address space that a child may have: libraries take much more than they use."""

_SELF: Final = Path("/proc/self")
_JUDGING: Final = 30.0
"""Seconds that judges are given at least: they are not those who are tried."""
_DIE_WITH_PARENT: Final = 1


class Child:
    """A forked process that answers one request after the other; used by one thread.

    A fork inherits what was imported, so that it is ready in a few milliseconds.

    ``work``: What is done in it with every request; what it raises is an outcome.
    """

    def __init__(
        self,
        work: Callable[[Any], Outcome],
        wall: float,
        scratch: Path | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._begin, self._wall = work, begin, wall
        self._said = (scratch or Path()) / f"said-{os.urandom(4).hex()}.txt"
        self._is_quiet = scratch is not None
        self._pid = 0

    def only(self, request: Any) -> Outcome:
        """Ask for one thing and wait for it."""
        if not self._pid:
            self._start()
        try:
            self._link.send(request)
            if self._link.poll(self._wall):
                answer: Outcome = self._link.recv()
                return answer
            outcome = Outcome("hang", "wall", f"silent for {self._wall:g} s")
            self.stop()
        except (EOFError, ConnectionError):
            outcome = how_it_died(self._reap())
        outcome.text = f"{outcome.text}; {self.said()}"[:600]
        return outcome

    def stop(self) -> None:
        """End the process, if there is one."""
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

    def _start(self) -> None:
        self._link, above = Pipe()
        self._pid = os.fork()
        if not self._pid:
            self._link.close()
            self._serve(above)
        above.close()
        try:
            self._link.recv()
        except EOFError:
            raise RuntimeError(f"a child cannot begin: {self.said()}") from None

    def _serve(self, link: Any) -> None:
        """Answer until this process is ended; never returns."""
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
            self._begin()
            link.send(None)
            while True:
                link.send(answer_of(partial(self._work, link.recv())))
        except BaseException as error:  # noqa: BLE001 (whatever it is, the parent reads it)
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(1)

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        self._link.close()
        return os.waitstatus_to_exitcode(status)


class Trials:
    """A child that carries ``{"seed": n}`` or ``{"case": ...}`` out, and one that judges."""

    def __init__(self, attack: Attack, backend: str, scratch: Path) -> None:
        begin = partial(attack.prepare, scratch, backend)
        self._trial = Child(partial(_measured, attack, backend), attack.wall, scratch, begin)
        self._judge = Child(partial(_judged, attack), max(attack.wall, _JUDGING), scratch)

    def only(self, request: Any) -> Outcome:
        """Carry one trial out, and have its answers judged."""
        outcome = self._trial.only(request)
        if outcome.answers:
            verdict = self._judge.only({**request, "answers": outcome.answers})
            if verdict.kind == "wrong":
                return verdict
            outcome.judged = verdict.key == "judged"
        return outcome

    def stop(self) -> None:
        """End both."""
        self._trial.stop()
        self._judge.stop()


def in_fork(step: Callable[[], Outcome | None], seconds: float = 30.0) -> Outcome:
    """Carry a step out in a fork of this process, which may lose its limits or its life.

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


def _case(attack: Attack, request: Any) -> Any:
    return request["case"] if "case" in request else attack.case(request["seed"])


def _judged(attack: Attack, request: Any) -> Outcome:
    """Judge answers; ``ran`` says that they are right or nobody knows."""
    _allow(attack.cpu)
    return attack.judged(_case(attack, request), request["answers"]) or Outcome("ran", "unjudged")


def _measured(attack: Attack, backend: str, request: Any) -> Outcome:
    case = _case(attack, request)
    _allow(attack.cpu * 2)
    before, start = _forget_peak(), time.process_time()
    outcome = answer_of(lambda: attack.attempt(case, backend))
    seconds = round(time.process_time() - start, 3)
    grown = _status("VmHWM") - before
    if outcome.kind in {"ran", "coded"}:
        over = [("cpu", seconds > attack.cpu), ("memory", grown > attack.bytes)]
        for key in (key for key, is_over in over if is_over):
            text = f"{seconds} s, {grown >> 20} MiB; {outcome.kind} {outcome.key}"
            return Outcome("over-limit", key, text)
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
