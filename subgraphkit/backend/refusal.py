"""Refusals, with which a backend says no: a code for programs and a sentence for people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar, Final

from subgraphkit.errors import ConfigError
from subgraphkit.transport import Travelling

REFUSAL_CODES: Final[Mapping[str, str]] = {
    # what a backend says
    "op_unsupported": "the backend has no implementation of the operator",
    "opset": "the operator is known, this version of it is not",
    "attribute": "an attribute has a value the backend cannot take",
    "dtype": "an input or output has an element type the backend cannot take",
    "rank": "an input or output has a number of axes the backend cannot take",
    "shape": "an input or output has a shape the backend cannot take",
    "dynamic_shape": "a dimension is not known before running",
    "not_constant": "an input must be constant and is not",
    "border": "a value of this type may not cross the edge of a subgraph of the backend",
    "unprofitable": "the backend could, but expects to be slower",
    "pattern": "the node is not part of a pattern the property looks for",
    "declined": "the selector said no without giving a reason",
    "compile_failed": "the backend could not compile a subgraph with the node",
    # what the partition pass says
    "too_small": "the region would have fewer nodes than the property's minimum",
    "too_large": "the region would have more nodes than the property's maximum",
    "not_convex": "taking the node would make subgraphs wait on each other",
    "excluded": "the user excluded the node",
    "nan": "the backend makes a number of NaN here, and the user asked for NaN",
    "fed_size": "how much the node makes is fed, and the backend holds that to no limit",
    "pinned": "the user pinned the node to another backend",
    "group": "another node of an atomic group was refused",
    "filtered": "the selector's filter dropped the node",
    "not_accepted": "the property's review did not accept the region",
    "not_worth": "handing the region over would cost more than it gains",
}
"""Codes used by the core; a backend may add its own, in ``snake_case``."""

_SAYS_NOTHING: Final = "unknown"
_NO_REASON: Final = "the backend gave no reason"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A falsy answer with a reason.

    Return it wherever a selector or a property may answer ``bool``; the reason ends up in the
    report of the partitioning.

    Attributes:
        code: A key of ``REFUSAL_CODES``, or a ``snake_case`` code of the backend's own.
        text: One sentence for people: what is there and what the backend can take. Line breaks
            become spaces.

    Raises:
        ConfigError: The code is no identifier or says nothing (``"unknown"``), or the text is empty
            (SGK121).
    """

    code: str
    text: str

    def __post_init__(self) -> None:
        """Check that both say something, since a user has nothing else."""
        code: Any = self.code
        text: Any = self.text
        if not isinstance(code, str) or not code.isidentifier() or code == _SAYS_NOTHING:
            raise ConfigError(
                "SGK121",
                f"the code of a Refusal is {code!r}, expected a snake_case word for a reason",
                hint=f"Known codes: {', '.join(REFUSAL_CODES)}.",
            )
        if not isinstance(text, str) or not text or text.isspace():
            raise ConfigError(
                "SGK121",
                f"the text of a Refusal is {text!r}, expected one sentence for people",
                hint="Say what is there and what the backend can take.",
            )
        if "\n" in text or "\r" in text:
            object.__setattr__(self, "text", " ".join(text.split()))

    def __bool__(self) -> bool:
        """A refusal is always false."""
        return False

    def __str__(self) -> str:
        """Render as ``code: text``."""
        return f"{self.code}: {self.text}"


Answer = bool | Refusal
"""Yes, no, or no with a reason."""


class Unsupported(Travelling, NotImplementedError):  # noqa: N818 (the word of the contract)
    """Raised by ``SubgraphProperty.create_operator`` to give nodes of a subgraph back.

    The partition pass then repartitions that one region without the nodes. Any other exception is
    a failure and is reported as such.

    Attributes:
        nodes: Indices of the nodes to give back; empty means the whole subgraph.
    """

    _room: ClassVar[int] = 1 << 24  # every node matters

    def __init__(
        self, text: str, *, nodes: Iterable[int] = (), code: str = "compile_failed"
    ) -> None:
        """Build the exception.

        Args:
            text: One sentence for people.
            nodes: Indices of the nodes to give back, integers of any kind; empty means the whole
                subgraph.
            code: A refusal code.

        Raises:
            ConfigError: The code is no identifier or says nothing (SGK121).
        """
        super().__init__(text)
        # A compiler may fail without a word; the failure still counts.
        said = Refusal(code, text if text and not str(text).isspace() else _NO_REASON)
        self._said = said.code, said.text
        self.nodes: tuple[int, ...] = _plain(nodes)

    @property
    def refusal(self) -> Refusal:
        """The reason, kept in the report for every node given back."""
        return Refusal(*self._said)


def _plain(nodes: Any) -> Any:
    """Return whole numbers of any kind as a tuple; leave others for the pass to refuse."""
    try:
        listed = tuple(nodes)
    except TypeError:
        return nodes
    try:
        return tuple(node if isinstance(node, bool) else index(node) for node in listed)
    except TypeError:
        return listed
