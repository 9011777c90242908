"""Sessions short of files or memory."""

import os
import random
import resource
from pathlib import Path
from typing import Final

import numpy as np

import subgraphkit as sk
from tests.campaign.children import in_fork
from tests.campaign.trials import Attack, Case, Outcome, require
from tests.models import LINEAR, parsed
from tests.storing import Storing

X: Final = np.arange(6, dtype=np.float32).reshape(2, 3)
EXPECTED: Final = X @ np.array([[1, 2], [3, 4], [5, 6]], np.float32) + np.array([10, 20])


class Scarce(Attack):
    """Open and run with few descriptors, or with little memory.

    Not with none at all: Python waits for ever for a thread that fails before its first line.
    """

    name = "scarce"
    about = "sessions opened and run with few descriptors or little memory"
    backends, share = ("storing",), 3.0

    def prepare(self, scratch: Path, backend: str) -> None:
        self._model = parsed(LINEAR)
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
            require(np.array_equal(session.run(None, {"x": X})[0], EXPECTED), "another result")
