"""Jobs of engines: an environment for each, its tests within a limit, no process left behind.

``python -m tests.serving [NAME ...]``; ``make serving`` runs all of them. An environment is made in
``build/serving`` from this project's own extras and kept until ``pyproject.toml`` changes. An
engine that cannot be installed here is skipped, which is said and counted.
"""

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parents[2]
ENVIRONMENTS: Final = ROOT / "build" / "serving"
OURS: Final = ("backends/numpy", "backends/onnxruntime[cpu]")
FOR_TESTS: Final = ("pytest>=9.0", "hypothesis", "sybil>=10.0")
INSTALLING_SECONDS: Final = 1800.0
ENDING_SECONDS: Final = 10.0
SYSTEMS: Final = "/usr/bin/python3"
SUBREAPER: Final = 36
"""What ``prctl`` calls it that children of children become ours when their parents end."""


@dataclass(frozen=True)
class Job:
    """The tests of an engine, and what they need.

    Attributes:
        extra: The extra of this project that has the engine.
        tests: Which files, as patterns below the root.
        seconds: How long the tests may take, the installation apart.
        apart: What is installed without its dependencies, since they contradict ours.
        embeds: Whether the engine embeds Python, and so needs one that is a shared library.
    """

    extra: str
    tests: tuple[str, ...]
    seconds: float
    apart: tuple[str, ...] = ()
    embeds: bool = False


JOBS: Final = {
    "ray": Job("ray", ("tests/serving/test_ray_*.py",), 240),
    "triton": Job(
        "triton",
        ("tests/serving/test_triton*.py", "tests/serving/test_oip*.py"),
        120,
        ("nvidia-pytriton>=0.7,<0.8",),
        embeds=True,
    ),
    "parquet": Job("parquet", ("tests/serving/test_parquet.py",), 120),
    "recipes": Job("recipes", ("tests/serving/test_recipes*.py",), 120),
}


def main() -> int:
    """Run jobs one after the other; the exit status says whether none failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.serving", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(JOBS)}")
    names = parser.parse_args().names or list(JOBS)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends too
    lines = {name: carried_out(name, JOBS[name]) for name in names}
    sys.stdout.writelines(f"{name:8} {line}\n" for name, line in lines.items())
    return any(line.startswith("FAILED") for line in lines.values())


def carried_out(name: str, job: Job) -> str:
    """Run a job; return what became of it as one line."""
    files = sorted(str(path) for pattern in job.tests for path in ROOT.glob(pattern))
    if not files:
        return f"FAILED, there is no {' or '.join(job.tests)}"
    folder = ENVIRONMENTS / name
    problem = install(folder, job)
    if problem:
        return f"skipped: {name} cannot be installed here: {problem}"
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    words = ["-m", "pytest", "-q", f"--junitxml={report}", *files]
    code = run([str(folder / "bin" / "python"), *words], job.seconds)
    wrong = [f"not over within {job.seconds:.0f} s"] if code is None else []
    wrong += [f"status {code}"] if code else []
    if left := end_descendants():
        wrong.append(f"left {left} processes behind")
    told = summary(report) if report.exists() else "no report"
    return f"FAILED, {', '.join(wrong)}: {told}" if wrong else told


def install(folder: Path, job: Job) -> str:
    """Make the environment of a job, unless it is there; return why that cannot be."""
    stamp, wanted = folder / "made", ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime > wanted.stat().st_mtime:
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # compiled, so that processes of an engine start in time, and not compile each for itself
    pip += ["--python", python, "install", "--compile"]
    editable = [word for one in (f".[{job.extra}]", *OURS) for word in ("-e", one)]
    steps = [
        [interpreter(job), "-m", "venv", "--without-pip", str(folder)],
        [*pip, *editable, *FOR_TESTS],
        *([*pip, "--no-deps", one] for one in job.apart),
    ]
    log = folder / "install.log"
    for step in steps:
        with log.open("w") as printed:
            code = run(step, INSTALLING_SECONDS, printed.fileno())
        if code != 0:
            said = log.read_text().strip().splitlines() or ["it took too long"]
            return next((line for line in reversed(said) if "error" in line.lower()), said[-1])
    stamp.touch()
    return ""


def interpreter(job: Job) -> str:
    """Return the Python to make an environment with: this one, or the system's if that fits better.

    One that is no shared library cannot be embedded; the tests say so and are skipped.
    """
    words = [SYSTEMS, "-c", "import sys, sysconfig; sys.exit(sys.version_info < (3, 11) or "]
    words[-1] += "not sysconfig.get_config_var('Py_ENABLE_SHARED'))"
    if not job.embeds or sysconfig.get_config_var("Py_ENABLE_SHARED") or not Path(SYSTEMS).exists():
        return sys.executable
    return SYSTEMS if run(words, ENDING_SECONDS) == 0 else sys.executable


def run(command: list[str], seconds: float, printed: int | None = None) -> int | None:
    """Run a command from the root; return its exit status, or None if it took too long."""
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=printed, stderr=printed, start_new_session=True
    )
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)  # so that pytest still writes its report
        try:
            child.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return None
    except BaseException:
        child.kill()
        end_descendants()
        raise


def end_descendants() -> int:
    """Wait for what is ending, end the rest by their ids, and return how many those were.

    The children of a process that ends become ours, so that in the end all of them are found.
    """
    ended, last = 0, time.monotonic() + ENDING_SECONDS
    while found := children():
        is_late = time.monotonic() > last
        for number in found:
            if is_late:
                os.kill(number, signal.SIGKILL)
            ended += bool(os.waitpid(number, 0 if is_late else os.WNOHANG)[0] and is_late)
        time.sleep(0.0 if is_late else 0.1)
    return ended


def children() -> list[int]:
    """Return the ids of this process's children, those that nobody has waited for among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            _, parent, *_ = stat.read_text().rpartition(")")[2].split()
            if int(parent) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def summary(report: Path) -> str:
    """Count what passed, failed and was skipped, the reasons of the latter one by one."""
    cases = list(ET.parse(report).iter("testcase"))
    kinds = Counter(next((one.tag for one in case if one.tag in KINDS), "passed") for case in cases)
    reasons = Counter(one.get("message", "") for case in cases for one in case.iter("skipped"))
    counts = ", ".join(f"{kinds[kind]} {word}" for kind, word in KINDS.items() if kinds[kind])
    return "; ".join([counts, *(f"{times} x {reason}" for reason, times in reasons.items())])


KINDS: Final = {"passed": "passed", "failure": "failed", "error": "in error", "skipped": "skipped"}


if __name__ == "__main__":
    sys.exit(main())
