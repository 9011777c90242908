"""Has no manifest, and works."""

from collections.abc import Sequence

from subgraphkit.backend import Backend, SubgraphProperty


class Plugin(Backend):
    """Has no manifest, and works."""

    name = "no_manifest"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []
