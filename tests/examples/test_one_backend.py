"""The README's first lines, in environments that hold the core and one backend."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from subgraphkit.testing.light_models import seeded_model
from tests.house.tree import ROOT

FIRST = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

PROOF = """
import json
homes = sorted({one.backend for one in session.partitioning.subgraphs})
print(json.dumps([homes, list(scores.shape), [record.name for record in sk.list_backends()]]))
"""


def environment_with(backend, folder):
    """Make a folder to import from: everything installed but our own, the core, and one backend."""
    for place in {Path(one) for one in sys.path if one.endswith("site-packages")}:
        for library in place.parents[1].glob("*.so*"):  # where wheels put what is not Python
            (folder.parents[1] / library.name).symlink_to(library)
        for entry in place.iterdir():
            link = folder / entry.name
            ours = entry.name.lower().lstrip("_").startswith(("subgraphkit", "editable"))
            if not ours and entry.suffix != ".pth" and not link.exists():
                link.symlink_to(entry)
    packages = {"subgraphkit": ROOT, f"subgraphkit-{backend}": ROOT / "backends" / backend}
    for distribution, project in packages.items():
        name = distribution.replace("-", "_")
        (folder / name).symlink_to(project / name)
        facts = folder / f"{name}-{metadata.version(distribution)}.dist-info"
        facts.mkdir()
        for file in ("METADATA", "entry_points.txt"):
            text = metadata.distribution(distribution).read_text(file) or ""
            (facts / file).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "openvino"])
def test_the_first_lines_run_on_whichever_backend_is_installed(backend, tmp_path):
    site = tmp_path / "lib" / "python" / "site-packages"
    site.mkdir(parents=True)
    environment_with(backend, site)
    (tmp_path / "squeezenet.onnx").write_bytes(seeded_model("squeezenet").SerializeToString())
    found = FIRST.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-S", "-c", found[1] + PROOF],  # without the packages of these tests
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "SUBGRAPH_CONFIG": "none"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == f'[["{backend}"], [1, 1000, 1, 1], ["{backend}"]]'
