"""The jobs of engines are bounded, count what was skipped, and leave no process behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs import ROOT
from tests.serving.__main__ import JOBS

PROGRAM = """
import json, sys
from pathlib import Path
from tests import jobs
from tests.serving import __main__ as engines

jobs.ROOT = engines.ROOT = engines.ENVIRONMENTS = Path(sys.argv[1])
jobs.ENDING_SECONDS = 0.5
jobs.adopt_descendants()
limits = {"tidy": 60, "leaving": 60, "slow": 1}
lines = {name: engines.carried_out(name, engines.Job("", (f"test_{name}.py",), limit))
         for name, limit in limits.items()}
print(json.dumps([lines, jobs.children()]))
"""
TESTS = {
    "tidy": "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip('no device')\n",
    "leaving": "import subprocess\ndef test_one():\n"
    "    subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "def test_two(): assert False\n",
    "slow": "import time\ndef test_one(): time.sleep(600)\n",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_jobs_are_bounded_and_leave_nothing_behind(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    for name, text in TESTS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        (tmp_path / name / "made").touch()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )
    lines, left = json.loads(done.stdout.splitlines()[-1])
    assert left == []
    assert lines["tidy"] == "1 passed, 1 skipped; 1 x no device"
    told = "FAILED, status 1, left 1 processes behind: 1 passed, 1 failed"
    assert lines["leaving"] == told
    assert lines["slow"].startswith("FAILED, not over within 1 s: ")


def test_every_test_that_needs_an_engine_is_in_a_job():
    in_jobs = {path for job in JOBS.values() for one in job.tests for path in ROOT.glob(one)}
    files = set((ROOT / "tests" / "serving").glob("test_*.py")) - {Path(__file__)}
    assert {path for path in files if "make serving" in path.read_text()} <= in_jobs
