"""Processes of the Ray that a test started, found by what Ray calls them."""

import os
from pathlib import Path


def ray_processes(title: str, doing: str = "") -> list[int]:
    """Return the ids of processes whose title begins so, and has what they are doing in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            said = (place / "cmdline").read_bytes().decode(errors="replace")
            if said.startswith(title) and doing in said and _is_ours(place.name):
                found.append(int(place.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _is_ours(pid: str) -> bool:
    """Say whether a process is a child of one of our children, which is what starts workers."""
    return _parent(_parent(pid)) == str(os.getpid())


def _parent(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
