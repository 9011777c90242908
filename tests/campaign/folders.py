"""Damage of caches and bundles, deaths while they are written, and disks without room."""

import ctypes
import os
import random
import resource
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from onnx import ModelProto, numpy_helper

import subgraphkit as sk
from subgraphkit.compiling.caching import keying
from subgraphkit.errors import SubgraphkitError
from tests.campaign.children import in_fork, killed_after
from tests.campaign.trials import RAN, Attack, Case, Outcome, require
from tests.models import parsed
from tests.storing import Storing

X: Final = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
_WAYS: Final = ("flip", "cut", "grow", "zero", "swap", "gone", "link", "random", "same", "folder")
_ELSEWHERE: Final = ("gone", "link", "folder")
_NEW_MOUNTS: Final = 0x20000
_NEW_USER: Final = 0x10000000
_PRIVATE: Final = 0x44000
_SMALLEST, _LARGEST = 4, 160
"""Kilobytes that a small disk has."""


def model(seed: int = 1) -> ModelProto:
    """Return a model of two products and a Gemm between, which ``storing`` leaves to NumPy."""
    text = """wide (float[2, 16] x) => (float[2, 16] y)
        { a = MatMul(x, w1) b = Gemm(a, w2) y = MatMul(b, w3) }"""
    made, rng = parsed(text), np.random.default_rng(seed)
    for name in ("w1", "w2", "w3"):
        weight = rng.uniform(-0.1, 0.1, (16, 16)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weight, name))
    return made


def selection(backend: str) -> Any:
    """Return what a session is told of a backend; ``storing`` is the one of the tests."""
    return [Storing, "numpy"] if backend == "storing" else backend


def opened(source: Any, backend: str, cache: Path | None = None) -> sk.InferenceSession:
    """Open a model or a bundle, with a cache in a folder or none."""
    where: dict[str, Any] = {"cache": "off"} if cache is None else {"cache_dir": cache}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a damaged entry is not used
        return sk.InferenceSession(source, selection(backend), on_fallback="ok", **where)


