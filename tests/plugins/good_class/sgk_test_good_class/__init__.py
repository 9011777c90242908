"""A backend class that works."""

from collections.abc import Sequence
from typing import ClassVar

from subgraphkit.backend import Backend, Option, SubgraphProperty


class Plugin(Backend):
    """A plugin for tests."""

    name = "good_class"
    options: ClassVar[Sequence[Option]] = (Option("level", "int", 1, minimum=0),)

    def properties(self) -> Sequence[SubgraphProperty]:
        return []
