"""Events for extensions: plain, frozen facts about what the core has just done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact, and what it is about; each name is empty where the fact is not about one.

    Attributes:
        model: Name of the model, as in reports: its file's, or its graph's.
        session: Number of the session in this process, ``Session.number``; from one, and zero where
            there is no bind. It is given out by the bind, so that what is compiled for a session
            has the number of the session. Another session of the same bind has a number of its own.
        subgraph: Identifier of the subgraph.
    """

    model: str = ""
    session: int = 0
    subgraph: str = ""


@dataclass(frozen=True, slots=True)
class CompileEvent(Event):
    """A backend has compiled a subgraph, or the cache has restored one.

    Attributes:
        backend: Name of the backend.
        node_count: How many nodes it has.
        seconds: How long it took.
        from_cache: Whether a stored engine was used.
        info: What the operator says about itself.
    """

    backend: str
    node_count: int
    seconds: float
    from_cache: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FallbackEvent(Event):
    """Something ran, or will run, elsewhere than the user's list says.

    Attributes:
        level: The step that was given up: choosing the backend, partitioning (too little of the
            model), compiling (``Unsupported``, or an error), or running.
        backend: The backend that was to do it.
        target: The backend that does it instead, or an empty string if that is not known yet.
        code: Code of the error or of the refusal.
        reason: One sentence.
        node_count: How many nodes are concerned; zero if that is not known yet.
    """

    level: Literal["selection", "partition", "unsupported", "compile", "run"]
    backend: str
    target: str
    code: str
    reason: str
    node_count: int = 0


@dataclass(frozen=True, slots=True)
class RunEvent(Event):
    """A session begins a run, or has ended one; its subgraph is the one that failed.

    Attributes:
        run: Number of the run in its session, from zero.
        seconds: How long it took; None at the beginning.
        error: The error it ended with, as text; None if it did not.
        start: When it began, on the clock of ``time.perf_counter``.
    """

    run: int
    seconds: float | None = None
    error: str | None = None
    start: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent(Event):
    """A session has run one subgraph, or failed to.

    Attributes:
        run: Number of the run in its session, as in ``RunEvent``.
        backend: Name of the backend whose operator ran.
        start: When the operator was called, on the clock of ``time.perf_counter``.
        seconds: How long it took; waiting for another run that is inside does not count.
        thread: Identifier of the thread, as ``threading.get_ident`` has it.
        error: The error it ended with, as text; None if it did not.
    """

    run: int
    backend: str
    start: float
    seconds: float
    thread: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of ``subgraphkit doctor``.

    Attributes:
        name: What was looked at.
        status: What came of it.
        text: One sentence.
        fix: What to do about it, or an empty string.
    """

    name: str
    status: Literal["ok", "warning", "failure"]
    text: str
    fix: str = ""
