"""Subgraph operators: a backend makes one of each region it claims, and the session calls it.

``Traits`` has the promises of operators and backends, in one frozen record.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np

from subgraphkit.backend.plugin_api import A_TRAIT, ContractClass
from subgraphkit.backend.progress import Progress

Evidence = Literal["declared", "asked"]
"""The ground of claims: rules of the backend alone, or answers of its library as well."""

Pool = Literal["none", "sleeps", "spins", "unknown"]
"""The state, between two runs, of the threads that compute beside the calling one."""


class Traits(NamedTuple):
    """Promises of a backend, ``Backend.traits``, and of an operator, ``SubgraphOperator.traits``.

    An instance may have others than its class: ``self.traits = self.traits._replace(...)``.

    Attributes:
        pool: Of a backend. ``"none"``: there are no threads beside the calling one, or a device
            does the work. ``"sleeps"``: they sleep when a run is over. ``"spins"``: each operator
            has some that wait for its next run by spinning, unless
            ``BindContext.shares_processors``. ``"unknown"``: nothing is promised. All but the last
            obey ``BindContext.threads``.
        evidence: Of a backend. ``"declared"``: claims need no library. ``"asked"``: its library
            says what it parses, or what its device takes.
        maps_engines: Of a backend. ``deserialize`` also takes an engine as a read-only
            ``memoryview``, and may keep it. An engine of a bundle is then mapped from its file, and
            all processes share its memory.
        loses_nan: Of a backend. Operators of ONNX's own domain that make a number of NaN, or NaN of
            a number, unlike ONNX. The setting ``nan_policy`` keeps their nodes away.
        keeps_weights: Of a backend. Its operators read constants after they are compiled, to take
            new weights, say: a bundle keeps the data of all. Without that, it keeps only those of
            ``Backend.separate_weights``, and reading others raises ``InvalidModelError`` (SGK184).
        neighbour: Of a backend. A backend for the nodes that this one leaves, near its values. It
            has the form of a selection: ``"onnxruntime:providers=cuda"``. It is used if you name
            only this backend and no fallback, and it can run here. Its options give way to yours.
        holds_limits: Of a backend. ``max_value_bytes`` of ``BindContext.limits`` is checked before
            a value of a fed size is made. Otherwise, nodes such as a ``Range`` to a fed number are
            kept away.
        thread_safe: Of an operator. Several threads may be inside ``run`` at once.
        fork_safe: Of an operator. A process forked from this one can run it: it keeps no threads,
            and no locks that another thread may have held. A session with any operator that is not
            is refused there.
        minds_memory: Of an operator. ``run`` keeps its promises of memory. If not, inputs that
            others read as well are read-only views. The setting ``checked`` compares results with
            inputs and earlier results (SGK149).
        in_place: Of an operator. Operators of ONNX that compute rightly if an output's buffer is
            the memory of the input it continues, such as the data of ``ScatterND``.
            For others, an output bound to the memory of an input is copied at the end.
    """

    pool: Pool = "unknown"
    evidence: Evidence = "declared"
    maps_engines: bool = False
    loses_nan: frozenset[str] = frozenset()
    keeps_weights: bool = False
    neighbour: str = ""
    holds_limits: bool = False
    thread_safe: bool = False
    fork_safe: bool = False
    minds_memory: bool = False
    in_place: frozenset[str] = frozenset()


class _Place(enum.Enum):
    ON_DEVICE = enum.auto()

    def __repr__(self) -> str:
        return self.name


ON_DEVICE: Final = _Place.ON_DEVICE
"""In place of an output buffer: the output may stay on the operator's device."""


@dataclass(frozen=True, slots=True)
class InnerTime:
    """The time that one thing inside an operator took in one run.

    Attributes:
        name: What it is, as the library calls it, such as the name of a kernel.
        seconds: How long it took.
        nodes: The nodes of the model it computes, as numbers of ``Subgraph.nodes``; empty if nobody
            knows.
        start: When it began, on the clock of ``time.perf_counter``; None if nobody knows.
    """

    name: str
    seconds: float
    nodes: tuple[int, ...] = ()
    start: float | None = None


