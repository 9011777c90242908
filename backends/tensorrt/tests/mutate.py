"""Faults put into the run side one by one: of each, a test has to fail.

    python -m backends.tensorrt.tests.mutate [WORD ...]

Every line of ``mutations.txt`` is a file, a text that it has once, what takes its place, and the
test that fails then; if that does not, all are tried. Behind an exclamation mark stands why nothing
can see a fault. Words choose the lines that they are in.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns

# What every child needs is there before it begins, but for the package that has the fault.
import hypothesis.strategies  # noqa: F401 (see above)
import ml_dtypes  # noqa: F401 (see above)
import onnxruntime  # noqa: F401 (see above)
import pytest

import subgraphkit.placing.inference_session
import subgraphkit.testing.light_models
import subgraphkit.testing.official_cases  # noqa: F401 (see above)

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "subgraphkit_tensorrt"
TABLE = HERE / "mutations.txt"
TESTS = (
    "device_faults.py", "device_rules.py", "running.py", "shapes.py", "engines.py", "device_io.py",
    "working_day.py", "arrays.py", "profiles.py", "sessions.py", "neighbours.py",
)  # fmt: skip
_PYTEST = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-p", "no:anyio",
           "--tb=no", "--assert=plain")  # fmt: skip
_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Mutation:
    """One line of the table: ``test`` fails of it, or ``unseen`` says why none can."""

    file: str
    text: str
    other: str
    test: str
    unseen: str

    @property
    def label(self) -> str:
        """The line as people read it."""
        return f"{self.file}: {self.text.strip()!r} -> {self.other.strip()!r}"


def mutations() -> Iterator[Mutation]:
    """Yield the lines of the table."""
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            what, _, unseen = line.partition(" ! ")
            file, text, other, test = (one.replace("\\n", "\n") for one in what.split(" | "))
            yield Mutation(file, text, other, test.strip(), unseen)


def place(mutation: Mutation, folder: Path) -> None:
    """Write a package with the fault below a folder."""
    package = folder / PACKAGE.name
    copytree(PACKAGE, package, ignore=ignore_patterns("__pycache__"))
    file = package / mutation.file
    source = file.read_text()
    assert source.count(mutation.text) == 1, f"not once in the source: {mutation.label}"
    file.write_text(source.replace(mutation.text, mutation.other))


def _test_in_child(folder: str, said: Path, tests: Sequence[str]) -> None:
    """Run tests with what is in a folder, and end."""
    signal.alarm(_SECONDS)
    sys.path.insert(0, folder)
    os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 1)
    code = 3
    try:
        code = pytest.main([*_PYTEST, *(f"{HERE}/test_tensorrt_{name}" for name in tests)])
    finally:
        sys.stdout.flush()
        os._exit(code)


def killed_by(mutation: Mutation) -> str:
    """Return the test that fails of a fault first; empty if none does."""
    with tempfile.TemporaryDirectory() as folder:
        place(mutation, Path(folder))
        for tests in ([mutation.test], TESTS):
            if found := _failing(folder, tests) if all(tests) else "":
                return found
    return ""


def _failing(folder: str, tests: Sequence[str]) -> str:
    said = Path(folder, "said")
    said.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        _test_in_child(folder, said, tests)
    _, ended = os.waitpid(child, 0)
    lines = said.read_text().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if not failed and os.WIFSIGNALED(ended):  # such as by its own alarm
        return f"{tests[0]}, which does not end"
    assert failed or not ended, "\n".join(lines)
    return failed[-1].partition("test_tensorrt_")[2].partition(" - ")[0] if failed else ""


def main(words: Sequence[str]) -> int:
    """Try the lines that words choose; return how many have another end than the table says."""
    wrong = 0
    for mutation in mutations():
        if words and not any(word in mutation.label for word in words):
            continue
        found = killed_by(mutation)
        wrong += bool(found) == bool(mutation.unseen)
        why = mutation.unseen or "a test is missing"
        end = f"killed by {found}" if found else f"SURVIVES: {why}"
        sys.stdout.write(f"{mutation.label}\n    {end}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{wrong} of them do not end as the table says\n")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
