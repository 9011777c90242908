"""Provides the same name as conflict_a."""

from collections.abc import Sequence

from subgraphkit.backend import Backend, SubgraphProperty


class Plugin(Backend):
    """Provides the same name as conflict_a."""

    name = "conflict"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []
