"""A process that has imported what most others import, and forks to be one of them.

A fork is a process of its own like any other, with its folder, environment, limits, path and
streams; what it is spared is a second of imports. ``python -m subgraphkit`` of tests of the command
is made in this way, and so are its children, and those of tests that use ``ready_children``. Tests
of how a process starts, what number it has or how it is stopped have the interpreter itself. So do
those of what it imports; other programs of tests run by ``python_command``.
"""

import array
import atexit
import contextlib
import functools
import gc
import importlib
import inspect
import os
import resource
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from subgraphkit.processes import calling, child_process

LAUNCHER: Final = Path(__file__).with_name("launcher.py")

_NOT_READY: Final = child_process.child_command

# No library that keeps threads of its own, such as ONNX Runtime: they do not survive a fork.
_IMPORTED: Final = (
    "onnx.parser", "subgraphkit.bundling.collecting", "subgraphkit.cli.commands",
    "subgraphkit.placing.inference_session", "subgraphkit.rewriting", "subgraphkit.testing.levels",
    "subgraphkit_numpy.backend",
)  # fmt: skip

# What a fork can take over although imports are done; other variables may decide how they go.
_FREE: Final = ("SUBGRAPH", "XDG_", "PYTEST_", "PYTHONPATH=", "PWD=", "HOME=", "COLUMNS=", "LINES=")
_FREE_TOO: Final = (
    "NO_COLOR", "FORCE_COLOR", "TERM=", "TMPDIR=", "LANG=", "LC_", "PATH=", "SHELL=",
)  # fmt: skip
_TOLD: Final = (
    "BUILT=", "COMPILATIONS=", "COMPILING_SECONDS=", "CRASH=", "FAIL=", "FAULTS=", "ILLNESS=",
    "MARK=", "NEEDS_API=", "OFF_BY_FACTOR=",
)  # fmt: skip
"""What the plugins of tests are told, which are imported afterwards."""


def child_command(module: str, words: Sequence[str] = ()) -> list[str]:
    """Return what starts one of our modules, as ``subgraphkit.processes`` would.

    The conformance kit looks at what importing a backend does to a process that has not done it
    yet, so that process is what it is where the backend is one that a fork has.
    """
    callers = (frame.frame for frame in inspect.stack(0))
    apart = next((one for one in callers if one.f_code.co_name == "call_in_subprocess"), None)
    if apart is not None and apart.f_locals["subject"].installed == "numpy":
        return _NOT_READY(module, words)
    return _launched("-P", "-m", module, *words)


