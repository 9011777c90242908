"""Sessions used by many threads, after a fork, interrupted, and short of files or memory."""

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from tests.campaign.children import in_fork
from tests.campaign.trials import Attack, Case, Outcome, require
from tests.models import LINEAR, parsed
from tests.storing import Storing

X: Final = np.arange(6, dtype=np.float32).reshape(2, 3)
PLAIN: Final = X @ np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def bias(number: int) -> np.ndarray:
    """Return the weights of a version; those of the model are of version 10."""
    return np.array([number, 2 * number], np.float32)


def version_of(result: Any) -> int:
    """Return the version that a whole result was computed with."""
    rest = np.asarray(result) - PLAIN
    number = round(float(rest[0, 0]))
    require(np.array_equal(rest, np.tile(bias(number), (2, 1))), f"of no version: {rest.tolist()}")
    return number


class _Sessions(Attack):
    may_refuse = False

    def prepare(self, scratch: Path, backend: str) -> None:
        self._model = parsed(LINEAR)

    def open(self, backend: str) -> sk.InferenceSession:
        """Open the model, with weights of version 1."""
        chosen = backend if backend == "numpy" else f"{backend},numpy"
        session = sk.InferenceSession(self._model, chosen, on_fallback="ok", cache="off")
        session.update_weights({"bias": bias(1)})
        return session


class Threads(_Sessions):
    """Run in eight threads while weights change, and while the session is closed."""

    name, wall, cpu, share = "threads", 120.0, 60.0, 2.0
    about = "runs by eight threads while weights are updated and sessions closed"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        return {"seconds": 2.0, "update": rng.random() * 0.01, "close": rng.random() < 0.5}

    def attempt(self, case: Case, backend: str) -> Outcome:
        crowd = _Crowd(self.open(backend), 8, may_close=case["close"])
        end, number = time.monotonic() + case["seconds"], 1
        while time.monotonic() < end and not crowd.errors:
            number += 1
            crowd.session.update_weights({"bias": bias(number)})
            time.sleep(case["update"])
        return Outcome("ran", times=crowd.dispersed())


class _Crowd:
    """Threads that run a session until they are told to stop, or it is closed.

    ``count``: How many threads.
    """

    def __init__(self, session: sk.InferenceSession, count: int, *, may_close: bool) -> None:
        self.session, self.errors = session, list[BaseException]()
        self._closing, self._may_close, self._runs = threading.Event(), may_close, [0] * count
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def dispersed(self) -> int:
        """End it; return how often the session was run."""
        self._closing.set()
        if self._may_close:
            self.session.close()
        for thread in self._threads:
            thread.join(30.0)
            require(not thread.is_alive(), "a thread does not come back")
        self.session.close()
        for error in self.errors:
            raise error
        return sum(self._runs)

    def _work(self, place: int) -> None:
        last = 1
        try:
            while not self._closing.is_set():
                number = version_of(self.session.run(None, {"x": X})[0])
                require(number >= last, f"version {number} after {last}")
                last, self._runs[place] = number, self._runs[place] + 1
        except BaseException as error:  # noqa: BLE001 (it is raised in the main thread)
            closed = isinstance(error, SubgraphkitError) and self._may_close
            if not (closed and self._closing.is_set()):
                self.errors.append(error)


class Forks(_Sessions):
    """Fork while four threads run a session, or did; use that and a new one in the fork."""

    name, may_refuse = "forks", True
    about = "forks made while threads run, the session and a new one used in them"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        shares = (("new", 0.5), ("idle", 0.3))
        return {"after": rng.random() * 0.02, **{name: rng.random() < p for name, p in shares}}

    def attempt(self, case: Case, backend: str) -> Outcome:
        crowd = _Crowd(session := self.open(backend), 4, may_close=False)

        def use() -> Outcome | None:
            for _ in range(3):
                version_of((self.open(backend) if case["new"] else session).run(None, {"x": X})[0])
            return None

        time.sleep(case["after"])
        if case["idle"]:
            crowd.dispersed()
        try:
            return in_fork(use, 10.0)
        finally:
            crowd.dispersed()


class Interrupts(_Sessions):
    """Interrupt opening, running or updating; what was interrupted is usable or was not made."""

    name = "interrupts"
    about = "Ctrl-C while a model opens, runs or gets new weights"

    def prepare(self, scratch: Path, backend: str) -> None:
        super().prepare(scratch, backend)
        self._session = self.open(backend)
        self._last = 1
        self._steps: dict[str, Callable[[sk.InferenceSession], Any]] = {
            "open": lambda _: self.open(backend).close(),
            "run": lambda session: [session.run(None, {"x": X}) for _ in range(50)],
            "update": lambda session: session.update_weights({"bias": bias(self._last + 1)}),
        }
        self._seconds = {}
        for name, step in self._steps.items():
            start = time.perf_counter()
            step(self._session)
            self._seconds[name] = time.perf_counter() - start
        self._last = version_of(self._session.run(None, {"x": X})[0])

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        return {"step": rng.choice(("open", "run", "update")), "part": rng.random()}

    def attempt(self, case: Case, backend: str) -> Outcome:
        after = max(1e-6, case["part"] * self._seconds[case["step"]])
        with suppress(KeyboardInterrupt), _struck(after):
            self._steps[case["step"]](self._session)
        number = version_of(self._session.run(None, {"x": X})[0])
        require(number in {self._last, self._last + 1}, f"version {number}, was {self._last}")
        self._last = number
        if case["step"] == "open":
            with self.open(backend) as session:
                version_of(session.run(None, {"x": X})[0])
        return Outcome("ran")


class Scarce(_Sessions):
    """Open and run with few descriptors, or with little memory.

    Not with none at all: Python waits for ever for a thread that fails before its first line.
    """

    name, may_refuse = "scarce", True
    about = "sessions opened and run with few descriptors or little memory"
    backends, share = ("storing",), 3.0

    def prepare(self, scratch: Path, backend: str) -> None:
        super().prepare(scratch, backend)
        self._caches = scratch / f"caches-{os.getpid()}"
        self._opened(self._caches / "sound")  # what is imported now, forks have

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return {"descriptors": rng.randrange(24)}
        return {"megabytes": round(2 + rng.random() ** 3 * 256, 2)}

    def attempt(self, case: Case, backend: str) -> Outcome:
        def work() -> None:
            if "descriptors" in case:
                kind = resource.RLIMIT_NOFILE
                most = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
                limit = most + case["descriptors"]
            else:
                kind = resource.RLIMIT_AS
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                limit = pages * resource.getpagesize() + int(case["megabytes"] * (1 << 20))
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
            self._opened(self._caches / os.urandom(4).hex())

        return in_fork(work)

    def _opened(self, cache: Path) -> None:
        """Open the model with an empty cache, and run it."""
        with sk.InferenceSession(
            self._model, [Storing, "numpy"], on_fallback="ok", cache_dir=cache
        ) as session:
            require(version_of(session.run(None, {"x": X})[0]) == 10, "another result")


@contextmanager
def _struck(after: float) -> Iterator[None]:
    """Press Ctrl-C after so many seconds, once, and not behind the block."""
    previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