class _Folders(Attack):
    """What attacks on folders share: a model, what it computes, a sound cache and bundle."""

    backends: ClassVar[Sequence[str]] = ("storing", "numpy", "openvino")

    def prepare(self, scratch: Path, backend: str) -> None:
        self._folder = scratch / f"{self.name}-{backend}-{os.getpid()}"
        self._sound, self._work = self._folder / "sound", self._folder / "work"
        self._model = model()
        # The backend is a part of the tests, which may be edited while this goes on.
        keying._is_changed = lambda *_: False
        with opened(self._model, backend, self._sound / "cache") as session:
            self._expected = session.run(None, {"x": X})[0]
            session.export(self._sound / "bundle")

    def check(self, session: sk.InferenceSession) -> None:
        """Run a session, which is to compute what the sound one did."""
        with session:
            (result,) = session.run(None, {"x": X})
        require(np.array_equal(result, self._expected), "another result")

    def fresh(self) -> Path:
        """Return an empty folder to work in."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        return self._work


class Damage(_Folders):
    """Damage files of a cache, and open the model with it."""

    name, kept, may_refuse = "cache", "cache", False
    about = "compiled engines damaged in the cache, the model opened with it"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        count = rng.choice((1, 1, 1, 2, 4))
        return {
            "changes": [
                {
                    "file": rng.randrange(1000),
                    "way": rng.choice(_WAYS),
                    "at": rng.random(),
                    "byte": rng.randrange(256),
                    "size": rng.choice((1, 1, 1, 8, 100)),
                }
                for _ in range(count)
            ]
        }

    def attempt(self, case: Case, backend: str) -> Outcome:
        target = self.fresh() / self.kept
        shutil.copytree(self._sound / self.kept, target)
        for change in case["changes"]:
            files = sorted(path for path in target.rglob("*") if path.is_file())
            if files:
                _damage(files, change, target.parent / "outside")
        self.check(self._open(target, backend))
        return RAN

    def _open(self, target: Path, backend: str) -> sk.InferenceSession:
        return opened(self._model, backend, target)


class BundleDamage(Damage):
    """Damage files of a bundle, and open it."""

    name, kept, may_refuse = "bundle", "bundle", True
    about = "bundles damaged and opened"

    def _open(self, target: Path, backend: str) -> sk.InferenceSession:
        return opened(target, backend)


class Kills(_Folders):
    """Kill a process that compiles, keeps engines and exports; then open what it left."""

    name, may_refuse = "kills", False
    about = "processes killed while they compile, write to the cache and export a bundle"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        return {"after": round(rng.random() * 0.06, 5), "before": rng.random() < 0.5}

    def attempt(self, case: Case, backend: str) -> Outcome:
        folder = self.fresh()
        cache, bundle = folder / "cache", folder / "bundle"
        if case["before"]:
            shutil.copytree(self._sound / "bundle", bundle)

        def work() -> Outcome:
            with opened(self._model, backend, cache) as session:
                while True:
                    session.export(bundle, overwrite=True)

        killed_after(work, case["after"])
        self.check(opened(self._model, backend, cache))
        if bundle.exists():
            self.check(opened(bundle, backend))
        require(bundle.exists() or not case["before"], "a bundle that was there is gone")
        with opened(self._model, backend, cache) as session:
            session.export(bundle, overwrite=True)
        left = [path.name for path in folder.iterdir() if path.name not in {"cache", "bundle"}]
        require(not left, f"left after the next export: {len(left)}")
        return RAN


class FullDisk(_Folders):
    """Compile, keep and export on a disk that is too small; a tmpfs where one may be mounted."""

    name, may_refuse = "disk", False
    about = "caches and bundles written where there is little or no room"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        return {"kilobytes": rng.randrange(_SMALLEST, _LARGEST), "bundle": rng.random() < 0.5}

    def attempt(self, case: Case, backend: str) -> Outcome:
        folder, size = self.fresh(), case["kilobytes"] << 10

        def work() -> Outcome | None:
            if not _mount_small(folder, size):
                resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))
            session = opened(self._model, backend, folder / "cache")
            if case["bundle"]:
                try:
                    session.export(folder / "bundle")
                except SubgraphkitError:
                    require(not (folder / "bundle").exists(), "half a bundle")
                else:
                    self.check(opened(folder / "bundle", backend))
            self.check(session)
            self.check(opened(self._model, backend, folder / "cache"))
            return None

        return in_fork(work)


class Scarce(_Folders):
    """Open and run with few descriptors, or with little memory.

    Not with none at all: Python waits for ever for a thread that fails before its first line.
    """

    name = "scarce"
    backends = ("storing", "numpy", "onnxruntime", "openvino", "onednn")
    about = "sessions opened and run with few descriptors or little memory"

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return {"descriptors": rng.randrange(24)}
        return {"megabytes": round(2 + rng.random() ** 3 * 256, 2)}

    def attempt(self, case: Case, backend: str) -> Outcome:
        folder = self.fresh()

        def work() -> Outcome | None:
            if "descriptors" in case:
                most = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
                limit = most + case["descriptors"]
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, _most(resource.RLIMIT_NOFILE)))
            else:
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                limit = pages * resource.getpagesize() + int(case["megabytes"] * (1 << 20))
                resource.setrlimit(resource.RLIMIT_AS, (limit, _most(resource.RLIMIT_AS)))
            self.check(opened(self._model, backend, folder / "cache"))
            return None

        return in_fork(work)


def _mount_small(folder: Path, size: int) -> bool:
    """Let a folder be a file system of so many bytes, for this process only, where one may."""
    library = ctypes.CDLL(None)
    allowed = not library.unshare(_NEW_MOUNTS) or not library.unshare(_NEW_USER | _NEW_MOUNTS)
    if not allowed or library.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    options = f"size={size}".encode()
    return not library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options)


def _most(limit: int) -> int:
    """Return up to what a limit may be raised again."""
    return resource.getrlimit(limit)[1]


def _damage(files: Sequence[Path], change: Case, outside: Path) -> None:
    """Change one file in one way."""
    path = files[change["file"] % len(files)]
    if change["way"] in _ELSEWHERE:
        _displace(path, change["way"], outside)
        return
    data = bytearray(path.read_bytes())
    place, size = int(change["at"] * len(data)), change["size"]
    match change["way"]:
        case "flip" if data:
            data[place] ^= change["byte"] or 1
        case "cut":
            del data[place:]
        case "grow":
            data[place:place] = bytes([change["byte"]]) * size
        case "zero":
            data[place : place + size] = bytes(len(data[place : place + size]))
        case "random":
            data = bytearray(random.Random(change["byte"]).randbytes(len(data)))
        case _:
            data = bytearray(files[change["byte"] % len(files)].read_bytes())
    path.write_bytes(data)


def _displace(path: Path, way: str, outside: Path) -> None:
    """Put nothing, a folder or a link in the place of a file."""
    shutil.move(path, outside)
    if way == "folder":
        path.mkdir()
    elif way == "link":
        path.symlink_to(outside)