def python_command(*words: str) -> list[str]:
    """Return what runs Python with a program (``-c``), a module (``-m``) or a script, and words."""
    return _launched(*words)


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run ``subgraphkit`` with some words, as ``subprocess.run`` would.

    Raises:
        TimeoutExpired: It took too long, and was ended.
    """
    return subprocess.run(
        _launched("-m", "subgraphkit", *words),
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _launched(*words: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(LAUNCHER), _started(), *words]


@functools.cache
def _started() -> str:
    """Return the socket of the process; in a fork of it, that of the same one."""
    if _LISTENING:
        return _LISTENING[0]
    address = str(Path(tempfile.mkdtemp(prefix="ready-")) / "socket")
    source, sink = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, address, str(sink)],
        stdin=subprocess.DEVNULL,
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        pass_fds=[sink],
        start_new_session=True,
    )
    os.close(sink)
    atexit.register(_stop, process, address)
    os.read(source, 1)  # it listens, or has ended
    os.close(source)
    return address


def _stop(process: "subprocess.Popen[bytes]", address: str) -> None:
    process.terminate()
    process.wait()
    with contextlib.suppress(OSError):
        Path(address).unlink()
        Path(address).parent.rmdir()


class _Job:
    """A packet of ``tests.launcher``: what the fork is to be."""

    def __init__(self, packet: bytes, held: Sequence[int]) -> None:
        self.folder, *rest = packet.decode("utf-8", "surrogateescape").split("\0")
        lists = []
        while rest:
            count = int(rest[0])
            lists.append(rest[1 : count + 1])
            del rest[: count + 1]
        numbers, limits, self.words, self.variables = lists
        self.descriptors = dict(zip(map(int, numbers), held, strict=True))
        self.limits = list(map(int, limits))

    def fits(self) -> bool:
        """Say whether the imports of this process are those of that one."""
        return self._bound(self.variables) == self._bound(f"{n}={t}" for n, t in BASE.items())

    @staticmethod
    def _bound(variables: Any) -> set[str]:
        return {one for one in variables if not one.startswith((*_FREE, *_FREE_TOO, *_TOLD))}

    def become(self) -> None:
        """Make this process what the job says."""
        far = 1 << 14
        moved = {to: _moved(held, far) for to, held in self.descriptors.items()}
        os.closerange(0, far)
        for to, held in moved.items():
            os.dup2(held, to)
            os.close(held)
        names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
        for name, *pair in zip(names, self.limits[::2], self.limits[1::2], strict=True):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (pair[0], pair[1]))
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(one.split("=", 1) for one in self.variables)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (kept)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (kept)
        sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 (kept)
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self.is_safe = self.words[0] == "-P"
        self.what, *words = self.words[self.is_safe :]
        self.name = words.pop(0) if self.what in {"-c", "-m"} else self.what
        is_script = self.name is self.what
        first = [] if self.is_safe else [str(Path(self.name).parent) if is_script else self.folder]
        sys.path[:0] = [*first, *filter(None, paths)]
        sys.path_importer_cache.clear()
        importlib.invalidate_caches()
        sys.argv[:] = [self.what, *words]

    def run(self) -> None:
        """Run what was asked for, in what has become of this process."""
        vars(calling)["child_command"] = child_command
        if self.what == "-m":
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        elif self.what == "-c":
            sys.modules["__main__"] = ModuleType("__main__")
            exec(self.name, vars(sys.modules["__main__"]))
        else:
            runpy.run_path(self.name, run_name="__main__")


def _moved(held: int, far: int) -> int:
    import fcntl  # noqa: PLC0415 (a fork alone needs it)

    return fcntl.fcntl(held, fcntl.F_DUPFD, far)


BASE: Final = dict(os.environ)
_LISTENING: Final[list[str]] = []
"""The socket of this process, and of its forks."""

_KEPT: Final[list[object]] = []
"""What a fork closes by number; collected, it would close whatever has the number by then."""


def _serve(address: str) -> _Job | None:
    """Fork for each job and answer with its end; return the job in the fork."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    _LISTENING.append(address)
    os.close(int(sys.argv[2]))
    waiting = selectors.DefaultSelector()
    waiting.register(listening, selectors.EVENT_READ, None)
    while True:
        for key, _ in waiting.select():
            if key.data is None:
                if (job := _accepted(listening, waiting)) is not None:
                    return job
            else:
                _followed(key, waiting)


def _accepted(listening: socket.socket, waiting: selectors.BaseSelector) -> _Job | None:
    """Take a job; return it in the fork that is made for it, None in this process."""
    door, _ = listening.accept()
    packet, ancillary, _, _ = door.recvmsg(1 << 18, socket.CMSG_SPACE(253 * 4))
    held = array.array("i")
    for _, _, rights in ancillary:
        held.frombytes(rights)
    job = _Job(packet, held) if packet else None
    if job is None or not job.fits():
        with contextlib.suppress(OSError):
            door.send(b"no")
        door.close()
        for number in held:
            os.close(number)
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads beside a fork: they wait for work
        process = os.fork()
    if not process:
        os.setsid()
        _KEPT.extend((listening, waiting, door))
        return job
    for number in held:
        os.close(number)
    with contextlib.suppress(OSError):
        door.send(b"yes")
    told = (door, process, os.pidfd_open(process))
    waiting.register(door, selectors.EVENT_READ, told)
    waiting.register(told[2], selectors.EVENT_READ, told)
    return None


def _followed(key: selectors.SelectorKey, waiting: selectors.BaseSelector) -> None:
    """Hand on a signal, end what nobody waits for any more, or tell of an end."""
    door, process, handle = key.data
    if key.fileobj is door:
        said = b""
        with contextlib.suppress(OSError):
            said = door.recv(16)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, int(said)) if said else os.killpg(process, signal.SIGKILL)
        if said:
            return
        waiting.unregister(door)
    else:
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(OSError):
            door.send(b"%d" % os.waitstatus_to_exitcode(status))
        with contextlib.suppress(KeyError):
            waiting.unregister(door)
        waiting.unregister(handle)
        os.close(handle)
        door.close()


def _main() -> None:
    address = sys.argv[1]
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # not everybody installs every backend
            importlib.import_module(name)
    gc.freeze()  # what is here stays, and no fork copies it by looking at it
    if (job := _serve(address)) is not None:
        job.become()
        job.run()


if __name__ == "__main__":
    _main()
