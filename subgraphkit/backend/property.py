"""Properties: one partitioning strategy of a backend, from first question to compiled operator.

Source: MXNet subgraph API, ``SubgraphProperty``. ``CreateSubgraphSelector`` is ``create_selector``,
``CreateSubgraphNode`` is ``create_operator``, ``reviewSubgraph`` is ``accept``, ``PrePartition`` is
``prepare`` and ``PostPartition`` is ``finish``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, cast

from typing_extensions import TypeVar

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.options import PlainOptions
from subgraphkit.backend.plugin_api import ContractClass
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.refusal import Answer, Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import BoundGraph, Node, Subgraph
from subgraphkit.limits import LoadLimits
from subgraphkit.types import Shape, ValueType

OptionsT = TypeVar("OptionsT", default=Any)
"""The class ``Options`` of a backend; without one, a type checker does not know the options."""

Reshape = Callable[[Mapping[str, int], Mapping[str, Shape]], Mapping[str, ValueType]]
"""Maps sizes of named dimensions and shapes of inputs to the types that follow."""

Connectivity = Literal["connected", "any"]
"""Whether a region must hang together or may consist of unconnected pieces."""


Side = Literal["input", "output"]
"""Where a value crosses the edge of a region."""


class PartitionSummary(Protocol):
    """A finished partitioning, read-only, as ``SubgraphProperty.finish`` gets it."""

    @property
    def model(self) -> str:
        """The name of the model, as in events."""

    @property
    def session(self) -> int:
        """The number of the session it is made for, as in events."""

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """All subgraphs, in an order in which they can run."""

    def refusals_by(self, backend: str) -> Mapping[int, Refusal]:
        """Return by node why nodes are not at home on a backend: the last reason for each.

        The reason is from its properties, or from the partition pass if a region is too small.
        """


def _no_bind(*_: Any) -> Any:
    raise LookupError("no fallback backend is available: the context is not that of a bind")


def _no_partition(subgraph: Subgraph, _: object) -> Any:
    raise LookupError(f"subgraph {subgraph.id!r} is divided while it is compiled, and not before")


@dataclass(frozen=True, slots=True)
class BindContext(Generic[OptionsT]):
    """The bind that a property works for: its options, and the means to compile.

    ``compile`` and ``partition`` are for ``create_operator`` and raise ``LookupError`` elsewhere.

    Attributes:
        options: The backend's options as attributes, validated, defaults filled in; a
            ``BindContext[Options]`` has those of the class ``Options``.
        compile: Compiles a subgraph on the fallback backend, like ``create_operator`` by default.
            Or it compiles every subgraph of a result of ``partition`` into one operator that runs
            them in order. In between, values live as long as they are read.
        partition: Divides a subgraph among properties that only it asks, in order. The rest goes to
            the fallback backend. Nodes keep their numbers. Raises ``Unsupported`` if nobody takes a
            node.
        kept_folder: Returns the folder for data that makes later binds quicker, such as timings,
            made if need be; None if nothing is to be kept. It is this user's alone, and files in it
            may be gone tomorrow.
        reshape: Returns the types of the model's values for other sizes of named dimensions and
            other shapes of inputs. They come on top of those given at bind. Raises
            ``InvalidModelError`` (SGK222) if these contradict the model.
        threads: The number of threads to compute with, unless an option of the backend says
            otherwise. None leaves it to the library, which has the machine for itself.
        shares_processors: Whether other pools compute between two runs of the operator. If so, no
            thread of this one may spin after a run. Known from ``create_operator`` and
            ``Backend.deserialize`` on.
        limits: How large values may be, and how much memory and time a compiler may take.
        progress: Told how far ``create_operator`` is, and asked by it whether to stop.
    """

    options: OptionsT = field(default_factory=cast(Any, PlainOptions))
    compile: Callable[[Subgraph | PartitionSummary], SubgraphOperator] = _no_bind
    partition: "Callable[[Subgraph, Sequence[SubgraphProperty]], PartitionSummary]" = _no_partition
    kept_folder: Callable[[], Path | None] = lambda: None
    reshape: Reshape = _no_bind
    threads: int | None = None
    shares_processors: bool = False
    limits: LoadLimits = field(default_factory=LoadLimits)
    progress: Progress = field(default_factory=Progress)


class SubgraphProperty(ContractClass, ABC):
    """One partitioning strategy of a backend.

    A backend lists one or several properties, and they are applied in order. Each bind gets new
    instances, so a property may keep state for the bind.

    Thread-safety: used by one thread at a time.
    """

    _left: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("accept_input", "accept_output"),
            'accept_boundary(node, value, side), with the side "input" or "output"',
        ),
        "duplicable": "nothing: no node is copied any more",
    }

    name: ClassVar[str] = ""
    """Name in reports; the class name if empty."""

    min_nodes: int = 1
    """Regions with fewer nodes are given back (``Constant`` nodes do not count)."""

    max_nodes: int | None = None
    """Regions with more nodes are cut where the fewest bytes cross, or given back if the selector
    is not ``splittable``; None for no limit. ``Constant`` nodes do not count."""

    connectivity: Connectivity = "connected"
    """``"connected"`` is MXNet's rule. ``"any"`` gives provably the fewest regions of the nodes
    taken: candidates from several seeds are divided anew together. Those of a selector that is not
    ``splittable`` stay as they were grown."""

    def prepare(self, graph: BoundGraph, context: BindContext) -> None:
        """Look at the whole graph before the first question is asked."""

    @abstractmethod
    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make a selector for one seed node; called once if the selector is stateless."""

    def accept(self, subgraph: Subgraph) -> Answer:
        """Review one finished candidate; a refusal gives its nodes to the next property.

        It may be asked again about the same nodes, because nodes that are given back make the rest
        grow again. So the answer should depend on the subgraph alone.
        """
        return True

    def accept_boundary(self, node: Node, value: str, side: Side) -> Answer:
        """Say whether a value may cross the edge of a region, by its dtype, say.

        Args:
            node: The node inside that reads or makes the value.
            value: Its name.
            side: ``"input"`` if it would enter at the node, ``"output"`` if it would leave there.
        """
        return True

    def groups(self, graph: BoundGraph) -> Iterable[Collection[int]]:
        """Name sets of nodes that must stay together or be left out together."""
        return ()

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        """Compile a region this property claimed.

        The default runs the region on the fallback backend, so that a backend may customise the
        selection alone (MXNet's default subgraph operator).

        Raises:
            Unsupported: To give nodes back; the region is then partitioned again without them.
        """
        return context.compile(subgraph)

    def finish(self, partitioning: PartitionSummary, context: BindContext) -> None:
        """Look at the finished partitioning before anything is compiled."""
