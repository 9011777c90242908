"""The hooks that a plugin may implement, as pluggy specifications.

A backend registers in the entry-point group ``subgraphkit.backends``. If the entry point is a
namespace, not a ``Backend`` class, ``BackendHooks`` are called on it. Extensions register in
``subgraphkit.plugins`` and implement any of ``ExtensionHooks``. Events are plain frozen facts about
the core's last step.

Mark implementations with ``hookimpl``. They may take fewer arguments than the specification. Give
their parameters no defaults: some versions of pluggy pass a parameter with a default, others do
not. New arguments are only ever appended.
"""

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pluggy

from subgraphkit import backend as contract
from subgraphkit.backend.contract import Backend, ProbeResult
from subgraphkit.backend.progress import ProgressEvent
from subgraphkit.backend.property import PartitionSummary
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.types import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact with its subjects; the name of a subject is empty if there is none.

    Attributes:
        model: Name of the model, as in reports: its file's, or its graph's.
        session: Number of the session in this process, ``Session.number``; from one, and zero where
            there is no bind. The bind gives it out, so that the compile steps of a session have its
            number, too. Another session of the same bind has a number of its own.
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
class Edit:
    """Nodes of a graph that others are to stand for; what ``subgraphkit_edits`` returns.

    Attributes:
        nodes: Numbers of the nodes that go; none to add nodes only.
        replacement: Instances of ``onnx.NodeProto`` that come. They make the values that others
            read of the old nodes, under the same names, and any new ones.
        constants: Data of initializers that come with them, by name.
        reason: What reports say of the nodes that go, such as ``fused into Gelu``.
    """

    nodes: Sequence[int]
    replacement: Sequence[Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


PROJECT: Final = "subgraphkit"
"""Name of the project in pluggy's markers; hooks begin with it."""

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


class BackendHooks:
    """Hooks of a backend that is a namespace; called on that one plugin only."""

    @hookspec(firstresult=True)
    def subgraphkit_backend(self, options: Any) -> Backend | None:
        """Build an instance for one bind; ``options`` has validated values as attributes."""

    @hookspec(firstresult=True)
    def subgraphkit_probe(self, deep: bool) -> ProbeResult | None:  # noqa: FBT001 (pluggy passes it by name)
        """Look whether the backend can run here; ``Backend.probe`` is asked if not implemented."""

    @hookspec
    def subgraphkit_conformance(self, suite: "contract.Conformance") -> None:
        """Declare known failures, in addition to ``Backend.conformance``."""


class ExtensionHooks:
    """Hooks of extensions; called on all of them, each call isolated from the others."""

    @hookspec
    def subgraphkit_types(
        self, node: Node, inputs: Sequence[ValueType | None]
    ) -> Sequence[ValueType | None] | None:
        """Type the outputs of a node whose operator onnx does not know; asked at bind.

        Args:
            node: The node. ``node.constant(place)`` is the data of an input that is a constant.
            inputs: Types of its inputs, None where one is absent or not known.

        Returns:
            One type for each output, None for an unknown one. Or None for another's operator. The
            answer is binding: a session refuses a result of another type.
        """

    @hookspec
    def subgraphkit_edits(self, graph: BoundGraph) -> "Iterable[contract.Edit] | None":
        """Replace nodes of a model at bind, before constants are folded and nodes are claimed.

        Args:
            graph: The model: every value typed, Ifs of known conditions replaced, with the edits of
                earlier extensions.

        Returns:
            Edits, of which no two have a node in common. The result has to be a graph in which
            every value has the type that it had.
        """

    @hookspec
    def subgraphkit_plan(self, partitioning: PartitionSummary) -> None:
        """Look at a finished partitioning, read-only."""

    @hookspec
    def subgraphkit_progress(self, event: ProgressEvent) -> None:
        """Take note of how far a long piece of work is; called by the thread that does it."""

    @hookspec
    def subgraphkit_compiled(self, event: "contract.CompileEvent") -> None:
        """Take note that a subgraph was compiled."""

    @hookspec
    def subgraphkit_fallback(self, event: "contract.FallbackEvent") -> None:
        """Take note that something runs elsewhere than the user's list says."""

    @hookspec
    def subgraphkit_run_start(self, event: "contract.RunEvent") -> None:
        """Take note that a run begins."""

    @hookspec
    def subgraphkit_step(self, event: "contract.StepEvent") -> None:
        """Take note that a run has passed one subgraph; called on the thread of the run."""

    @hookspec
    def subgraphkit_run_end(self, event: "contract.RunEvent") -> None:
        """Take note that a run has ended."""

    @hookspec
    def subgraphkit_cli(self, subparsers: Any) -> ArgumentParser | None:
        """Add a command to the command line, after the built-in ones."""

    @hookspec
    def subgraphkit_doctor(self) -> "Iterable[contract.Check] | None":
        """Contribute findings to ``subgraphkit doctor``."""


def _hooks(specification: type) -> tuple[str, ...]:
    return tuple(name for name in vars(specification) if name.startswith(PROJECT))


BACKEND_HOOKS: Final = _hooks(BackendHooks)

EXTENSION_HOOKS: Final = _hooks(ExtensionHooks)


def hook_manager() -> pluggy.PluginManager:
    """Return a plugin manager that knows every hook and no plugin.

    pluggy's own entry-point loader is not used: it imports everything and stops at the first plugin
    that fails.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(BackendHooks)
    manager.add_hookspecs(ExtensionHooks)
    return manager


def unknown_hooks(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    """Return the hooks a registered plugin implements that do not exist."""
    callers = manager.get_hookcallers(plugin) or []
    return [
        caller.name
        for caller in callers
        if not caller.has_spec() and not all(impl.optionalhook for impl in caller.get_hookimpls())
    ]


def defaulted_arguments(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    """Return the implementations, as ``hook(argument=...)``, that declare a default."""
    return [
        f"{caller.name}({argument}=...)"
        for caller in manager.get_hookcallers(plugin) or []
        for impl in caller.get_hookimpls()
        if impl.plugin is plugin
        for argument in impl.kwargnames
    ]
