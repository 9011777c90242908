"""Its class does not bear the name of its entry point."""

from collections.abc import Sequence

from subgraphkit.backend import Backend, SubgraphProperty


class Plugin(Backend):
    """Its class does not bear the name of its entry point."""

    name = "another_name"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []
