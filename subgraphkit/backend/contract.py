"""The backend class: a named set of properties, and the facts of its library for the core."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, get_args, get_origin

from subgraphkit import backend as contract
from subgraphkit.backend.manifest import options_of
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.options import Option, PlainOptions
from subgraphkit.backend.plugin_api import PLUGIN_API, Dated
from subgraphkit.backend.property import BindContext, OptionsT, SubgraphProperty
from subgraphkit.backend.refusal import Answer
from subgraphkit.backend.traits import Traits
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.ir import Subgraph
from subgraphkit.limits import LoadLimits

__all__ = [
    "PLUGIN_API",
    "Backend",
    "EngineOrigin",
    "LoadLimits",
    "ProbeResult",
]


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
        precisions: Values of the option ``precision`` for floats shorter than float32 in which
            the machine computes natively; known after a deep probe. Tuning tries them.
    """

    available: bool
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    hint: str = ""
    builds_only: bool = False
    precisions: tuple[str, ...] = ()


class Backend(Dated, ABC, Generic[OptionsT]):
    """A library that can run subgraphs, as the core sees it.

    A new instance is made for every bind, with the options of that bind. Options are declared once:
    in the manifest of a package, where the class is a ``Backend[Options]`` of the class that
    ``subgraphkit author manifest write`` wrote from it, or else in ``options``.

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

    cannot_run: BackendUnavailableError | None = None
    """Why nothing can run here, on what ``planner`` made; set by the core, raised at compile."""

    option_class: ClassVar[Callable[..., Any]] = PlainOptions
    """What holds their values: ``Options`` in a ``Backend[Options]``; not to be set by hand."""

    def __init__(self, options: OptionsT | None = None) -> None:
        if options is None:
            options = self.option_class(**{one.name: one.default for one in self.options})
        self.option_values: OptionsT = options

    def __init_subclass__(cls, **words: Any) -> None:
        """Take the options from the manifest if the class says that it has them there.

        Raises:
            TypeError: The class declares options as well.
            BackendLoadError: There is no such manifest, or it has other options (SGK116).
        """
        super().__init_subclass__(**words)
        if "options" in vars(cls):
            cls.option_class = PlainOptions
        for base in vars(cls).get("__orig_bases__", ()):
            declared = next(iter(get_args(base)), None) if get_origin(base) is Backend else None
            if not isinstance(declared, type) or declared is Any:
                continue
            if "options" in vars(cls):
                raise TypeError(f"{cls.__qualname__} declares options that its manifest declares")
            cls.options, cls.option_class = options_of(declared), declared

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

    @classmethod
    def planner(cls, options: OptionsT) -> "Backend[OptionsT] | None":
        """Make an instance that claims here although it cannot run; for dry runs alone.

        Called where ``probe`` or making an ordinary instance has found that the machine lacks
        something (SGK104). None of its operators is ever made.

        Args:
            options: As for an ordinary instance.

        Returns:
            The instance, with its ``traits``; None if nothing is known without what is missing.
        """
        del options
        return None

    @classmethod
    def conformance(cls, suite: "contract.Conformance") -> None:
        """Declare to the conformance kit what is known not to work, and how exact results are.

        A declaration is strict: what is said to fail and does not is a failure. May depend on the
        device and on the versions found.

        Args:
            suite: Takes the declarations.
        """

    def neighbour(self) -> str:
        """Name a backend that runs what this one leaves, without its values going far.

        Asked where this backend is the only one that was named, and nobody chose a fallback. What
        is named is used if it can run here; the fallback gets the rest.

        Returns:
            A backend as in a selection, such as ``"onnxruntime:providers=cuda"``, whose options
            give way to the user's; empty for the fallback alone.
        """
        return ""

    @classmethod
    def selftest(cls) -> "Sequence[contract.SelfCheck]":
        """Return checks of what only the device can show, for ``doctor --selftest``.

        They are made in this order, the most telling ones first, and also where there is no device:
        each says what it lacks.

        Returns:
            The checks; none if the backend has no self-test.
        """
        return ()

    @classmethod
    def foreign_option(cls, name: str, value: Any) -> str:
        """Say what to write for an option that the backend has not but its users know elsewhere.

        Args:
            name: Name of the option, as another tool has it.
            value: The value it was given.

        Returns:
            One line per remedy; an empty string if the name means nothing.
        """
        del name, value
        return ""

    def fingerprint(self) -> str:
        """Return the identity of library and device; part of every cache key.

        It has to name whatever an engine depends on that the core does not see: versions of
        libraries and drivers, the kind of device, instruction sets, and what a property learnt in
        ``prepare``. The core adds the backend's own version and sources, the options declared with
        ``cache=True``, the subgraph and the system. Asked once per bind and property, before the
        first subgraph is compiled.
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
        del subgraph
        return ()

    def kept_weights(self, subgraph: Subgraph) -> Collection[str]:
        """Name the constants whose data a bundle keeps beside an engine.

        They are what ``deserialize`` takes from the subgraph, and what the operator needs of it to
        take new weights. The data of all others is left out of the bundle: reading it raises
        ``InvalidModelError`` (SGK184).
        """
        return self.separate_weights(subgraph)

    def accepts(self, made: EngineOrigin, here: EngineOrigin) -> Answer:
        """Say whether an engine of a bundle may be loaded here; the options are those it has.

        A backend whose library proves more than equality says so here. Asked before the first byte
        of an engine is read into the library.

        Args:
            made: Where the engine was made.
            here: This process.
        """
        return made == here

    def deserialize(self, blob: bytes, subgraph: Subgraph) -> SubgraphOperator:
        """Restore an operator from what its ``serialize`` returned.

        A backend that overrides this has its engines cached. What is restored is, place by place,
        the subgraph that was compiled, but every name may differ and it may belong to another
        model: go by the position of inputs and outputs.

        Args:
            blob: What ``serialize`` returned; checked to be unchanged, and stored by this user or
                opened as a bundle that this user trusts.
            subgraph: The subgraph the operator is to run.

        Raises:
            NotImplementedError: If the backend's operators cannot be stored.
            Exception: If the engine does not fit here; it is then compiled again, unless it is that
                of a bundle.
        """
        del blob
        raise NotImplementedError(f"backend {self.name!r} cannot restore subgraph {subgraph.id!r}")

    def restore(self, blob: bytes, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        """Restore an operator, knowing the bind; what the core calls.

        The default is ``deserialize``. A backend whose engines need the bind, for its
        ``kept_folder`` say, overrides this one instead, and has its engines cached as well.

        Args:
            blob: As for ``deserialize``.
            subgraph: As for ``deserialize``.
            context: What the property is told that claimed the subgraph.

        Raises:
            Exception: As ``deserialize``.
        """
        del context
        return self.deserialize(blob, subgraph)
