"""External data of models: strange places, and folders exchanged while a model is read."""

import ctypes
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import onnx

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from tests.campaign.children import die_with_parent
from tests.campaign.mutations import INTEGERS, NAMES
from tests.campaign.trials import Attack, Case, Outcome, WrongError, require
from tests.models import parsed

OURS: Final = np.full(4, 1.0, np.float32)
SECRET: Final = np.full(4, 1234.5, np.float32)
_EXCHANGE: Final = 2
_HERE: Final = -100
_OPENS: Final = 20
"""How often a model is opened in one trial of a race."""
_PLACES: Final = (
    *NAMES,
    *(".", "..", "/", "./real/d.bin", "real", "real/", "real//d.bin", "link/d.bin", "link.bin"),
    *("../outside/d.bin", "real/../../outside/d.bin", "{outside}/d.bin", "a" * 300, "a/" * 3000),
    *("/dev/zero", "/dev/stdin", "/proc/self/environ", "fifo", "real/d.bin\x00x"),
    *("C:\\x", "\\\\host\\x", "file:///etc/passwd", "~/x", "$HOME/x", "real/./d.bin", "deep/up"),
)


class External(Attack):
    """Open a model whose data are elsewhere, maybe while somebody exchanges folders."""

    name = "external"
    backends: ClassVar[Sequence[str]] = ("numpy",)
    about = "external data in strange places, and folders exchanged with links while a model opens"

    def prepare(self, scratch: Path, backend: str) -> None:
        self._outside = scratch / f"outside-{os.getpid()}"
        self._folder = scratch / f"model-{os.getpid()}"
        for folder in (self._outside, self._folder / "real", self._folder / "deep"):
            folder.mkdir(parents=True)
        (self._outside / "d.bin").write_bytes(SECRET.tobytes())
        (self._folder / "real" / "d.bin").write_bytes(OURS.tobytes())
        (self._folder / "plain.bin").write_bytes(OURS.tobytes())
        (self._folder / "link").symlink_to(self._outside)
        (self._folder / "link.bin").symlink_to(self._outside / "d.bin")
        (self._folder / "deep" / "up").symlink_to(self._outside / "d.bin")
        os.mkfifo(self._folder / "fifo")
        self._exchange(("real", "link"), ("plain.bin", "link.bin"))

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        case: Case = {"place": rng.choice(("real/d.bin", "plain.bin")), "race": True}
        if rng.random() < 0.5:
            case = {"place": rng.choice(_PLACES), "race": False}
            for key in ("offset", "length"):
                if rng.random() < 0.5:
                    case[key] = rng.choice((*INTEGERS, "x", "", " 4", "0x4", "1e1", "9" * 400))
        return case

    def attempt(self, case: Case, backend: str) -> Outcome:
        path = self._folder / "model.onnx"
        path.write_bytes(self._model(case).SerializeToString())
        if not case["race"]:
            self._opened(path, backend)
            return Outcome("ran")
        for _ in range(_OPENS):
            try:
                self._opened(path, backend)
            except SubgraphkitError:
                continue  # it met the link
        return Outcome("ran", times=_OPENS)

    def _opened(self, path: Path, backend: str) -> None:
        with sk.InferenceSession(path, backend=backend, cache="off") as session:
            (result,) = session.run(None, {"x": np.zeros(4, np.float32)})
        if np.any(result == SECRET[0]):
            raise WrongError("data from outside")
        require(np.array_equal(result, OURS), f"other data: {result.tolist()}")

    def _model(self, case: Case) -> onnx.ModelProto:
        model = parsed("m (float[4] x) => (float[4] y) { y = Add(x, w) }")
        tensor = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
        place = case["place"].replace("{outside}", str(self._outside))
        for key, value in (("location", place), *case.items()):
            if key in {"location", "offset", "length"}:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
        return model

    def _exchange(self, *pairs: tuple[str, str]) -> None:
        """Exchange names of the folder, in a process of its own, for ever."""
        paths = [[os.fsencode(self._folder / name) for name in pair] for pair in pairs]
        if os.fork():
            return
        die_with_parent()
        exchange = ctypes.CDLL(None).renameat2
        while True:
            for one, other in paths:
                exchange(_HERE, one, _HERE, other, _EXCHANGE)
