"""The backend under test, and how a case takes a model down the road with it.

Thread-safety: a subject may be used from several threads; its declarations are not to be changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.options import validate_options
from subgraphkit.binding import BoundModel, Shapes, bind
from subgraphkit.comparing import Tolerance, first_difference
from subgraphkit.comparing.bystander import Bystander
from subgraphkit.comparing.offers import Offer, offers_taken, variants_taken
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import (
    BackendUnavailableError,
    CallerError,
    ConfigError,
    ExecutionError,
    ModelError,
    SelectorContractError,
    SubgraphkitError,
    UnclaimedNodesError,
)
from subgraphkit.finding.registry import find_record, load_record
from subgraphkit.ir import Node
from subgraphkit.lazy import cached_property
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Constraints, Partitioning, partition
from subgraphkit.planning import plan
from subgraphkit.running import Session
from subgraphkit.testing.aliasing import bytes_of, shared
from subgraphkit.testing.blame import Blame, told
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.types import DataType

__all__ = ["SETTINGS", "DataSet", "Stopped", "Subject"]

DataSet = tuple[Mapping[str, Any], Sequence[Any]]
"""Feeds by input name, and the outputs expected, in the order of the graph."""

_FALLBACK: Final = "numpy"
_ORIGIN: Final = "the conformance kit"
SETTINGS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "strict": False,
        "on_missing": "error",
        "on_fallback": "ok",
        "require": {},
        "fallback": _FALLBACK,
        "on_unsupported": "repartition",
        "on_compile_error": "raise",
        "on_run_error": "raise",
        "checked": True,
        "fold": False,
        "cache": False,
    }
)
"""What the environment of the person who tests must not change.

