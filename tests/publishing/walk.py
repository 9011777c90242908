"""The way of a backend's author, walked in an environment of its own; ``make walk``.

It writes ``docs/walk.txt``, which the guide shows: every command that ``new-backend`` says
comes next, what it printed and how long it took. The first that fails ends it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.jobs import ROOT

TRANSCRIPT: Final = ROOT / "docs" / "walk.txt"
NEW: Final = "subgraphkit author new-backend acme acme"
SECONDS: Final = 900.0
MOST_LINES: Final = 24
"""How many lines of what a command prints are shown; more lose their middle."""


def main() -> int:
    """Walk, and write the transcript; the exit status says whether every command ended well."""
    with tempfile.TemporaryDirectory(prefix="walk-") as place:
        folder, started = Path(place), time.monotonic()
        wheels = _wheels(folder)
        lines, status = [], 0
        for command in _commands(folder, wheels):
            begun = time.monotonic()
            code, printed = _carry_out(command, folder)
            took = time.monotonic() - begun
            lines += [f"$ {command}", *_shortened(printed.replace(str(folder), "~")), ""]
            lines[-1:] = [f"# {took:.0f} s", ""] if took >= 1 else [""]
            sys.stdout.write(f"{took:6.1f} s  {code}  {command}\n")
            if code:
                sys.stdout.write(printed)
                status = 1
                break
        lines.append(f"# all of it: {(time.monotonic() - started) / 60:.1f} minutes")
    if not status:
        TRANSCRIPT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return status


def _wheels(folder: Path) -> list[str]:
    """Build our own wheels, which stand for what an index will have."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*command, str(ROOT / "backends" / "numpy")], check=True)
    return sorted(path.name for path in folder.glob("*.whl"))


def _commands(folder: Path, wheels: Sequence[str]) -> Iterator[str]:
    yield "python -m venv .venv"
    yield f"pip install --quiet {' '.join(wheels)}"
    yield NEW
    listed = subprocess.run(
        [sys.executable, "-m", "subgraphkit", *NEW.split()[1:], "--json"],
        cwd=tempfile.mkdtemp(dir=folder),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    for command in json.loads(listed.stdout)["data"]["next"][1:]:
        yield from (f"cd acme; {one}" for one in command.split(" && "))
    yield "ls acme/dist"


def _carry_out(command: str, folder: Path) -> tuple[int, str]:
    quiet = {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "SUBGRAPH_PROGRESS": "none"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUBGRAPH_")}
    path = os.pathsep.join([str(folder / ".venv" / "bin"), os.environ["PATH"]])
    own = {"HOME": str(folder), "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}
    kept.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-c", command.replace("python -m venv", f"{sys.executable} -m venv")],
        cwd=folder,
        env={**kept, **quiet, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def _shortened(printed: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", re.sub(r"(Linux)-\S+", r"\1", printed))
    lines = [line.rstrip() for line in plain.splitlines()]
    if len(lines) <= MOST_LINES:
        return lines
    half = MOST_LINES // 2
    return [*lines[:half], "...", *lines[-half:]]


if __name__ == "__main__":
    sys.exit(main())
