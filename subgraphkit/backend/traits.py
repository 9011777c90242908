"""Traits: what a backend and its operators promise of themselves, in one frozen record."""

from typing import Literal, NamedTuple

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
        evidence: Of a backend. ``"declared"``: claims need no library; ``"asked"``: its library was
            asked what it parses, or what its device takes.
        maps_engines: Of a backend. ``deserialize`` takes an engine as a read-only ``memoryview``
            as well, which it may hold: that of a bundle is then mapped from its file, and in memory
            once for all processes.
        loses_nan: Of a backend. Operators of ONNX's own domain that make a number of NaN, or NaN of
            a number, unlike ONNX. The setting ``nan_policy`` keeps their nodes away.
        keeps_weights: Of a backend. Its operators read constants after they are compiled, to take
            new weights, say: a bundle keeps the data of all. Of others it keeps what
            ``Backend.separate_weights`` names, and reading the rest raises ``InvalidModelError``
            (SGK184).
        neighbour: Of a backend. One that runs what this one leaves, without its values going far,
            as in a selection: ``"onnxruntime:providers=cuda"``. It is used if you name only this
            backend and no fallback, and it can run here. Its options give way to yours.
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
