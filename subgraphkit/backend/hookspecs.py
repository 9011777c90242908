"""The hooks: what a plugin may implement, as pluggy specifications.

A backend registers in the entry-point group ``subgraphkit.backends``; where the entry point is not
a ``Backend`` class but a namespace, ``BackendHooks`` are called on it. Extensions register in
``subgraphkit.plugins`` and implement any of ``ExtensionHooks``.

Implementations are marked with ``hookimpl``, may take fewer arguments than the specification, and
declare no defaults: a parameter with a default is passed by one version of pluggy and not by
another. New arguments are only ever appended.
"""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pluggy

from subgraphkit import backend as contract
from subgraphkit.backend.contract import Backend, ProbeResult
from subgraphkit.backend.progress import ProgressEvent
from subgraphkit.backend.property import PartitionSummary
from subgraphkit.ir import Node
from subgraphkit.types import ValueType

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
        """Declare what is known not to work; as ``Backend.conformance``, in addition to it."""


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
            One type for each output, None for one that cannot be told; or None for an operator of
            somebody else. What is returned holds: a session refuses a result of another type.
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
"""Names of the hooks of backends."""

EXTENSION_HOOKS: Final = _hooks(ExtensionHooks)
"""Names of the hooks of extensions."""


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
