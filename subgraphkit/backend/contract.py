"""The backend class: a named set of properties, and what the core must know about its library."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.options import Option
from subgraphkit.backend.plugin_api import PLUGIN_API
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.ir import Subgraph

__all__ = ["PLUGIN_API", "Backend", "ProbeResult"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a backend found out about the machine.

    Attributes:
        available: Whether the backend can run here.
        devices: Names of the devices it would use, best first.
        versions: Versions of the libraries it uses, by name.
        problems: What stands in the way, one sentence each; empty if ``available``.
        hint: What to do about the problems.
    """

    available: bool
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    hint: str = ""


class Backend(ABC):
    """A library that can run subgraphs, as the core sees it.

    A new instance is made for every bind, with the options of that bind.

    Args:
        options: Values by option name; already validated against ``options``.
    """

    name: ClassVar[str]
    """The word users write in ``SUBGRAPH_BACKEND``; a lower-case identifier."""

    api: ClassVar[str] = "1.0"
    """The newest ``PLUGIN_API`` the backend uses, as ``"major.minor"``."""

    options: ClassVar[Sequence[Option]] = ()
    """The options the backend understands."""

    def __init__(self, options: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.option_values = options

    @abstractmethod
    def properties(self) -> Sequence[SubgraphProperty]:
        """Return new property instances, in the order in which they are to be applied."""

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        """Look whether the backend can run here.

        Args:
            deep: Whether compiling and running a small model is welcome.

        Returns:
            The findings; a backend never raises here.
        """
        del deep
        return ProbeResult(available=True, devices=("cpu",))

    def fingerprint(self) -> str:
        """Return the identity of library and device; part of every cache key."""
        probe = self.probe()
        versions = ",".join(f"{name}={probe.versions[name]}" for name in sorted(probe.versions))
        return f"{self.name};{versions};{','.join(probe.devices)}"

    def deserialize(self, blob: bytes, subgraph: Subgraph) -> SubgraphOperator:
        """Restore an operator from what its ``serialize`` returned.

        Raises:
            NotImplementedError: If the backend's operators cannot be stored.
        """
        del blob
        raise NotImplementedError(f"backend {self.name!r} cannot restore subgraph {subgraph.id!r}")
