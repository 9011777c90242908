"""A process that has imported what commands import, and forks for each command it is given.

A fork is a process of its own like any other, with its folder, environment, path and streams;
what it is spared is a second of imports. Tests of how the command starts start it themselves.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["run_command"]

# No library that keeps threads of its own, such as ONNX Runtime: they do not survive a fork.
_IMPORTED: Final = (
    "onnx.parser",
    "rich.console",
    "subgraphkit.bundling.collecting",
    "subgraphkit.cli.commands",
    "subgraphkit.placing.inference_session",
    "subgraphkit.rewriting",
    "subgraphkit_numpy.backend",
)


class _Ready:
    """The process, seen from the tests."""

    def __init__(self) -> None:
        variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            text=True,
            start_new_session=True,
        )

    def run(self, job: Mapping[str, Any], seconds: float) -> int:
        """Have a command carried out; return its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self.stop()
            raise subprocess.TimeoutExpired(job["words"], seconds)
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process and what it runs."""
        _started.cache_clear()
        os.killpg(self._process.pid, 9)
        self._process.communicate()


@functools.cache
def _started() -> _Ready:
    ready = _Ready()
    atexit.register(ready.stop)
    return ready


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run ``subgraphkit`` with some words, as ``subprocess.run`` would.

    Raises:
        TimeoutExpired: It took too long, and was ended.
    """
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        job = {"words": [*words], "folder": str(folder), "environment": dict(environment)}
        code = _started().run({**job, "streams": [out.name, err.name]}, timeout)
        texts = [Path(file.name).read_text(encoding="utf-8") for file in (out, err)]
    return subprocess.CompletedProcess([*words], code, *texts)


def _serve(jobs: IO[str], answers: IO[str]) -> dict[str, Any] | None:
    """Fork for each job and answer with its end; return the job in the fork."""
    for line in jobs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads beside a fork: they wait for work
            process = os.fork()
        if not process:
            job: dict[str, Any] = json.loads(line)
            return job
        _, status = os.waitpid(process, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()
    return None


def _become(job: Mapping[str, Any]) -> None:
    """Make this process what the job says."""
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    for target, name in enumerate(job["streams"], 1):
        with Path(name).open("wb") as file:
            os.dup2(file.fileno(), target)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (kept)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [job["folder"], *filter(None, paths)]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    sys.argv[1:] = job["words"]


def _main() -> None:
    jobs, answers = sys.stdin, os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # not everybody installs every backend
            importlib.import_module(name)
    job = _serve(jobs, answers)
    if job is not None:
        answers.close()
        _become(job)
        runpy.run_module("subgraphkit", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
