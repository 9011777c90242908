"""Binding: shapes in, every value typed, static arithmetic computed, backends chosen.

The second step of the road.
"""

from subgraphkit.binding.bound_model import BoundModel, bind
from subgraphkit.binding.shapes import Shapes, given_shapes, renaming

__all__ = ["BoundModel", "Shapes", "bind", "given_shapes", "renaming"]