Engines are neither kept nor found: those of thousands of cases would push the person's own out of
the cache, and a case whose engine was restored would not try the compiler."""


class Stopped(Exception):  # noqa: N818 (an ending, which need not be an error)
    """A case has ended before its last step.

    Attributes:
        finding: How it ended.
    """

    def __init__(self, outcome: Outcome, detail: str, taken: tuple[str, ...] = ()) -> None:
        self.finding = Finding(outcome, detail, taken)
        super().__init__(detail)


@dataclass(frozen=True)
class Subject:
    """The backend under test.

    Attributes:
        installed: The name it is installed by, or empty.
        distribution: The distribution it must come from, where several provide the name.
        target: Where its class is, as ``module:Class``, if it is tested without being installed.
        options: Values of its options, by name.
        models: A directory of further models to be tried, or empty.
        seed: Draws the cases that are random.
    """

    installed: str = ""
    distribution: str = ""
    target: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    models: str = ""
    seed: int = 0

    @cached_property
    def name(self) -> str:
        """Name of the backend.

        Raises:
            SubgraphkitError: It is tested without being installed, and cannot be loaded.
        """
        return self.installed or str(self.backend_class.name)

    @cached_property
    def backend_class(self) -> Any:
        """The factory of the backend: its class, or another with the same attributes.

        Raises:
            SubgraphkitError: It cannot be found or loaded.
        """
        if not self.target:
            choice = BackendChoice(self.installed, self.distribution, origin=_ORIGIN)
            return load_record(find_record(choice, resolve()))
        module, _, name = self.target.partition(":")
        found = attrgetter(name)(import_module(module))
        if not (isinstance(found, type) and issubclass(found, Backend)):
            raise ConfigError("SGK310", f"{self.target!r} is not a subclass of Backend")
        return found

    @cached_property
    def choice(self) -> BackendChoice:
        """The backend as an item of a selection."""
        return BackendChoice(
            self.name,
            self.distribution,
            options=self.options,
            target=self.backend_class if self.target else None,
            origin=_ORIGIN,
        )

    def described(self) -> dict[str, Any]:
        """Return the arguments that make the same subject in another process, as JSON has them."""
        return {
            "installed": self.installed,
            "distribution": self.distribution,
            "target": self.target,
            "options": dict(self.options),
        }

    def built(self) -> Any:
        """Build the backend with its options, past all that a bind would do about it.

        Raises:
            OptionError: It has no such option, or the option no such value (SGK110 to SGK112).
            Exception: Whatever the backend raises.
        """
        schema = tuple(self.backend_class.options)
        given = {name: (value, _ORIGIN) for name, value in self.options.items()}
        values = validate_options(self.name, schema, given)
        return self.backend_class(self.backend_class.option_class(**values))

    @cached_property
    def declarations(self) -> Conformance:
        """The declarations of the backend's author."""
        suite = Conformance()
        self.backend_class.conformance(suite)
        return suite

    @cached_property
    def claims(self) -> tuple[Offer, ...]:
        """What it takes of the catalogue of offers, found out once; nothing is compiled.

        Raises:
            Stopped: It takes none, and failed when it was asked about one.
        """
        return offers_taken(self._asked)

    def variants_claimed(self, offer: Offer) -> tuple[Offer, ...]:
        """Return the other types, ranks and sizes in which it takes an offer.

        Raises:
            Stopped: It failed when it was asked.
        """
        return variants_taken(self._asked, offer)

    def _asked(self, proto: Any) -> list[tuple[str, str]]:
        bound = self.bound(proto, backend=[self.choice, Bystander])
        nodes = self.nodes_taken(self.partitioned(bound))
        return [(node.op_type, next(filter(None, node.outputs), "")) for node in nodes]

    # -- the road, step by step --------------------------------------------------------------

    def bound(
        self, source: ModelSource | Model, shapes: Shapes | None = None, **settings: Any
    ) -> BoundModel:
        """Load and bind a model for this backend, whatever the environment says.

        Args:
            source: The model.
            shapes: As for ``bind``.
            **settings: Settings in place of the kit's own, such as other backends beside this one.

        Raises:
            SubgraphkitError: As ``load`` and ``bind``.
        """
        model = load(source, data_roots=settings.get("data_roots"))
        return bind(model, shapes, **{"backend": [self.choice], **SETTINGS, **settings})

    def partitioned(
        self, bound: BoundModel, constraints: Constraints | None = None
    ) -> Partitioning:
        """Let the backend claim what it takes, and the NumPy backend the rest.

        Raises:
            Stopped: It failed while being opened or asked, or nobody at all takes a node.
        """
        try:
            return partition(bound, constraints=constraints)
        except ConfigError:
            raise
        except UnclaimedNodesError as error:
            raise Stopped(Outcome.SKIP, told(error)) from error
        except SelectorContractError as error:
            raise Stopped(Outcome.FAIL_SELECT, told(error)) from error
        except SubgraphkitError as error:
            named = isinstance(error, BackendUnavailableError | CallerError) or hasattr(
                error, "backend"
            )
            raise Stopped(
                Outcome.FAIL_PROBE if named else Outcome.FAIL_SELECT, told(error)
            ) from error

    def compiled(self, partitioning: Partitioning) -> Session:
        """Compile what was claimed.

        Raises:
            Stopped: A backend failed to compile its subgraph.
        """
        taken = self.operators_taken(partitioning)
        try:
            return Session(plan(partitioning, compile_subgraphs(partitioning)))
        except UnclaimedNodesError as error:  # it gave back what nobody else computes
            raise Stopped(Outcome.SKIP, told(error), taken) from error
        except SubgraphkitError as error:
            others = getattr(error, "backend", self.name) != self.name
            outcome = Outcome.SKIP if others else Outcome.FAIL_COMPILE
            raise Stopped(outcome, told(error), taken) from error

    @contextmanager
    def session(
        self,
        source: ModelSource | Model,
        shapes: Shapes | None = None,
        *,
        constraints: Constraints | None = None,
        **settings: Any,
    ) -> Iterator[Session]:
        """Open a session on the backend with the NumPy backend beside it; close it at the end.

        Raises:
            Stopped: The model is refused, or the backend failed on the way.
        """
        with self.compiled(self._divided(source, shapes, constraints, settings)) as session:
            yield session

    def _divided(
        self,
        source: ModelSource | Model,
        shapes: Shapes | None,
        constraints: Constraints | None,
        settings: Mapping[str, Any],
    ) -> Partitioning:
        try:
            bound = self.bound(source, shapes, **settings)
        except ModelError as error:
            raise Stopped(Outcome.REFUSED, told(error)) from error
        return self.partitioned(bound, constraints)

    def run(self, session: Session, feeds: Mapping[str, Any]) -> list[Any]:
        """Run a session once.

        Raises:
            Stopped: A subgraph failed, or returned something other than it declared.
        """
        try:
            return session.run(None, feeds)
        except ExecutionError as error:
            taken = self.operators_taken(session.partitioning)
            found = self.blame.of_a_failure(session, feeds, error)
            raise Stopped(found.outcome, found.detail, taken) from error

    @property
    def blame(self) -> Blame:
        """What says whose fault it is that something is wrong."""
        return Blame(self.name, self.difference, self.declarations.tolerance_for)

    # -- what became of it -------------------------------------------------------------------

    def nodes_taken(self, partitioning: Partitioning) -> tuple[Node, ...]:
        """Return the nodes of the subgraphs that the backend has, ``Constant`` nodes apart."""
        return tuple(
            node
            for subgraph in partitioning.subgraphs
            if subgraph.backend == self.name
            for node in subgraph.members
        )

    def operators_taken(self, partitioning: Partitioning) -> tuple[str, ...]:
        """Return the operators of those nodes, each once."""
        return tuple(dict.fromkeys(node.op_type for node in self.nodes_taken(partitioning)))

    def difference(
        self,
        expected: Sequence[Any],
        actual: Sequence[Any],
        least: tuple[float, float] = (0.0, 0.0),
    ) -> Finding | None:
        """Compare results with what they should be, by the tolerances of their dtypes.

        Args:
            expected: The values as they should be.
            actual: The values as they are.
            least: Relative and absolute tolerance granted to every dtype that is not exact.

        Returns:
            None where all is right, or what is wrong.
        """
        if len(expected) != len(actual):
            text = f"{len(actual)} outputs, expected {len(expected)}"
            return Finding(Outcome.FAIL_RUN, text)

        def allowed(dtype: DataType) -> Tolerance:
            own = self.declarations.tolerance_for(dtype)
            return own.widened(*least) if own.relative else own

        for place, (want, have) in enumerate(zip(expected, actual, strict=True)):
            found = first_difference(have, want, allowed)
            if found is not None:
                return Finding(Outcome.wrong_at(found.stage), f"output {place}: {found.text}")
        return None

    def check_model(
        self,
        source: ModelSource | Model,
        data_sets: Iterable[DataSet],
        *,
        shapes: Shapes | None = None,
        constraints: Constraints | None = None,
        least: tuple[float, float] = (0.0, 0.0),
        of: Callable[[Node], bool] = lambda _: True,
        **settings: Any,
    ) -> Finding:
        """Take a model down the whole road and compare.

        Args:
            source: The model.
            data_sets: What to feed and to expect.
            shapes: As for ``bind``.
            constraints: As for ``partition``.
            least: As for ``difference``.
            of: Which of the nodes count as offered: it is enough that the backend takes one.
            **settings: As for ``bound``.

        Returns:
            How it ended; nothing is raised because of the backend, nor compiled if it takes none.
        """
        try:
            partitioning = self._divided(source, shapes, constraints, settings)
            if not self.nodes_taken(partitioning):
                return Finding(Outcome.UNCLAIMED)
            with self.compiled(partitioning) as session:
                taken = self.operators_taken(session.partitioning)
                claimed = any(map(of, self.nodes_taken(session.partitioning)))
                for feeds, expected in data_sets:
                    with untouched(feeds):
                        results = self.run(session, feeds)
                    found = self.difference(expected, results, least) or shared(feeds, results)
                    if found is not None:
                        found = self.blame.blamed(session, source, feeds, expected, results, found)
                        return replace(found, taken=taken)
        except Stopped as stop:
            return stop.finding
        return Finding(Outcome.RIGHT if claimed else Outcome.UNCLAIMED, taken=taken)


@contextmanager
def untouched(feeds: Mapping[str, Any]) -> Iterator[None]:
    """Watch over the arrays that are fed.

    Raises:
        Stopped: One of them was written to.
    """
    before = {name: bytes_of(value) for name, value in feeds.items()}
    yield
    for name, value in feeds.items():
        if bytes_of(value) != before[name]:
            raise Stopped(Outcome.FAIL_ALIAS, f"input {name!r} was written to")
