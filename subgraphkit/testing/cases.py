"""Cases of the conformance kit, and the ways in which one may end.

Nothing heavy is imported here: the process that shows the findings needs neither NumPy nor onnx.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self, TypeVar

LEVELS: Final = (
    "static", "contract", "partitioning", "operators", "models", "running", "artefacts",
    "stress",
)  # fmt: skip
"""The levels, by number; each is a module of ``subgraphkit.testing.levels``."""


class Outcome(enum.Enum):
    """The end of a case; every case ends in exactly one of these."""

    RIGHT = "right"
    """The backend claimed the nodes offered, and all was right."""
    UNCLAIMED = "unclaimed"
    """The backend was offered nodes and took none of them; nothing was compiled or run."""
    PASSED = "passed"
    """A check that offers no nodes holds."""
    REFUSED = "refused"
    """The model is refused, as it should be, before any backend is asked."""
    XFAIL = "xfail"
    """It went wrong, as the author of the backend has declared."""
    SKIP = "skip"
    """It was not tried, for the reason given."""
    UNTRIED = "untried"
    """It was not tried, because the time for its level had passed."""
    FAIL_PROBE = "fail_probe"
    """The backend could not be found, imported, probed or built."""
    FAIL_SELECT = "fail_select"
    """A selector or a property failed or broke its contract."""
    FAIL_COMPILE = "fail_compile"
    """A subgraph that was claimed could not be compiled."""
    FAIL_RUN = "fail_run"
    """A subgraph failed while running, or returned something that is no result."""
    FAIL_SHAPE = "fail_shape"
    """A result has another shape than it should."""
    FAIL_DTYPE = "fail_dtype"
    """A result has another dtype than it should."""
    FAIL_VALUE = "fail_value"
    """A result has other values than it should."""
    FAIL_ALIAS = "fail_alias"
    """An input was written to, or arrays share memory that must not."""
    FAIL_CONTRACT = "fail_contract"
    """Another promise of the contract, or of the author's declarations, does not hold."""
    CRASH = "CRASH"
    """The process went down."""
    HANG = "HANG"
    """Nothing was heard for longer than the time allowed."""

    @property
    def is_wrong(self) -> bool:
        """Whether a level with a case that ended so is not passed."""
        return self.name.startswith("FAIL_") or self in {Outcome.CRASH, Outcome.HANG}

    @property
    def is_offer(self) -> bool:
        """Whether the case counts as offered, when the claimed and right ones are counted."""
        return self not in _NO_OFFER

    @classmethod
    def wrong_at(cls, stage: str) -> "Outcome":
        """Return the outcome for a stage, such as ``"shape"``."""
        return cls(f"fail_{stage}")


_NO_OFFER: Final = frozenset({Outcome.PASSED, Outcome.REFUSED, Outcome.SKIP, Outcome.UNTRIED})


@dataclass(frozen=True, slots=True)
class Finding:
    """The end of one case, with its details.

    A case returns the first three; its runner adds the rest.

    Attributes:
        outcome: How it ended.
        detail: The finding, expected and actual. If all is right, the parts that were left out, if
            any.
        taken: Operators of the nodes the backend took, each once, in order.
        case: Identifier of the case.
        level: Level of the case.
        operator: The operator under test, or empty.
        domain: Domain of the operator; empty for the default one.
        version: Version of the operator set.
        dtypes: Element types of the operator's inputs, such as ``float32``.
        offers: Whether nodes are offered to the backend in this case.
        seconds: How long it took.
    """

    outcome: Outcome
    detail: str = ""
    taken: tuple[str, ...] = ()
    case: str = ""
    level: int = 0
    operator: str = ""
    domain: str = ""
    version: int = 0
    dtypes: tuple[str, ...] = ()
    offers: bool = True
    seconds: float = 0.0

    @property
    def is_wrong(self) -> bool:
        """Whether the level of the case is not passed because of this."""
        return self.outcome.is_wrong

    @property
    def is_offer(self) -> bool:
        """Whether it counts as offered, when the claimed and right ones are counted."""
        return self.offers and self.outcome.is_offer

    @property
    def is_claimed(self) -> bool:
        """Whether the backend took some of the nodes offered."""
        never = {Outcome.UNCLAIMED, Outcome.FAIL_PROBE, Outcome.FAIL_SELECT}
        return bool(self.taken) or self.outcome not in never

    def about(self, what: str) -> "Finding":
        """Return it with a word on its subject, if it is wrong."""
        return replace(self, detail=f"{what}: {self.detail}") if what and self.is_wrong else self

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**asdict(self), "outcome": self.outcome.value}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read a result of ``to_dict``."""
        lists = {key: tuple(found[key]) for key in ("taken", "dtypes") if key in found}
        return cls(**{**found, **lists, "outcome": Outcome(found["outcome"])})


_OF_A_CASE: Final = ("level", "operator", "domain", "version", "dtypes", "offers")
"""The facts on its case in a finding."""

PASSED: Final = Finding(Outcome.PASSED)


def breach(text: str, taken: tuple[str, ...] = ()) -> Finding:
    """Return the finding that a promise does not hold; ``text`` says which."""
    return Finding(Outcome.FAIL_CONTRACT, text, taken)


class Stopped(Exception):  # noqa: N818 (an ending, which need not be an error)
    """A case has ended before its last step; ``finding`` says how."""

    def __init__(self, outcome: Outcome, detail: str, taken: tuple[str, ...] = ()) -> None:
        self.finding = Finding(outcome, detail, taken)
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the kit.

    Attributes:
        id: Unique, stable and readable, such as ``L3/Conv/test_conv_with_strides/sandwiched``. It
            begins with the level.
        run: Carries it out on a ``Subject``. An error of it is a failure of the contract.
        operator: The operator under test, or empty.
        domain: Domain of the operator; empty for the default one.
        version: Version of the operator set, where one operator is tested.
        dtypes: Element types of the operator's inputs.
        needs: Capabilities without which it is skipped; keys of ``CAPABILITIES``.
        offers: Whether nodes are offered to the backend.
        timeout_factor: How many times the usual time it may take.
        batch_key: Those that have the same may be carried out in one model; empty if it must be
            alone.
        part: Makes the model, feeds and expected results, if it has a ``batch_key``.
    """

    id: str
    run: Callable[[Any], Finding]
    operator: str = ""
    domain: str = ""
    version: int = 0
    dtypes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    offers: bool = True
    timeout_factor: float = 1.0
    batch_key: str = ""
    part: Callable[[], Any] = tuple

    @property
    def level(self) -> int:
        """The level it is of."""
        return int(self.id[1])

    def sign(self, finding: Finding) -> Finding:
        """Return a finding that says of which case it is."""
        return replace(finding, case=self.id, **{one: getattr(self, one) for one in _OF_A_CASE})


_LARGEST_BATCH: Final = 16
"""How many cases come in one model: they then share most of the cost of a compilation."""
_Item = TypeVar("_Item")


def batches(items: Iterable[_Item], key_of: Callable[[_Item], str]) -> list[list[_Item]]:
    """Put those with one ``batch_key`` together, in the order of their firsts."""
    found: list[list[_Item]] = []
    open_ones: dict[str, list[_Item]] = {}
    for item in items:
        key = key_of(item)
        batch = open_ones.get(key)
        if not key or batch is None or len(batch) == _LARGEST_BATCH:
            batch = open_ones[key] = []
            found.append(batch)
        batch.append(item)
    return found
