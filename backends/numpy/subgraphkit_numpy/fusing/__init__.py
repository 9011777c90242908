"""The second level of partitioning: groups of nodes that one kernel computes, tile by tile.

A result is computed in tiles small enough to stay in a core's cache. What follows a product, a
convolution or nothing at all, as long as it is elementwise or looks at whole rows, is applied to
each tile at once instead of in passes over main memory, and tiles are shared between threads.

Selectors of the project's own contract decide which nodes make a group (``selecting``).
"""

from subgraphkit_numpy.fusing.making import make_group
from subgraphkit_numpy.fusing.menu import ANCHORS, Menu
from subgraphkit_numpy.fusing.selecting import Group, find_groups

__all__ = ["ANCHORS", "Group", "Menu", "find_groups", "make_group"]
