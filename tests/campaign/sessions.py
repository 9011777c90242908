"""Sessions used by many threads, after a fork, and interrupted; and run for very long."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from subgraphkit.processes.memory import resident_bytes
from tests.campaign.children import in_fork
from tests.campaign.folders import opened
from tests.campaign.trials import Attack, Case, Outcome, WrongError, require
from tests.models import LINEAR, parsed

X: Final = np.arange(6, dtype=np.float32).reshape(2, 3)
PLAIN: Final = X @ np.array([[1, 2], [3, 4], [5, 6]], np.float32)
_ALL: Final = ("numpy", "onnxruntime", "openvino", "onednn", "tvm", "iree")


def bias(number: int) -> np.ndarray:
    """Return the weights of a version."""
    return np.array([number, 10 * number], np.float32)


def version_of(result: Any) -> int:
    """Return the version that a whole result was computed with."""
    rest = np.asarray(result) - PLAIN
    number = round(float(rest[0, 0]))
    require(np.array_equal(rest, np.tile(bias(number), (2, 1))), f"of no version: {rest.tolist()}")
    return number


class _Sessions(Attack):
    may_refuse = False
    backends: ClassVar[Sequence[str]] = _ALL

    def prepare(self, scratch: Path, backend: str) -> None:
        self._model = parsed(LINEAR)

    def open(self, backend: str) -> sk.InferenceSession:
        """Open the model, with weights of version 1."""
        session = opened(self._model, backend if backend == "numpy" else f"{backend},numpy")
        session.update_weights({"bias": bias(1)})
        return session


class Threads(_Sessions):
    """Run in eight threads while weights change, and while the session is closed."""

    name, wall, cpu = "threads", 120.0, 60.0
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


class Flat(_Sessions):
    """Run a session very often, and look at the memory in use."""

    name, wall, cpu = "flat", 600.0, 300.0
    about = "runs of one session, the memory in use looked at"

    def case(self, seed: int) -> Case:
        return {"runs": 100_000, "most": 4 << 20}

    def attempt(self, case: Case, backend: str) -> Outcome:
        with self.open(backend) as session:
            for _ in range(2000):
                session.run(None, {"x": X})
            before = resident_bytes() or 0
            for _ in range(case["runs"]):
                session.run(None, {"x": X})
            grown = (resident_bytes() or 0) - before
        if grown > case["most"]:
            raise WrongError(f"{grown >> 10} KiB more after {case['runs']} runs")
        return Outcome("ran", times=case["runs"], text=f"{grown >> 10} KiB")


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
