"""Wheels and source archives: built twice, compared, checked, installed, described.

Everything is below ``build/release``; ``dist`` is what would be uploaded.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.jobs import ROOT, failure, install
from tests.publishing.projects import PROJECTS, Project
from tests.publishing.pythons import Line

RELEASE: Final = ROOT / "build" / "release"
SECONDS: Final = 900.0
FORMS: Final = {
    "vendor.citation-file-format": ["CITATION.cff"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [
        ".github/ISSUE_TEMPLATE/wish.yml",
        ".github/ISSUE_TEMPLATE/wrong.yml",
    ],
    "vendor.github-workflows": [".github/workflows/ci.yml"],
    "custom.github-workflows-require-timeout": [".github/workflows/ci.yml"],
}


def rehearse() -> Iterator[Line]:
    """Do everything that comes before an upload."""
    shutil.rmtree(RELEASE, ignore_errors=True)
    dist, again = RELEASE / "dist", RELEASE / "again"
    first, second = RELEASE / "tree", RELEASE / "another" / "place"
    _copy_tree(first, age=0)
    _copy_tree(second, age=400 * 86400)
    for project in PROJECTS:
        problem = _build(project, first, dist, through_archive=True)
        problem = problem or _build(project, second, again, through_archive=False)
        yield _line("build", f"{project.backend}: archive, and a wheel of it", problem)
    made, other = _digests(dist), _digests(again)
    differ = sorted(name for name in made | other if made.get(name) != other.get(name))
    same = f"{len(made)} files, byte for byte"
    yield _line("compare", same, f"these differ: {', '.join(differ)}" if differ else "")
    sums = "".join(f"{digest}  {name}\n" for name, digest in made.items())
    (RELEASE / "SHA256SUMS").write_text(sums)
    yield _tool("twine", "descriptions and metadata", ["check", "--strict", *_files(dist, "*")])
    for form, files in FORMS.items():
        yield _tool("check_jsonschema", form, ["--builtin-schema", form, *files])
    yield from _used(dist)


def _copy_tree(into: Path, *, age: float) -> None:
    """Copy the files that are under version control, with other times and rights.

    ``age``: How many seconds ago the copies say that they were written; 0 leaves rights alone.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, into / name
        if not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if age:
            target.chmod(0o600)
            then = source.stat().st_mtime - age
            os.utime(target, (then, then))


def _build(project: Project, tree: Path, into: Path, *, through_archive: bool) -> str:
    """Build both kinds of archive of a project from a copy of the tree."""
    into.mkdir(parents=True, exist_ok=True)
    folder = tree / project.folder.relative_to(ROOT)
    if through_archive:
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into)]
        return failure([*command, str(folder)], into.parent / "build.log", SECONDS)
    script = "import os, sys; os.chdir(sys.argv.pop(1)); from hatchling.cli import hatchling"
    command = [sys.executable, "-c", f"{script}; sys.exit(hatchling())", str(folder)]
    return failure([*command, "build", "-d", str(into)], into.parent / "build.log", SECONDS)


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a folder, by name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _used(dist: Path) -> Iterator[Line]:
    """Install the wheels where nothing else is, run the demo, and list what came along."""
    folder = RELEASE / "fresh"
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = [*_files(dist, "subgraphkit-*.whl"), *_files(dist, "subgraphkit_numpy-*.whl")]
    steps = [
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        [*pip, "--python", python, "install", *wheels],
    ]
    yield _line("install", "core and NumPy from their wheels", install(folder, steps))
    log = RELEASE / "demo.log"
    demo = ["env", "SUBGRAPH_BACKEND=numpy", python, str(ROOT / "examples/resnet50/demo.py")]
    yield _line("demo", "ResNet-50 beside onnx.reference", failure(demo, log, SECONDS))
    words = ["environment", "--pyproject", "pyproject.toml", "--output-reproducible"]
    words += ["--output-file", str(RELEASE / "sbom.cdx.json"), python]
    yield _tool("cyclonedx_py", "bill of materials of that environment", words)


def _tool(module: str, what: str, words: Sequence[str]) -> Line:
    problem = failure([sys.executable, "-m", module, *words], RELEASE / f"{module}.log", SECONDS)
    return _line(module, what, problem)


def _line(step: str, what: str, problem: str) -> Line:
    return Line(step, what, f"FAILED: {problem}" if problem else "done")


def _files(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern))]
