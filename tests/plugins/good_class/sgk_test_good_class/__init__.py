"""A backend class that works."""

from collections.abc import Sequence

from sgk_test_good_class.backend_options import Options

from subgraphkit.backend import Backend, SubgraphProperty


class Plugin(Backend[Options]):
    """A plugin for tests."""

    name = "good_class"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []
