"""The selector: nodes that all sieves let through."""

from collections.abc import Mapping
from typing import ClassVar

from subgraphkit.backend import Answer, Refusal, SubgraphSelector
from subgraphkit.ir import Node

__all__ = ["TensorRTSelector"]


class TensorRTSelector(SubgraphSelector):
    """Takes every node that was not refused when the graph was prepared.

    Args:
        refusals: By node, why it is not taken; looked at when asked, so it may still grow.
    """

    stateless: ClassVar[bool] = True

    def __init__(self, refusals: Mapping[int, Refusal]) -> None:
        self._refusals = refusals

    def select(self, node: Node) -> Answer:
        """Look the node up."""
        return self._refusals.get(node.id, True)
