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

from subgraphkit import errors
from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.contract import Backend, option_class_of
from subgraphkit.backend.options import validate_options
from subgraphkit.binding import BoundModel, bind
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.finding.registry import find_record, load_record
from subgraphkit.ir import Node
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome, Stopped
from subgraphkit.testing.comparison import REFERENCE, ResultJudge, text_of, watch_feeds
from subgraphkit.testing.foreign import Stub
from subgraphkit.testing.probe_models import ProbeModel, models_claimed

DataSet = tuple[Mapping[str, Any], Sequence[Any]]
"""Feeds by input name, and the outputs expected, in the order of the graph."""

_ORIGIN: Final = "the conformance kit"
SETTINGS: Final[Mapping[str, Any]] = {
    "strict": False,
    "on_missing": "error",
    "on_fallback": "ok",
    "require": {},
    "fallback": REFERENCE,
    "on_unsupported": "repartition",
    "on_compile_error": "raise",
    "on_run_error": "raise",
    "checked": True,
    "fold": False,
    "cache": False,
    "limits": "max_value_bytes=0",
}
"""Settings that the environment of the tester must not change.

Engines are neither kept nor found. Those of thousands of cases would push the tester's own out of
the cache, and a restored engine would not try the compiler. No value is too large, so that a
backend without limits may take nodes of fed sizes, too.
"""


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
        complete: Whether cases try all of their subject, even if time is short.
    """

    installed: str = ""
    distribution: str = ""
    target: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    models: str = ""
    seed: int = 0
    complete: bool = False

    @cached_property
    def name(self) -> str:
        """Name of the backend; SubgraphkitError if it is not installed, and cannot be loaded."""
        return self.installed or str(self.backend_class.name)

    @cached_property
    def backend_class(self) -> Any:
        """The class of the backend, or another factory; SubgraphkitError if it cannot be loaded."""
        if not self.target:
            choice = BackendChoice(self.installed, self.distribution, origin=_ORIGIN)
            return load_record(find_record(choice, resolve()))
        module, _, name = self.target.partition(":")
        found = attrgetter(name)(import_module(module))
        if not (isinstance(found, type) and issubclass(found, Backend)):
            raise errors.ConfigError("SGK310", f"{self.target!r} is not a subclass of Backend")
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

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments that make the same subject in another process, as JSON has them."""
        names = ("installed", "distribution", "target")
        return {name: getattr(self, name) for name in names} | {"options": dict(self.options)}

    def build(self) -> Any:
        """Build the backend with its options, past all that a bind would do about it.

        OptionError if it has no such option, or value (SGK110 to SGK112); or what the backend
        raises.
        """
        schema = tuple(self.backend_class.options)
        given = {name: (value, _ORIGIN) for name, value in self.options.items()}
        values = validate_options(self.name, schema, given)
        return self.backend_class(option_class_of(self.backend_class)(**values))

    @cached_property
    def declarations(self) -> Conformance:
        """The declarations of the backend's author."""
        suite = Conformance()
        self.backend_class.conformance(suite)
        return suite

    @cached_property
    def claims(self) -> tuple[ProbeModel, ...]:
        """The probe models that it takes, nothing compiled; Stopped if it fails on each."""
        return models_claimed(self.nodes_claimed)

    def nodes_claimed(self, proto: Any) -> list[tuple[str, str]]:
        """Return the operators that it takes, each with a name of the node's output."""
        bound = self.bind(proto, backend=[self.choice, Stub])
        nodes = self.nodes_taken(self.partition(bound))
        return [(node.op_type, next(filter(None, node.outputs), "")) for node in nodes]

    # -- the road, step by step --------------------------------------------------------------

    def bind(self, source: ModelSource | Model, **settings: Any) -> BoundModel:
        """Load and bind a model for this backend, in any environment.

        ``settings``: Those in place of the kit's own, such as other backends beside this one.
        """
        return bind(source, **{"backend": [self.choice], **SETTINGS, **settings})

    def partition(self, bound: BoundModel) -> Partitioning:
        """Let the backend claim its nodes, and NumPy the rest; Stopped if either fails."""
        try:
            return partition(bound)
        except errors.ConfigError:
            raise
        except errors.UnclaimedNodesError as error:
            raise Stopped(Outcome.SKIP, text_of(error)) from error
        except errors.SelectorContractError as error:
            raise Stopped(Outcome.FAIL_SELECT, text_of(error)) from error
        except errors.SubgraphkitError as error:
            is_of_all = isinstance(error, errors.BackendUnavailableError | errors.CallerError)
            named = is_of_all or hasattr(error, "backend")
            outcome = Outcome.FAIL_PROBE if named else Outcome.FAIL_SELECT
            raise Stopped(outcome, text_of(error)) from error

    def compile_session(self, partitioning: Partitioning) -> Session:
        """Compile the claims; Stopped if a backend fails at its subgraph."""
        taken = self.operators_taken(partitioning)
        try:
            return Session(partitioning)
        except errors.UnclaimedNodesError as error:  # it gave back nodes that nobody else computes
            raise Stopped(Outcome.SKIP, text_of(error), taken) from error
        except errors.SubgraphkitError as error:
            others = getattr(error, "backend", self.name) != self.name
            outcome = Outcome.SKIP if others else Outcome.FAIL_COMPILE
            raise Stopped(outcome, text_of(error), taken) from error

    @contextmanager
    def session(self, source: ModelSource | Model, **settings: Any) -> Iterator[Session]:
        """Open a session on the backend with the NumPy backend beside it; close it at the end.

        Stopped if the model is refused, the backend fails, or takes no node (``UNCLAIMED``).
        """
        try:
            bound = self.bind(source, **settings)
        except errors.ModelError as error:
            raise Stopped(Outcome.REFUSED, text_of(error)) from error
        partitioning = self.partition(bound)
        if not self.nodes_taken(partitioning):
            raise Stopped(Outcome.UNCLAIMED, "")
        with self.compile_session(partitioning) as session:
            if not self.nodes_taken(session.partitioning):
                raise Stopped(Outcome.UNCLAIMED, "it gave back all that it had claimed")
            yield session

    def run(self, session: Session, feeds: Mapping[str, Any]) -> list[Any]:
        """Run a session once; Stopped if a subgraph fails, or returns other types than declared."""
        try:
            return session.run(None, feeds)
        except errors.ExecutionError as error:
            taken = self.operators_taken(session.partitioning)
            found = self.judge.of_a_failure(session, feeds, error)
            raise Stopped(found.outcome, found.detail, taken) from error

    @property
    def judge(self) -> ResultJudge:
        """The judge of results: whether they are right, and whose fault it is if not."""
        return ResultJudge(self.name, self.declarations)

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

    def check(
        self,
        source: ModelSource | Model,
        check: Callable[[Session], Finding | None],
        *,
        of: Callable[[Node], bool] = lambda _: True,
        **road: Any,
    ) -> Finding:
        """Take a model down the road, and let a check find fault with the session.

        ``check``: Returns the fault, or None. ``of``: Which of the nodes count as offered. Nothing
        is raised because of the backend, nor compiled if it takes no node.
        """
        taken: tuple[str, ...] = ()
        claimed = False
        try:
            with self.session(source, **road) as session:
                taken = self.operators_taken(session.partitioning)
                claimed = any(map(of, self.nodes_taken(session.partitioning)))
                found = check(session)
        except Stopped as stop:
            found = stop.finding
        found = found or Finding(Outcome.RIGHT if claimed else Outcome.UNCLAIMED)
        return replace(found, taken=found.taken or taken)

    def check_model(
        self,
        source: ModelSource | Model,
        data_sets: Iterable[DataSet],
        *,
        least: tuple[float, float] = (0.0, 0.0),
        **road: Any,
    ) -> Finding:
        """Take a model down the whole road and compare, as ``check``.

        ``least``: Relative and absolute tolerance granted to every dtype that is not exact.
        """
        judge = replace(self.judge, least=least)

        def check(session: Session) -> Finding | None:
            for feeds, expected in data_sets:
                with watch_feeds(feeds):
                    results = self.run(session, feeds)
                found = judge.verdict(session, feeds, expected, results)
                if found is not None:
                    return found
            return None

        return self.check(source, check, **road)
