"""Jobs of tests in environments of their own: bounded, counted, with no process left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parents[1]
INSTALLING_SECONDS: Final = 1800.0
ENDING_SECONDS: Final = 10.0
SUBREAPER: Final = 36
"""What ``prctl`` calls it that children of children become ours when their parents end."""


def adopt_descendants() -> None:
    """Become the parent of every process that outlives its own, so that all of them are found."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends too


def outcome_of(
    folder: Path, words: Sequence[str], seconds: float, printed: int | None = None
) -> str:
    """Run pytest with some words in an environment; return what became of it as one line."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", f"--junitxml={report}", *words]
    code = run(command, seconds, printed)
    wrong = [f"not over within {seconds:.0f} s"] if code is None else []
    wrong += [f"status {code}"] if code else []
    if left := end_descendants():
        wrong.append(f"left {left} processes behind")
    told = summary(report) if report.exists() else "no report"
    return f"FAILED, {', '.join(wrong)}: {told}" if wrong else told


def install(folder: Path, steps: Sequence[Sequence[str]]) -> str:
    """Carry out the steps that make an environment; return why that cannot be, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        if problem := failure(step, folder / "install.log", INSTALLING_SECONDS):
            return problem
    return ""


def failure(command: Sequence[str], log: Path, seconds: float) -> str:
    """Run a command that writes into a log; return the line that says why it failed, or nothing."""
    with log.open("w") as printed:
        code = run(command, seconds, printed.fileno())
    if code == 0:
        return ""
    said = log.read_text().strip().splitlines() or [f"status {code}"]
    said = ["it took too long"] if code is None else said
    return next((line for line in reversed(said) if "error" in line.lower()), said[-1])


def run(command: Sequence[str], seconds: float, printed: int | None = None) -> int | None:
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