class SubgraphOperator(ContractClass, ABC):
    """A compiled region; it may hold engines, device memory, caches and other state.

    Inputs and outputs are positional, in the order of ``subgraph.inputs`` and
    ``subgraph.outputs``, with the dtypes and ranks the bound graph gives them. Tensors are NumPy
    arrays (or objects that speak DLPack, where both neighbours do); strings are object arrays;
    sequences are lists; an absent optional is None.

    Thread-safety: the session holds a lock around ``run`` unless ``traits.thread_safe`` is true.
    ``close`` and ``update_weights`` are never called while ``run`` is running.
    """

    traits: Traits = Traits()
    """Promises about threads, forks and memory; an instance may have others."""

    device: str = "cpu"
    """Where the operator takes arrays without a copy, such as ``"cuda:0"``.

    Operators with the same device pass each other arrays that speak DLPack. Feeds and bound outputs
    may be such arrays as well; the operator then has to check their dtype and shape. To all others
    they hand NumPy arrays. Their arrays on the device also speak ``__array__``, for readers on the
    host.
    """

    _maker = ""
    _left: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("fork_safe", "minds_memory", "thread_safe"), A_TRAIT
    )

    @abstractmethod
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs.

        Args:
            inputs: One array per subgraph input; must not be written to, may be read-only or
                not contiguous.
            outputs: None, or one entry per subgraph output: an array of the right dtype and shape
                to write into, or None to allocate. Only if ``device`` is not ``"cpu"``, an entry
                may be ``ON_DEVICE``, to leave the output there. Or it is an array of another
                library on that device to write into, and you may return an array over the same
                memory.

        Returns:
            One array per subgraph output. An array that was not passed in ``outputs`` belongs to
            the caller from now on. The operator must not write to it again, and it must not share
            memory with an input, a constant or another output.

        Raises:
            Exception: Anything; the session wraps it in ``ExecutionError``.
        """

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Compute the outputs, and stop where that can be done when the run is cancelled.

        Called in place of ``run`` if a run has a deadline or may be cancelled, unless it already
        is. The default is ``run``, which nothing stops.

        Args:
            progress: Says when to stop. ``progress.stopping`` calls a function that stops a
                library, ``interruptible`` stops Python code, and ``progress.check`` asks.
            inputs: As for ``run``.
            outputs: As for ``run``.

        Raises:
            Exception: Anything; if the run is cancelled, that is what the session reports.
        """
        return self.run(inputs, outputs)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Take new values of some of the subgraph's constants, by refitting or rebuilding.

        The names are the subgraph's constants only; dtypes and shapes equal the old ones.

        Returns:
            True if the operator now computes with the new values; False if it cannot, in which
            case the session compiles the subgraph again. If it raises, it must still compute with
            the old values.
        """
        return False

    def serialize(self) -> bytes | None:
        """Return the engine from which ``Backend.deserialize`` restores the operator, or None.

        Called before the first run, for the cache, and whenever a session is exported, never while
        ``run`` is running; only if the backend overrides ``deserialize``. Names of the model do not
        belong in it; see there. An operator that took new weights is not asked, unless their data
        is not in the engine anyway.
        """
        return None

    def bare_engine(self) -> bytes | None:
        """Return the engine as the library's own tools take it, or None if there is no such form.

        It is for use elsewhere; nothing reads it back.
        """
        return None

    def info(self) -> Mapping[str, Any]:
        """Return facts for people and reports (engine size, layers, precision); JSON-able."""
        return {}

    def profiled(self, record: Callable[[InnerTime], object]) -> "SubgraphOperator | None":
        """Return an operator that computes the same and records the times of its inner steps.

        The profile runs and closes that one, while this one stays as it is. It may share memory and
        code with this one. Or it is compiled anew, for libraries that take times only if compiled
        for that. It is to have the same device and to be as thread-safe. It need not follow new
        weights.

        Args:
            record: Takes a time, before ``run`` returns and on the thread that called it. If the
                library reports later, give ``start``, and call it before ``close`` returns.

        Returns:
            The operator; None, the default, if the inner steps are unknown.

        Raises:
            Exception: Anything; the profile then says so and has no times from inside.
        """
        return None

    def close(self) -> None:
        """Release what the operator holds. May be called more than once."""


def maker_of(operator: SubgraphOperator) -> str:
    """Return the name of the backend that made it for another's claim; empty for its own."""
    return operator._maker  # noqa: SLF001 (of this module, and not of the contract)


def set_maker(operator: SubgraphOperator, backend: str) -> None:
    """Say which backend made an operator for a subgraph that another claimed."""
    operator._maker = backend  # noqa: SLF001 (as above)


def fill_buffers(
    names: Sequence[str], buffers: Sequence[Any] | None, results: Sequence[Any]
) -> Sequence[Any]:
    """Copy results into the arrays that ``SubgraphOperator.run`` was given to write into.

    Args:
        names: Names of the outputs, for messages.
        buffers: What ``run`` was given as ``outputs``.
        results: Arrays of the operator's own.

    Returns:
        The buffers, and in the place of those that were not given the results.

    Raises:
        ValueError: A buffer does not fit; the message names the output.
    """
    if buffers is None:
        return results
    filled = list(results)
    for place, (name, buffer, result) in enumerate(zip(names, buffers, results, strict=True)):
        if buffer is None or buffer is result:
            continue
        if _type_of(buffer) != _type_of(result) or not isinstance(result, np.ndarray):
            problem = f"{_type_of(buffer)}, expected {_type_of(result)}"
        elif not buffer.flags.writeable:
            problem = "read-only, expected one to write into"
        else:
            np.copyto(buffer, result)
            filled[place] = buffer
            continue
        raise ValueError(f"the buffer for output {name!r} is {problem}")
    return filled


def _type_of(array: Any) -> str:
    is_array = isinstance(array, np.ndarray)
    return f"{array.dtype}{array.shape}" if is_array else f"a {type(array).__name__}"
