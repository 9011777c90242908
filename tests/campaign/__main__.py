"""The command line of the campaign."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ["SUBGRAPH_CONFIG"] = "none"

from tests.campaign import results  # noqa: E402 (libraries read the environment)
from tests.campaign.attacks import ATTACKS  # noqa: E402 (the same)
from tests.campaign.engine import FOUND, Engine, report  # noqa: E402 (the same)
from tests.campaign.trials import Attack  # noqa: E402 (the same)

_SHORTEST: Final = 2.0
"""Seconds that an attack is given at least."""


def main() -> int:
    """Run one attack, or all of them for some minutes, or write the page."""
    given = _parser().parse_args()
    if given.attack:
        return _one(given)
    failed = _all(given) if given.minutes else 0
    text = results.PAGE.read_text(encoding="utf-8")
    results.PAGE.write_text(results.page(text, results.read(), ATTACKS), encoding="utf-8")
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--attack", choices=sorted(ATTACKS), help="run this one")
    what.add_argument("--minutes", type=float, help="run all of them, about so long")
    what.add_argument("--page", action="store_true", help="write the page from the results")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--seed", type=int, help="the first seed; goes on where the results end")
    parser.add_argument("--count", type=int, default=10**9, help="trials at most")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--jobs", type=int, default=2, help="attacks at a time")
    parser.add_argument("--found", type=Path, default=FOUND, help="where failures are kept")
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    return parser


def _one(given: Any) -> int:
    attack, seed, key = ATTACKS[given.attack], given.seed, (given.attack, given.backend)
    if seed is None:
        seed = results.read(given.results).get(" ".join(key), {"next": 0})["next"]
    with tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as scratch:
        os.environ["XDG_CACHE_HOME"] = os.environ["XDG_STATE_HOME"] = scratch
        revision = results.commit()  # of what is tried, for it may change meanwhile
        engine = Engine(attack, given.backend, Path(scratch), given.found)
        tally = engine.run(range(seed, seed + given.count), given.seconds)
    results.add(given.results, key, revision, seed, tally)
    rate = tally.trials / max(tally.seconds, 1e-9)
    report(f"{' '.join(key)}: {rate:.1f} a second, {dict(tally.counts.most_common())}")
    report(f"  {tally.judged} judged, {dict(tally.codes.most_common())}")
    return 1 if tally.found else 0


def _all(given: Any) -> int:
    """Give each attack its share of the time, some of them at once."""
    rounds = [(one, backend) for one in ATTACKS.values() for backend in one.backends]
    seconds = given.minutes * 60 * given.jobs / sum(attack.share for attack, _ in rounds)

    def run(attack: Attack, backend: str) -> int:
        share = max(_SHORTEST, seconds * attack.share)
        words = ["--attack", attack.name, "--backend", backend, "--seconds", f"{share:.1f}"]
        words += ["--found", str(given.found), "--results", str(given.results)]
        command = [sys.executable, "-m", "tests.campaign", *words]
        return subprocess.run(command, check=False, cwd=results.ROOT).returncode

    with ThreadPoolExecutor(given.jobs) as pool:
        return max(pool.map(lambda one: run(*one), rounds))


sys.exit(main())
