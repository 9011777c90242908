"""Jobs of engines: an environment for each, its tests within a limit, no process left behind.

``python -m tests.serving [NAME ...]``; ``make serving`` runs all of them. An environment is made in
``build/serving`` from this project's own extras and kept until ``pyproject.toml`` changes. An
engine that cannot be installed here is skipped, which is said and counted.
"""

import argparse
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import jobs
from tests.jobs import ROOT, adopt_descendants, outcome_of, run

ENVIRONMENTS: Final = ROOT / "build" / "serving"
OURS: Final = ("backends/numpy", "backends/onnxruntime[cpu]")
FOR_TESTS: Final = ("pytest>=9.0", "hypothesis", "sybil>=10.0")
SYSTEMS: Final = "/usr/bin/python3"


@dataclass(frozen=True)
class Job:
    """The tests of an engine, and what they need.

    Attributes:
        extra: The extra of this project that has the engine.
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
    "ray": Job("grpc", ("tests/serving/test_ray_*.py",), 240),
    "triton": Job(
        "triton",
        ("tests/serving/test_triton*.py", "tests/serving/test_oip*.py"),
        120,
        ("nvidia-pytriton>=0.7,<0.8",),
        embeds=True,
    ),
    "recipes": Job("recipes", ("tests/serving/test_recipes*.py",), 120),
}


def main() -> int:
    """Run jobs one after the other; the exit status says whether none failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.serving", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(JOBS)}")
    names = parser.parse_args().names or list(JOBS)
    adopt_descendants()
    lines = {name: carried_out(name, JOBS[name]) for name in names}
    sys.stdout.writelines(f"{name:8} {line}\n" for name, line in lines.items())
    return any(line.startswith("FAILED") for line in lines.values())


def carried_out(name: str, job: Job) -> str:
    """Run a job; return what became of it as one line."""
    files = sorted(str(path) for pattern in job.tests for path in ROOT.glob(pattern))
    if not files:
        return f"FAILED, there is no {' or '.join(job.tests)}"
    folder = ENVIRONMENTS / name
    if problem := install(folder, job):
        return f"skipped: {name} cannot be installed here: {problem}"
    return outcome_of(folder, files, job.seconds)


def install(folder: Path, job: Job) -> str:
    """Make the environment of a job, unless it is there; return why that cannot be."""
    stamp, wanted = folder / "made", ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime > wanted.stat().st_mtime:
        return ""
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # compiled, so that processes of an engine start in time, and not compile each for itself
    pip += ["--python", python, "install", "--compile"]
    editable = [word for one in (f".[{job.extra}]", *OURS) for word in ("-e", one)]
    problem = jobs.install(
        folder,
        [
            [interpreter(job), "-m", "venv", "--without-pip", str(folder)],
            [*pip, *editable, *FOR_TESTS],
            *([*pip, "--no-deps", one] for one in job.apart),
        ],
    )
    if not problem:
        stamp.touch()
    return problem


def interpreter(job: Job) -> str:
    """Return the Python to make an environment with: this one, or the system's if that fits better.

    One that is no shared library cannot be embedded; the tests say so and are skipped.
    """
    words = [SYSTEMS, "-c", "import sys, sysconfig; sys.exit(sys.version_info < (3, 11) or "]
    words[-1] += "not sysconfig.get_config_var('Py_ENABLE_SHARED'))"
    if not job.embeds or sysconfig.get_config_var("Py_ENABLE_SHARED") or not Path(SYSTEMS).exists():
        return sys.executable
    return SYSTEMS if run(words, jobs.ENDING_SECONDS) == 0 else sys.executable


if __name__ == "__main__":
    sys.exit(main())
