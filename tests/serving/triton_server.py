"""The real server of the wheel ``nvidia-pytriton``, started in a child and ended by its number."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

STUB = "triton_python_backend_stub"


class Server:
    """A running server; it loads what it is told to."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        request = urllib.request.Request(f"{self.url}/v2/{path}", body, dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def read(self, path: str) -> Any:
        status, body, _ = self.ask(path)
        assert status == 200, body
        return json.loads(body)

    def load(self, name: str) -> tuple[int, bytes]:
        return self.ask(f"repository/models/{name}/load", b"")[:2]

    def stubs(self) -> set[int]:
        return {pid for pid, parent in _processes() if parent == self.process.pid}

    def ready(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.ask("health/live")[0] == 200:
                    return True
            time.sleep(0.1)
        return False


def require_triton() -> Path:
    """Return the folder of the server, or skip and say what is missing."""
    found = importlib.util.find_spec("pytriton")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the server of Triton is not installed: pip install --no-deps nvidia-pytriton")
    folder = Path(found.submodule_search_locations[0], "tritonserver")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = folder / "python_backend_stubs" / version / STUB
    linked = subprocess.run(["ldd", stub], capture_output=True, text=True, check=False)
    missing = [line.split()[0] for line in linked.stdout.splitlines() if "not found" in line]
    if not stub.exists() or any("libpython" in name for name in missing):
        pytest.skip(
            f"Triton's Python backend cannot run here: no shared library of Python {version}"
        )
    return folder


@contextlib.contextmanager
def started(repository: Path, folder: Path, work: Path) -> Iterator[Server]:
    """Start the server on a repository, with nothing loaded; it and its stubs are gone after."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = work / "server.log"
    libraries = folder.parents[1] / "nvidia_pytriton.libs"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*_installed(folder, work), f"--http-port={port}", f"--model-repository={repository}"],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"LD_LIBRARY_PATH": str(libraries)},
        )
    server = Server(process, f"http://127.0.0.1:{port}", log)
    try:
        assert server.ready(60), log.read_text(errors="replace")
        yield server
    finally:
        _end(server)


def _installed(folder: Path, work: Path) -> list[str]:
    """Copy the server, with the stub of this Python where its backend looks for it."""
    backend = work / "backends" / "python"
    shutil.copytree(folder / "backends" / "python", backend)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = shutil.copy(folder / "python_backend_stubs" / version / STUB, backend)
    program = shutil.copy(folder / "bin" / "tritonserver", work)
    for file in (stub, program):
        Path(file).chmod(0o755)
    return [
        program,
        f"--backend-directory={work / 'backends'}",
        "--http-address=127.0.0.1",
        "--allow-grpc=false",
        "--allow-metrics=false",
        "--model-control-mode=explicit",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=2",
    ]


def _end(server: Server) -> None:
    stubs = server.stubs()
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.wait(20)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait(10)
    end = time.monotonic() + 10
    while (left := stubs & {pid for pid, *_ in _processes()}) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes {left} outlived the server"


def _processes() -> Iterator[tuple[int, int]]:
    """Go through the processes that are alive: their numbers, and those of their parents."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(folder.name), int(parent)
