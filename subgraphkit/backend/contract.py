"""The backend class: a named set of properties, and the facts of its library for the core."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from types import MappingProxyType
from typing import Any, ClassVar, Generic, get_args, get_origin

from subgraphkit import backend as contract
from subgraphkit.backend.manifest import options_of
from subgraphkit.backend.operator import SubgraphOperator, Traits
from subgraphkit.backend.options import Option, PlainOptions
from subgraphkit.backend.plugin_api import A_TRAIT, PLUGIN_API, ContractClass, refuse_names
from subgraphkit.backend.property import BindContext, OptionsT, SubgraphProperty
from subgraphkit.backend.refusal import Answer
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.ir import Subgraph
from subgraphkit.limits import LoadLimits

__all__ = ["PLUGIN_API", "Backend", "EngineOrigin", "LoadLimits", "ProbeResult"]


@dataclass(frozen=True, slots=True)
class EngineOrigin:
    """The place where an engine was made, or is to run: all that decides whether it fits.

    Attributes:
        fingerprint: What ``Backend.fingerprint`` says there.
        system: Operating system, processor and byte order, such as ``linux-x86_64-little``.
        implementation: The code around the engine: the backend's distribution with its version, or
            a digest of its sources if it belongs to none.
    """

    fingerprint: str
    system: str
    implementation: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer of a backend about the machine: its devices, versions and problems.

    Attributes:
        available: Whether the backend can be used here.
        devices: Names of the devices it would use, best first.
        versions: Versions of the libraries it uses, by name.
        problems: What stands in the way, one sentence each; empty if it can run.
        hint: What to do about the problems.
        builds_only: Whether it can compile here, for another machine, and run nothing; then
            ``problems`` say why.
        precisions: Values of the option ``precision`` for short floats that the machine computes in
            natively; known after a deep probe. Tuning tries them.
    """

    available: bool
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    hint: str = ""
    builds_only: bool = False
    precisions: tuple[str, ...] = ()


