# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.viewing.drawing import (
    colours_of,
)
from subgraphkit.viewing.pages import (
    fragment,
    page,
)
from subgraphkit.viewing.sections import (
    Arrow,
    Box,
    Drawing,
    Facts,
    Section,
    Table,
    Text,
)

__all__ = [
    "Arrow",
    "Box",
    "Drawing",
    "Facts",
    "Section",
    "Table",
    "Text",
    "colours_of",
    "fragment",
    "page",
]
