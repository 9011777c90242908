"""Many trials of one attack: watched, judged, proved alone, and their failures minimised."""

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.campaign.children import Trials
from tests.campaign.trials import Attack, Case, Outcome, Tally

FOUND: Final = Path(__file__).parent / "found"
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
        self._met = Counter[tuple[str, str]]()

    def run(self, seeds: Iterable[int], seconds: float) -> Tally:
        """Take one seed after the other until there is none left, or the time is over."""
        begin = time.monotonic()
        trials = self._trials()
        for seed in seeds:
            if time.monotonic() - begin > seconds:
                break
            outcome = trials.only({"seed": seed})
            if outcome.failed:
                self._fail(seed, outcome)
            else:
                self.tally.add(outcome)
            if self.tally.trials % _TRIALS_OF_A_CHILD == 0:
                trials.stop()
        trials.stop()
        self.tally.seconds += time.monotonic() - begin
        return self.tally

    def _trials(self) -> Trials:
        return Trials(self.attack, self.backend, self.scratch)

    def _alone(self, request: Any) -> Outcome:
        """Carry one trial out in a child that has seen no other, and judge it."""
        trials = self._trials()
        try:
            return trials.only(request)
        finally:
            trials.stop()

    def _fail(self, seed: int, outcome: Outcome) -> None:
        """Prove a failure alone, minimise the first of its kind, and keep it."""
        self._met[outcome.signature] += 1
        count = self._met[outcome.signature]
        again = self._alone({"seed": seed}) if count <= _PROVED else outcome
        if not again.failed and outcome.kind in _MAYBE_NOISE:
            self.tally.add(again)
            return
        self.tally.add(outcome)
        if count > _PROVED or (again.failed and count > 1 and outcome.kind == "uncoded"):
            return
        final = outcome
        if again.failed:
            case, final = self._minimised(self.attack.case(seed), again)
            if self.found is not None:
                keep(self.found, self.attack, self.backend, case, final)
        self.tally.found.append((seed, final))
        told = f"{final.kind} {final.key}: {'' if again.failed else 'not alone: '}"
        report(f"{self.attack.name} {self.backend} seed {seed}: {told}{final.text[:200]!r}")

    def _minimised(self, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        """Make a case smaller as long as it fails in the same way."""
        end, final = time.monotonic() + self._patience, outcome
        is_wrong = outcome.kind == "wrong"
        trials, tried = self._trials(), set[str]()
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
                found = (self._alone if is_wrong else trials.only)({"case": candidate})
                if found.kind == outcome.kind and (is_wrong or found.key == outcome.key):
                    case, final, smaller = candidate, found, True
                    break
        trials.stop()
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
