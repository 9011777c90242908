"""The nouns of the campaign: an attack makes a case of a seed, and a case has an outcome."""

import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from subgraphkit.errors import InternalError, SubgraphkitError

KINDS: Final = ("ran", "coded", "uncoded", "crash", "hang", "wrong", "over-limit")
"""What may come of a trial; all but the first two are failures."""

SLIPS: Final = (AttributeError, AssertionError, LookupError, NameError, TypeError)
"""What is raised by a program that is wrong rather than by one that was asked for too much."""

Case = dict[str, Any]
"""All that a trial needs, as JSON has it, so that it can be stored."""


@dataclass(slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        key: What tells this failure from others of its kind; the code of a coded error.
        answers: A file with the outputs, where there are some to be judged.
        judged: Whether judges agree with them.
    """

    kind: str
    key: str = ""
    text: str = ""
    answers: str = ""
    judged: bool = False

    @property
    def failed(self) -> bool:
        return self.kind not in KINDS[:2]

    @property
    def signature(self) -> tuple[str, str]:
        return self.kind, self.key


class Attack(ABC):
    """Makes cases of seeds, and carries them out; the same seed is the same case.

    Attributes:
        name: Its name on the command line and in the results.
        backends: Where ``make campaign`` carries it out.
        share: Its part of the time, on each of them.
        wall: Seconds after which a trial hangs, on a machine that does other things, too.
        cpu: Seconds of processor time that a trial may take.
        bytes: How much memory a trial may take beyond what was in use before.
    """

    name: ClassVar[str]
    backends: ClassVar[Sequence[str]] = ("numpy", "onnxruntime", "openvino", "onednn")
    share: ClassVar[float] = 1.0
    wall: ClassVar[float] = 60.0
    cpu: ClassVar[float] = 10.0
    bytes: ClassVar[int] = 1 << 30
    about: ClassVar[str]

    def load(self) -> None:
        """Make what every child inherits; called once, before there are children."""

    def prepare(self, scratch: Path, backend: str) -> None:
        """Make what every trial of a child shares; called in the child."""

    @abstractmethod
    def case(self, seed: int) -> Case:
        """Draw a case."""

    @abstractmethod
    def attempt(self, case: Case, backend: str) -> Outcome:
        """Carry a case out; what it raises is an outcome as well."""

    def judged(self, case: Case, answers: str) -> Outcome | None:
        """Judge what came out, in a child of its own; None where nobody can."""
        return None

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield simpler cases, the boldest first."""
        yield from ()


@dataclass(slots=True)
class Tally:
    """What came of many trials.

    Attributes:
        seconds: Wall-clock time.
        found: Failures with the seed, the first of each signature.
    """

    counts: Counter[str] = field(default_factory=Counter)
    trials: int = 0
    judged: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    found: list[tuple[int, Outcome]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.trials += 1
        self.judged += outcome.judged
        self.counts[outcome.kind] += 1
        if outcome.kind == "coded":
            self.codes[outcome.key] += 1

    def numbers(self) -> dict[str, float]:
        """Return what is counted, by the heads of the table."""
        counts = {kind: self.counts[kind] for kind in KINDS}
        return {"trials": self.trials, **counts, "judged": self.judged, "seconds": self.seconds}


def answer_of(attempt: Callable[[], Outcome]) -> Outcome:
    """Return what came of an attempt; what it raises is an outcome as well."""
    try:
        return attempt()
    except WrongError as error:
        return Outcome("wrong", "result", str(error)[:300])
    except BaseException as error:  # noqa: BLE001 (this is what is looked for)
        return _raised(error)


def _raised(error: BaseException) -> Outcome:
    """Tell what an exception is: ours with a code, or one that should not have got out."""
    if isinstance(error, SubgraphkitError) and not isinstance(error, InternalError):
        cause = error.__cause__
        slip = f" {type(cause).__name__} in {_place(cause)}" if isinstance(cause, SLIPS) else ""
        return Outcome("coded", f"{error.code}{slip}", str(error)[:300])
    return Outcome("uncoded", f"{type(error).__name__} in {_place(error)}", repr(error)[:300])


def require(true: object, text: str) -> None:
    """Fail a trial whose result is not what it should be."""
    if not true:
        raise WrongError(text)


class WrongError(Exception):
    """A result that is not what it should be."""


def _place(error: BaseException) -> str:
    """Return the innermost function of ours that an exception came through."""
    place = "nowhere"
    for frame in traceback.extract_tb(error.__traceback__):
        if "/subgraphkit" in frame.filename and "/tests/" not in frame.filename:
            place = f"{Path(frame.filename).stem}.{frame.name}"
        elif frame.filename.startswith("<"):
            place = frame.filename.split()[0]
    return place