class Backend(ContractClass, ABC, Generic[OptionsT]):
    """A library that can run subgraphs, as the core sees it.

    A new instance is made for every bind, with the options of that bind. Options are declared once.
    A package declares them in its manifest, and the class is a ``Backend[Options]`` of the class
    that ``subgraphkit author manifest write`` wrote. Otherwise ``options`` declares them.

    Args:
        options: Validated values as attributes; defaults if not given.

    Attributes:
        option_values: The same.
    """

    name: ClassVar[str]
    """The word users write in ``SUBGRAPH_BACKEND``; a lower-case identifier."""

    api: ClassVar[str] = "1.0"
    """The newest ``PLUGIN_API`` the backend uses, as ``"major.minor"``."""

    options: ClassVar[Sequence[Option]] = ()
    """The options the backend understands; those of the manifest in a ``Backend[Options]``."""

    traits: Traits = Traits()
    """Promises about its threads, claims, engines and answers; an instance may have others."""

    _left: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("evidence", "holds_limits", "loses_nan", "neighbour"), A_TRAIT),
        "kept_weights": "Traits(keeps_weights=True), if all constants are read later",
        "maps_engines": A_TRAIT,
        "restore": "deserialize(blob, subgraph, context)",
        "selftest": "suite.selftest(checks) in conformance(suite)",
    }
    _option_class: ClassVar[Callable[..., Any]] = PlainOptions
    _lack: BackendUnavailableError | None = None

    def __init__(self, options: OptionsT | None = None) -> None:
        if options is None:
            values = {one.name: one.default for one in self.options}
            options = option_class_of(type(self))(**values)
        self.option_values: OptionsT = options

    def __init_subclass__(cls, **words: Any) -> None:
        """Take options from the manifest if the class says so; TypeError if it has others."""
        super().__init_subclass__(**words)
        if "deserialize" in vars(cls) and not _takes_context(cls.deserialize):
            refuse_names(cls, {"deserialize": cls._left["restore"]})
        if "options" in vars(cls):
            cls._option_class = PlainOptions
        for base in vars(cls).get("__orig_bases__", ()):
            declared = next(iter(get_args(base)), None) if get_origin(base) is Backend else None
            if not isinstance(declared, type) or declared is Any:
                continue
            if "options" in vars(cls):
                raise TypeError(f"{cls.__qualname__} declares options that its manifest declares")
            cls.options, cls._option_class = options_of(declared), declared

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
        return ProbeResult(available=True, devices=("cpu",))

    @classmethod
    def planner(cls, options: OptionsT) -> "Backend[OptionsT] | None":
        """Make an instance that claims here although it cannot run; for dry runs alone.

        Called where ``probe`` or making an ordinary instance has found that the machine lacks
        something (SGK104). None of its operators is ever made.

        Args:
            options: As for an ordinary instance.

        Returns:
            The instance, with its ``traits``; None if it cannot plan without the missing part.
        """
        return None

    @classmethod
    def conformance(cls, suite: "contract.Conformance") -> None:
        """Declare known failures, the exactness of results, and checks of the device.

        A declaration is strict: an expected failure that does not come is a failure. May depend on
        the device and on the versions found. ``doctor --selftest`` makes the checks.

        Args:
            suite: Takes the declarations.
        """

    @classmethod
    def foreign_option(cls, name: str, value: Any) -> str:
        """Return the words for an option that users know elsewhere, but not this backend.

        Args:
            name: Name of the option, as another tool has it.
            value: The value it was given.

        Returns:
            One line per remedy; an empty string if the name means nothing.
        """
        return ""

    def fingerprint(self) -> str:
        """Return the identity of library and device; part of every cache key.

        It names all that an engine depends on outside the core: versions of libraries and drivers,
        the device, instruction sets, results of ``prepare``. The core adds the backend's own
        version and sources, the options declared with ``cache=True``, the subgraph and the system.
        Asked once per bind and property, before the first subgraph is compiled.
        """
        probe = self.probe()
        versions = ",".join(f"{name}={probe.versions[name]}" for name in sorted(probe.versions))
        return f"{self.name};{versions};{','.join(probe.devices)}"

    def footprint(self, subgraph: Subgraph) -> "contract.Footprint":
        """Say how much memory the operator of a subgraph will take, before it is made.

        Asked for ``plan --memory`` and ``max_memory``; nothing may be compiled for it, and no data
        of a constant be read.

        Args:
            subgraph: A subgraph that the backend claimed.

        Returns:
            Estimates in bytes; by default, one more copy of every constant.
        """
        return contract.Footprint.copying(subgraph)

    def separate_weights(self, subgraph: Subgraph) -> Collection[str]:
        """Name the constants whose data is not in the engine.

        ``deserialize`` takes their data from the subgraph it is given, so one engine serves
        subgraphs that differ in it. A constant that decides how the engine is built, such as a
        shape or an axis, must not be among them.
        """
        return ()

    def accepts(self, made: EngineOrigin, here: EngineOrigin) -> Answer:
        """Say whether an engine of a bundle may be loaded here; the options are those it has.

        A backend whose library proves more than equality says so here. Asked before the first byte
        of an engine is read into the library.

        Args:
            made: Where the engine was made.
            here: This process.
        """
        return made == here

    def deserialize(
        self, blob: bytes, subgraph: Subgraph, context: BindContext[OptionsT]
    ) -> SubgraphOperator:
        """Restore an operator from the result of its ``serialize``.

        A backend that overrides this has its engines cached. The restored subgraph equals the
        compiled one place by place. But every name may differ, and it may belong to another model:
        use the position of inputs and outputs.

        Args:
            blob: The result of ``serialize``, checked to be unchanged. This user stored it, or
                trusts the bundle that has it.
            subgraph: The subgraph the operator is to run.
            context: What the claiming property knew.

        Raises:
            NotImplementedError: If the backend's operators cannot be stored.
            Exception: If the engine does not fit here. The subgraph is then compiled again, but not
                one of a bundle.
        """
        raise NotImplementedError(f"backend {self.name!r} cannot restore subgraph {subgraph.id!r}")


def option_class_of(kind: type[Backend]) -> Callable[..., Any]:
    """Return the class of its options: ``Options`` in a ``Backend[Options]``."""
    return kind._option_class  # noqa: SLF001 (of this module, and not of the contract)


def _takes_context(deserialize: Callable[..., object]) -> bool:
    try:
        signature(deserialize).bind(None, b"", None, None)
    except TypeError:
        return False
    return True


def lack_of(backend: Backend) -> BackendUnavailableError | None:
    """Return why an instance of ``planner`` cannot run here; raised at compile."""
    return backend._lack  # noqa: SLF001 (as above)


def set_lack(backend: Backend, lack: BackendUnavailableError | None) -> None:
    """Mark an instance of ``planner`` with the reason why it cannot run here."""
    backend._lack = lack  # noqa: SLF001 (as above)


def stores_engines(kind: type[Backend]) -> bool:
    """Say whether a kind of backend can restore the engines of its operators."""
    return kind.deserialize is not Backend.deserialize
