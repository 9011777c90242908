"""Many trials of one attack: watched, judged, proved alone, and their failures minimised."""

import hashlib
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.campaign.children import Child, judge_child, trial_child
from tests.campaign.trials import Attack, Case, Outcome, Tally

FOUND: Final = Path(__file__).parent / "found"
_AHEAD: Final = 3
"""How many trials a child is asked for before it answers the first."""
_TRIALS_OF_A_CHILD: Final = 2000
"""After so many a new child is started, so that nothing adds up unseen."""
_PROVED: Final = 3
"""How many failures of a signature are proved alone: more of the same say nothing new."""
_MAYBE_NOISE: Final = ("hang", "over-limit")
"""What a machine that does other things as well makes of a trial; it counts if it comes again."""
_LARGEST: Final = 30_000
"""How large a file may be that is kept in the tree."""


class Engine:
    """Carries out trials of one attack on one backend."""

    def __init__(
        self,
        attack: Attack,
        backend: str,
        scratch: Path,
        found: Path | None = None,
        patience: float = 60.0,
    ) -> None:
        self._patience = patience
        self.attack, self.backend, self.scratch, self.found = attack, backend, scratch, found
        self.tally = Tally()
        attack.load()
        self._judge = judge_child(attack, scratch)
        self._met: dict[tuple[str, str], int] = {}

    def run(self, seeds: Iterable[int], seconds: float) -> Tally:
        """Take one seed after the other until there is none left, or the time is over."""
        begin = time.monotonic()
        child = trial_child(self.attack, self.backend, self.scratch)
        for asked, seed in enumerate(seeds, 1):
            if time.monotonic() - begin > seconds:
                break
            child.send({"seed": seed})
            while len(child.waiting) >= _AHEAD:
                self._take(child)
            if asked % _TRIALS_OF_A_CHILD == 0:
                self._finish(child)
                child = trial_child(self.attack, self.backend, self.scratch)
        self._finish(child)
        while self._judge.waiting:
            self._hear_judge(1.0)
        self._judge.stop()
        self.tally.seconds += time.monotonic() - begin
        return self.tally

    def alone(self, request: Any) -> Outcome:
        """Carry one trial out in a child that has seen no other, and judge it."""
        child = trial_child(self.attack, self.backend, self.scratch)
        try:
            outcome = child.only(request)
        finally:
            child.stop()
        if outcome.answers:
            judge = judge_child(self.attack, self.scratch)
            verdict = judge.only({**request, "answers": outcome.answers})
            judge.stop()
            return verdict if verdict.kind == "wrong" else outcome
        return outcome

    def _finish(self, child: Child) -> None:
        while child.waiting:
            self._take(child)
        child.stop()

    def _take(self, child: Child) -> None:
        for request, outcome in child.answers(0.5):
            if outcome.answers:
                self._judge.send({**request, "answers": outcome.answers})
                self._settle(request, outcome)
            elif outcome.failed:
                self._fail(request, outcome)
            else:
                self._settle(request, outcome)
        while len(self._judge.waiting) > _AHEAD:
            self._hear_judge(0.5)
        self._hear_judge(0.0)

    def _hear_judge(self, seconds: float) -> None:
        for request, verdict in self._judge.answers(seconds):
            if verdict.kind == "wrong":
                self.tally.counts["ran"] -= 1
                self.tally.trials -= 1
                self._fail({"seed": request["seed"]}, verdict)
            elif verdict.key == "judged":
                self.tally.judged += 1

    def _settle(self, request: Any, outcome: Outcome) -> None:
        self.tally.add(outcome)

    def _fail(self, request: Any, outcome: Outcome) -> None:
        """Prove a failure alone, minimise the first of its kind, and keep it."""
        count = self._met[outcome.signature] = self._met.get(outcome.signature, 0) + 1
        if count > _PROVED:
            self.tally.add(outcome)
            return
        again = self.alone(request)
        where = f"{self.attack.name} {self.backend} seed {request['seed']}"
        if not again.failed and outcome.kind in _MAYBE_NOISE:
            self.tally.add(again)
            return
        self.tally.add(outcome)
        if not again.failed:
            report(f"{where}: {outcome.kind} {outcome.key}: not alone: {outcome.text[:200]!r}")
            self.tally.found.append((request["seed"], outcome))
        if not again.failed or (count > 1 and outcome.kind == "uncoded"):
            return
        case, final = self._minimised(self.attack.case(request["seed"]), again)
        self.tally.found.append((request["seed"], final))
        report(f"{where}: {final.kind} {final.key}: {final.text[:200]!r}")
        if self.found is not None:
            keep(self.found, self.attack, self.backend, case, final)

    def _minimised(self, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        """Make a case smaller as long as it fails in the same way."""
        end, final = time.monotonic() + self._patience, outcome
        child = trial_child(self.attack, self.backend, self.scratch)
        tried: set[str] = set()
        smaller = True
        while smaller:
            smaller = False
            for candidate in self.attack.smaller(case):
                if time.monotonic() > end:
                    break
                digest = _digest(candidate)
                if digest in tried:
                    continue
                tried.add(digest)
                if outcome.kind == "wrong":
                    found = self.alone({"case": candidate})
                else:
                    found = child.only({"case": candidate})
                if found.kind == outcome.kind and (
                    outcome.kind == "wrong" or found.key == outcome.key
                ):
                    case, final, smaller = candidate, found, True
                    break
        child.stop()
        return case, final


def report(line: str) -> None:
    """Write a line for whoever watches."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def keep(folder: Path, attack: Attack, backend: str, case: Case, outcome: Outcome) -> None:
    """Write a case that failed into a folder, unless it is too large."""
    kept = {"attack": attack.name, "backend": backend, "was": outcome.kind, "key": outcome.key}
    text = json.dumps({**kept, "case": case}, indent=1) + "\n"
    if len(text) <= _LARGEST:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{attack.name}-{_digest(case)[:10]}.json").write_text(text)


def _digest(case: Case) -> str:
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()
