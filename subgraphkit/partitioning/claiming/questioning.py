"""What one property says of values that cross the edge of its regions, asked once each."""

from collections.abc import Callable

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.work_table import Workspace

__all__ = ["BorderQuestions", "overrides"]

_Question = Callable[[Node, str], object]


class BorderQuestions:
    """Asks ``accept_input`` and ``accept_output`` of one property.

    Answers are kept with the work table, so that a value is asked about once per side in a pass,
    whoever wants to know.

    Attributes:
        inputs: Whether the property answers ``accept_input`` itself.
        outputs: Whether the property answers ``accept_output`` itself.

    Args:
        inquiry: The property asked.
        index: Its place among those asked.
        workspace: The work table.
    """

    def __init__(self, inquiry: Inquiry, index: int, workspace: Workspace) -> None:
        self._inquiry = inquiry
        self._property = inquiry.claim.property
        self._index = index
        self._workspace = workspace
        self.inputs = overrides(self._property, "accept_input")
        self.outputs = overrides(self._property, "accept_output")

    def may_enter(self, node: Node, value: str) -> Refusal | None:
        """Ask whether a value may enter a region at a node; None means yes."""
        if not self.inputs:
            return None
        return self._ask("accept_input", self._property.accept_input, node, value)

    def may_leave(self, node: Node, value: str) -> Refusal | None:
        """Ask whether a value that a node makes may leave a region; None means yes."""
        if not self.outputs:
            return None
        return self._ask("accept_output", self._property.accept_output, node, value)

    def _ask(self, question: str, ask: _Question, node: Node, value: str) -> Refusal | None:
        answers, key = self._workspace.border_answers, (self._index, question, node.id, value)
        if key not in answers:
            refusal = self._inquiry.ask(question, node, lambda: ask(node, value), "SGK122")
            if refusal is not None and refusal.code == "declined":
                verb = "enter" if question == "accept_input" else "leave"
                type_ = self._workspace.graph.types.get(value)
                text = f"value {value!r} ({type_}) may not {verb} a subgraph of the backend here"
                refusal = Refusal("border", text)
            answers[key] = refusal
        return answers[key]


def overrides(property_: SubgraphProperty, name: str) -> bool:
    """Say whether a property answers a question itself, in its class or on the instance."""
    own = getattr(type(property_), name) is not getattr(SubgraphProperty, name)
    return own or name in vars(property_)
