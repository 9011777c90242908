"""The effort, the trials and the result of a search for a precision."""

from dataclasses import dataclass
from typing import Final

from subgraphkit.precision.accuracy import AccuracyReport
from subgraphkit.rewriting import Precision, Rewriting
from subgraphkit.texts import printable

_SHOWN: Final = 10
"""Kept nodes that people are shown; all are in ``kept``."""


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One rewriting that was tried.

    Attributes:
        number: Its number, from 1.
        kept: How many nodes kept float32 beside those that would anyway.
        changed: How many nodes computed in fewer bits.
        max_error: Largest absolute error of any output.
        min_snr: Smallest ratio of signal to noise of any output, in dB.
        met: Whether the bounds held.
    """

    number: int
    kept: int
    changed: int
    max_error: float
    min_snr: float
    met: bool

    def to_text(self) -> str:
        """Return one line for people."""
        word = "within" if self.met else "beyond"
        return (
            f"trial {self.number}: {self.kept} kept, error {self.max_error:.3g}, "
            f"SNR {self.min_snr:.1f} dB, {word} the bound"
        )


@dataclass(frozen=True, slots=True)
class Effort:
    """The limit to the cost of a search.

    Attributes:
        trials: How many rewritings are tried at most.
        seconds: After how long no further one is begun; None for no limit. With a limit, how much
            is found depends on the machine.
    """

    trials: int = 100
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StillKept:
    """A node that the search keeps in float32.

    Attributes:
        pattern: What ``keep`` of ``Precision`` takes for it.
        node: The node's name, or that of its first output if it has none.
        op_type: Its operator.
        text: What happened in it before it was kept.
    """

    pattern: str
    node: str
    op_type: str
    text: str


@dataclass(frozen=True, eq=False)
class PrecisionSearch:
    """The result of a search.

    Attributes:
        precision: What was asked for, with all that is kept in ``keep``: it makes the same
            rewriting again, in a backend's options as well, and a search that begins with it ends
            at once.
        rewriting: The rewritten model with its account.
        accuracy: How far its outputs are off.
        kept: The nodes that were found, the worst first.
        trials: What was tried, in order.
        minimal: Whether none of those kept could be given back; False if the effort was spent
            before that was known.
    """

    precision: Precision
    rewriting: Rewriting
    accuracy: AccuracyReport
    kept: tuple[StillKept, ...]
    trials: tuple[SearchTrial, ...]
    minimal: bool

    def to_text(self) -> str:
        """Return how much was kept, and of the worst ten nodes why, for people."""
        count, changed = len(self.kept), len(self.rewriting.changed)
        tail = "" if self.minimal else "; fewer might do, but the effort was spent"
        head = f"{count} of {count + changed} nodes stay, found in {len(self.trials)} trials{tail}"
        lines = [f"  {one.op_type} {one.node}: {one.text}" for one in self.kept[:_SHOWN]]
        more = [f"  and {count - _SHOWN} more"] if count > _SHOWN else []
        return "\n".join(map(printable, [head, *lines, *more]))
